// flotilla funding eval RUN: what a trained policy earns on windows it has not seen, beside others.
#include <fmt/format.h>

#include <memory>

#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/funding/commands/commands.h"
#include "flotilla/domains/funding/evaluation/judgement.h"
#include "flotilla/report/text_table.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string run, checkpoint = "last", levels = "test";
  int windows = 200, threads = cpu_count();
  uint64_t seed = 9999;
  bool json = false;
};

Json judged_json(const funding::Judged& judged) {
  return {{"pnl_pct", judged.pnl_pct.mean},
          {"ci95", judged.pnl_pct.ci95},
          {"drawdown_pct", judged.drawdown_pct},
          {"trades", judged.trades},
          {"win_rate", judged.win_rate},
          {"profit_factor", judged.profit_factor},
          {"score", judged.score}};
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

void print(const funding::Judgement& judgement, const EvalArguments& arguments) {
  const std::vector<std::vector<std::string>> rows = {
      {"", "P&L %", "drawdown %", "trades", "wins", "profit factor", "score"},
      row_of("cash", judgement.cash),
      row_of("random allowed actions", judgement.random),
      row_of("best APR", judgement.best_apr),
      row_of("trained", judgement.trained),
      row_of("hindsight", judgement.hindsight)};
  display(text_table(rows, terminal_width(Stream::kOut)));
  display(fmt::format("\n{} of levels={}, means and 95 % intervals\n",
                      counted(arguments.windows, "window"), arguments.levels));
  const auto& best = judgement.above_best_apr;
  const auto& random = judgement.above_random;
  display(fmt::format("above best APR: {:.2f} +- {:.2f} points\n", best.mean, best.ci95));
  display(fmt::format("above random allowed actions: {:.2f} +- {:.2f} points\n", random.mean,
                      random.ci95));
  display(fmt::format("{:.0f} % of hindsight\n", 100 * judgement.share()));
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  const PolicyFile file = find_policy(arguments.run, arguments.checkpoint);
  if (file.origin.env != "funding") {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is of '{}', not of funding", file.tensors.origin, file.origin.env));
  }
  const EnvType& type = env_of(program.registry, file);
  Config config = env_config_of(file, type);
  if (config.get_text("rules") != "fixed") {
    throw Error(ErrorCode::kUsage,
                file.tensors.origin + ": was trained with rules=era; expected fixed");
  }
  config.set("levels", arguments.levels);
  const auto policy = make_policy(file, type.spec(config, file.origin.time_limit),
                                  {.factory = program.policy_factory});
  ThreadPool pool(arguments.threads);
  const funding::Judgement judgement =
      funding::judge(type, config, *policy, arguments.windows, eval_seed(arguments.seed), pool);
  if (!arguments.json) return print(judgement, arguments);
  const Json json = {{"windows", arguments.windows},
                     {"levels", arguments.levels},
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
                     {"seed", arguments.seed},
                     {"policy", file.tensors.origin}};
  display_data(json.dump() + "\n");
}

}  // namespace

void add_funding_eval(Command& funding, Program& program) {
  Command& command =
      funding.add("eval", "what a policy earns on windows it has not seen, beside other traders");
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  command.option("run", a.run, "directory of a run, or a policy file").required();
  command.option("--checkpoint", a.checkpoint, "last, best, or a step (default last)");
  command.option("--windows", a.windows, "that are traded (default 200)").range(2, 100'000);
  command.option("--levels", a.levels, "part of the market: test (default), validation or train")
      .choices({"train", "validation", "test"});
  command.option("--seed", a.seed, "of the windows (default 9999)");
  command.option("--threads", a.threads, "for hindsight (default: as many as CPUs)").range(1, 1024);
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
