// flotilla funding eval RUN: what a trained policy earns on windows it has not seen, beside others.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/commands/judged_policy.h"
#include "flotilla/domains/funding/evaluation/judgement.h"
#include "flotilla/domains/funding/figures/equity_figure.h"
#include "flotilla/report/text_table.h"

namespace flotilla {
namespace {

struct EvalArguments {
  JudgeArguments judge;
  std::string trades, svg;
  int windows = 200, threads = cpu_count();
  bool json = false;
};

std::string where(const EvalArguments& arguments) {
  return arguments.judge.data.empty() ? "levels=" + arguments.judge.levels : arguments.judge.data;
}

Json judged_json(const funding::Judged& judged) {
  return {{"pnl_pct", judged.pnl_pct.mean},
          {"ci95", judged.pnl_pct.ci95},
          {"drawdown_pct", judged.drawdown_pct},
          {"trades", judged.trades},
          {"win_rate", judged.win_rate},
          {"profit_factor", judged.profit_factor},
          {"score", judged.score},
          {"funding", judged.funding},
          {"price_pnl", judged.price_pnl},
          {"fees", judged.fees}};
}

std::vector<std::string> row_of(const char* name, const funding::Judged& judged) {
  return {name,
          fmt::format("{:.2f} +- {:.2f}", judged.pnl_pct.mean, judged.pnl_pct.ci95),
          fmt::format("{:.2f}", judged.drawdown_pct),
          fmt::format("{:.1f}", judged.trades),
          number_or_dash("{:.0f} %", 100 * judged.win_rate),
          number_or_dash("{:.2f}", judged.profit_factor),
          number_or_dash("{:.2f}", judged.score)};
}

void print(const funding::Judgement& judgement, const JudgedPolicy& judged,
           const EvalArguments& arguments) {
  const std::vector<std::vector<std::string>> rows = {
      {"", "P&L %", "drawdown %", "trades", "wins", "profit factor", "score"},
      row_of("cash", judgement.cash),
      row_of("random allowed actions", judgement.random),
      row_of("best APR", judgement.best_apr),
      row_of("trained", judgement.trained),
      row_of("hindsight", judgement.hindsight)};
  display(text_table(rows, terminal_width(Stream::kOut)));
  display(fmt::format("\n{} of {}{}, means and 95 % intervals\n",
                      counted(arguments.windows, "window"), where(arguments),
                      judged.seen_in_training ? ", days of training among them" : ""));
  const auto& best = judgement.above_best_apr;
  const auto& random = judgement.above_random;
  display(fmt::format("above best APR: {:.2f} +- {:.2f} points\n", best.mean, best.ci95));
  display(fmt::format("above random allowed actions: {:.2f} +- {:.2f} points\n", random.mean,
                      random.ci95));
  display(fmt::format("{:.0f} % of hindsight\n", 100 * judgement.share()));
  display(fmt::format("checkpoint {}: {}\n", judged.checkpoint, judged.origin));
}

void print_json(const funding::Judgement& judgement, const JudgedPolicy& judged,
                const EvalArguments& arguments) {
  const Json json = {
      {"windows", arguments.windows},
      {"levels", arguments.judge.data.empty() ? Json(arguments.judge.levels) : Json()},
      {"data", judged.config.get_text("data")},
      {"seen_in_training", judged.seen_in_training},
      {"trained", judged_json(judgement.trained)},
      {"cash", judged_json(judgement.cash)},
      {"best_apr", judged_json(judgement.best_apr)},
      {"random_allowed", judged_json(judgement.random)},
      {"hindsight", judged_json(judgement.hindsight)},
      {"above_best_apr", judgement.above_best_apr.mean},
      {"above_best_apr_ci95", judgement.above_best_apr.ci95},
      {"above_random", judgement.above_random.mean},
      {"above_random_ci95", judgement.above_random.ci95},
      {"share_of_hindsight", judgement.share()},
      {"seed", arguments.judge.seed},
      {"checkpoint", judged.checkpoint},
      {"policy", judged.origin}};
  display_data(json.dump() + "\n");
}

// What was asked for besides.
void write_files(const funding::Traded& traded, const JudgedPolicy& judged,
                 const EvalArguments& arguments) {
  if (arguments.trades.empty() && arguments.svg.empty()) return;
  const funding::Funding env(judged.config);
  const auto trained = traces(env, traded.trained);
  if (!arguments.trades.empty()) {
    write_report(arguments.trades, ".csv", trades_csv(env, traded.trained, trained));
  }
  if (arguments.svg.empty()) return;
  write_report(arguments.svg, ".svg",
               funding::equity_svg({{"trained", trained},
                                    {"best APR", traces(env, traded.best_apr)},
                                    {"random allowed actions", traces(env, traded.random)},
                                    {"hindsight", traces(env, traded.hindsight)}}));
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  if (!arguments.trades.empty()) require_report_place(arguments.trades, ".csv");
  if (!arguments.svg.empty()) require_report_place(arguments.svg, ".svg");
  const JudgedPolicy judged = read_judged_policy(program, arguments.judge);
  ThreadPool pool(arguments.threads);
  const funding::Traded traded =
      funding::trade_all(judged.type, judged.config, *judged.policy, arguments.windows,
                         eval_seed(arguments.judge.seed), pool);
  const funding::Judgement judgement = judge(traded);
  if (arguments.json) {
    print_json(judgement, judged, arguments);
  } else {
    print(judgement, judged, arguments);
  }
  write_files(traded, judged, arguments);
}

}  // namespace

void add_funding_eval(Command& funding, Program& program) {
  Command& command =
      funding.add("eval", "what a policy earns on windows it has not seen, beside other traders");
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  a.judge.add_to(command);
  command.option("--windows", a.windows, "that are traded (default 200)").range(2, 100'000);
  command.option("--trades", a.trades, "CSV file to write: every trade of the policy");
  command.option("--svg,--out", a.svg, "SVG file to write: equity and drawdown of all traders");
  command.option("--threads", a.threads, "for hindsight (default: as many as CPUs)").range(1, 1024);
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
