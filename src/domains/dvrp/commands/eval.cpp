// flotilla dvrp eval RUN: what a trained negotiator saves, by a solver that had no part in it.
#include <fmt/format.h>

#include <memory>

#include "flotilla/command/status_line.h"
#include "flotilla/core/json.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/referee_arguments.h"
#include "flotilla/domains/dvrp/negotiation/judgement.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string run, checkpoint = "last";
  int days = 300;
  dvrp::JudgeOptions options;
  RefereeArguments referee;
  bool no_ceiling = false, json = false;
};

Json judgement_json(const dvrp::Judgement& judgement) {
  const dvrp::Judged& trained = judgement.trained;
  Json json = {{"baseline", judgement.baseline},
               {"random_allowed", judgement.random.cost},
               {"trained", trained.cost},
               {"ceiling", nullptr},
               {"saving_pct", trained.saving_pct.mean},
               {"saving_ci95", trained.saving_pct.ci95},
               {"acceptance", trained.acceptance},
               {"acceptance_nonzero", trained.acceptance_nonzero},
               {"offered_nonzero", trained.offered_nonzero},
               {"random_saving_pct", judgement.random.saving_pct.mean},
               {"random_saving_ci95", judgement.random.saving_pct.ci95},
               {"above_random_pct", judgement.above_random_pct.mean},
               {"above_random_ci95", judgement.above_random_pct.ci95},
               {"ceiling_saving_pct", nullptr},
               {"share_of_ceiling", nullptr}};
  if (judgement.ceiling) {
    json["ceiling"] = judgement.ceiling->cost;
    json["ceiling_saving_pct"] = judgement.ceiling->saving_pct.mean;
    json["share_of_ceiling"] = judgement.share();
  }
  return json;
}

void print_row(const char* name, const dvrp::Judged& judged) {
  fmt::print("{:<26}{:>10.2f}{:>14}{:>13.3f}{:>13.3f}{:>13}\n", name, judged.cost,
             fmt::format("{:.2f} +- {:.2f}", judged.saving_pct.mean, judged.saving_pct.ci95),
             judged.acceptance, judged.offered_nonzero,
             judged.offered_nonzero > 0 ? fmt::format("{:.3f}", judged.acceptance_nonzero) : "-");
}

void print(const dvrp::Judgement& judgement) {
  fmt::print("{:<26}{:>10}{:>14}{:>13}{:>13}{:>13}\n", "", "minutes", "saving %", "accepted",
             "shifts asked", "accepted");
  fmt::print("{:<26}{:>10.2f}\n", "no negotiation", judgement.baseline);
  print_row("random allowed offers", judgement.random);
  print_row("trained", judgement.trained);
  if (judgement.ceiling) print_row("S*: the whole day known", *judgement.ceiling);
  fmt::print("\nabove random allowed offers: {:.2f} +- {:.2f} points\n",
             judgement.above_random_pct.mean, judgement.above_random_pct.ci95);
  if (judgement.ceiling) fmt::print("{:.0f} % of S*\n", 100 * judgement.share());
}

void evaluate(const Program& program, EvalArguments& arguments) {
  const TrainedNegotiator trained =
      read_negotiator(program.registry, arguments.run, arguments.checkpoint);
  ThreadPool pool(arguments.referee.threads);
  const dvrp::Referee referee = arguments.referee.make(trained.config.get_text("data"), pool);
  const auto days =
      trained.days({0, arguments.days}, arguments.options.seed, arguments.referee.threads);
  arguments.options.ceiling = !arguments.no_ceiling;
  say(trained.file.tensors.origin + "\n");
  const dvrp::Judgement judgement = judge(*days, *trained.policy, referee, arguments.options, pool,
                                          [](const std::string& line) { say(line + "\n"); });
  if (!arguments.json) return print(judgement);
  Json json = judgement_json(judgement);
  json["instances"] = arguments.days;
  json["seed"] = arguments.options.seed;
  json["referee"] = arguments.referee.name;
  json["policy"] = trained.file.tensors.origin;
  fmt::print("{}\n", json.dump());
}

}  // namespace

void add_dvrp_eval(Command& dvrp, Program& program) {
  Command& command =
      dvrp.add("eval", "what a trained negotiator saves, by a solver that had no part in it");
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  command.option("run", a.run, "directory of a run, or a policy file").required();
  command.option("--checkpoint", a.checkpoint, "last, best, or a step (default last)");
  a.referee.add_to(command);
  command.option("--instances", a.days, "days that are judged (default 300)").range(2, 100'000);
  command.option("--seed", a.options.seed, "of these days (default 9999)");
  command.flag("--no-ceiling", a.no_ceiling,
               "leave out S*, the search over allowed shifts of whole days");
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
