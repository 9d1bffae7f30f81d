// flotilla funding show RUN: one window as it was traded.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/file.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/commands/judged_policy.h"
#include "flotilla/domains/funding/evaluation/hindsight.h"
#include "flotilla/domains/funding/figures/window_figure.h"
#include "flotilla/env/frame_stack.h"
#include "flotilla/train/baselines.h"

namespace flotilla {
namespace {

struct ShowArguments {
  JudgeArguments judge;
  std::string trader = "trained", out;
  int window = 0;
};

// The last of so many windows, which are those that `eval` trades.
funding::Window traded_window(const JudgedPolicy& judged, const ShowArguments& arguments) {
  const int count = arguments.window + 1;
  const uint64_t seed = eval_seed(arguments.judge.seed);
  if (arguments.trader == "trained") {
    return funding::Windows(judged.type, judged.config, count, seed)
        .play(funding::policy_trader(*judged.policy))
        .back();
  }
  Config plain = judged.config;
  plain.set(kFrameStackKey, "1");
  const funding::Windows windows(judged.type, plain, count, seed);
  const funding::Funding& env = windows.env();
  if (arguments.trader == "best_apr") {
    return windows.play(best_apr_trader(env.tables().scaler, env.rules())).back();
  }
  if (arguments.trader == "random_allowed") {
    return windows.play(random_player(env.spec(), seed)).back();
  }
  return trade_with_hindsight(env, windows.play(funding::cash_trader()).back());
}

void show(const Program& program, const ShowArguments& arguments) {
  const Activity playing("trading a window");
  require_report_place(arguments.out, ".svg");
  const JudgedPolicy judged = read_judged_policy(program, arguments.judge);
  const funding::Window window = traded_window(judged, arguments);
  const funding::Funding env(judged.config);
  const funding::Trace played = trace(env, window);
  write_report(arguments.out, ".svg", window_svg(env, window, played, arguments.trader));
  display(fmt::format("{}: {}, P&L {:.2f} %\n", arguments.out,
                      counted(static_cast<int64_t>(played.trades.size()), "trade"),
                      window.pnl_pct));
}

}  // namespace

void add_funding_show(Command& funding, Program& program) {
  Command& command = funding.add("show", "draw a window: price gaps, funding, entries and exits");
  auto arguments = std::make_shared<ShowArguments>();
  ShowArguments& a = *arguments;
  a.judge.add_to(command);
  command.option("--window", a.window, "which of those that `funding eval` trades (default 0)")
      .range(0, 9999);
  command
      .option("--trader", a.trader,
              "who trades it: trained (default), best_apr, random_allowed or hindsight")
      .choices({"trained", "best_apr", "random_allowed", "hindsight"});
  command.option("--out", a.out, "SVG file to write").required();
  command.action([&program, arguments] { show(program, *arguments); });
}

}  // namespace flotilla
