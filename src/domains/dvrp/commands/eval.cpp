// flotilla dvrp eval RUN: what a trained negotiator saves on days it has not seen, by a solver.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/judged_days.h"
#include "flotilla/domains/dvrp/commands/limit_options.h"
#include "flotilla/report/text_table.h"

namespace flotilla {
namespace {

struct EvalArguments {
  std::string run;
  JudgedDays judge{300};
  bool json = false, by_day = false;
};

// The names that --json has at its top for the trained one.
Json judged_json(const dvrp::Judged& judged) {
  return {{"minutes", judged.cost},
          {"saving_pct", judged.saving_pct.mean},
          {"saving_ci95", judged.saving_pct.ci95},
          {"acceptance", judged.acceptance},
          {"acceptance_nonzero", judged.acceptance_nonzero},
          {"offered_nonzero", judged.offered_nonzero},
          {"shifted_minutes", judged.shifted_minutes},
          {"ride_minutes", judged.ride_minutes},
          {"excess_minutes", judged.excess_minutes},
          {"moved", judged.moved},
          {"longest_excess_minutes", judged.longest_excess}};
}

Json negotiators_json(const dvrp::Judgement& judgement, bool by_day) {
  Json by;
  const auto add = [&by, by_day](const char* name, const dvrp::Judged& judged) {
    by[name] = judged_json(judged);
    if (by_day) by[name]["minutes_by_day"] = Json::Array(judged.costs.begin(), judged.costs.end());
  };
  add("no_negotiation", judgement.none);
  add("random_allowed", judgement.random);
  add("least_detour", judgement.least_detour);
  add("trained", judgement.trained);
  if (judgement.ceiling) add("ceiling", *judgement.ceiling);
  return by;
}

Json judgement_json(const dvrp::Judgement& judgement, bool by_day) {
  const dvrp::Judged& trained = judgement.trained;
  Json json = {{"baseline", judgement.none.cost},
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
  json["above_least_detour_pct"] = judgement.above_least_detour_pct.mean;
  json["above_least_detour_ci95"] = judgement.above_least_detour_pct.ci95;
  json["by_negotiator"] = negotiators_json(judgement, by_day);
  return json;
}

std::vector<std::string> row_of(const char* name, const dvrp::Judged& judged,
                                bool negotiated = true) {
  const auto share = [](double part) { return fmt::format("{:.0f} %", 100 * part); };
  const dvrp::Estimate& saving = judged.saving_pct;
  return {name,
          fmt::format("{:.2f}", judged.cost),
          negotiated ? fmt::format("{:.2f} +- {:.2f}", saving.mean, saving.ci95) : "",
          negotiated ? share(judged.offered_nonzero) : "",
          judged.offered_nonzero > 0 ? share(judged.acceptance_nonzero) : "",
          negotiated ? fmt::format("{:.1f}", judged.shifted_minutes) : "",
          fmt::format("{:.1f}", judged.ride_minutes),
          fmt::format("{:.1f}", judged.excess_minutes)};
}

constexpr const char* kLegend =
    "asked: travellers who are offered a shift; yes: of these, those who accept\n"
    "shift: minutes that windows are moved; ride: minutes on board; excess: of the\n"
    "ride, what the direct way would not take; means over all travellers\n";

void print(const dvrp::Judgement& judgement) {
  std::vector<std::vector<std::string>> rows = {
      {"", "minutes", "saving %", "asked", "yes", "shift", "ride", "excess"},
      row_of("no negotiation", judgement.none, false),
      row_of("random allowed offers", judgement.random),
      row_of("least detour", judgement.least_detour),
      row_of("trained", judgement.trained)};
  if (judgement.ceiling) rows.push_back(row_of("S*: the whole day known", *judgement.ceiling));
  display(text_table(rows, terminal_width(Stream::kOut)));
  display(fmt::format("\nabove random allowed offers: {:.2f} +- {:.2f} points\n",
                      judgement.above_random_pct.mean, judgement.above_random_pct.ci95));
  display(fmt::format("above the least detour: {:.2f} +- {:.2f} points\n",
                      judgement.above_least_detour_pct.mean,
                      judgement.above_least_detour_pct.ci95));
  if (judgement.ceiling && std::isfinite(judgement.share())) {  // else S* saves nothing
    display(fmt::format("{:.0f} % of S*\n", 100 * judgement.share()));
  }
  display(std::string("\n") + kLegend);
}

void evaluate(const Program& program, const EvalArguments& arguments) {
  const Activity judging("judging");
  const DayOptions& which = arguments.judge.days;
  const RefereeArguments& judge_by = arguments.judge.referee;
  const TrainedNegotiator trained =
      read_negotiator(program.registry, arguments.run, which.checkpoint);
  ThreadPool pool(judge_by.threads);
  const dvrp::Referee referee = judge_by.make_for(trained.config, pool);
  const auto days = trained.days({0, which.count}, which.seed, judge_by.threads);
  say(trained.file.tensors.origin + "\n");
  const dvrp::Contender contender{.days = days.get(), .policy = trained.policy.get()};
  const dvrp::Judgement judgement =
      judge({&contender, 1}, referee, arguments.judge.options(), pool, [](const std::string& line) {
        say(line + "\n");
      }).front();
  if (!arguments.json) return print(judgement);
  Json json = judgement_json(judgement, arguments.by_day);
  json["instances"] = which.count;
  json["trim"] = which.trim;
  json["seed"] = which.seed;
  json["referee"] = judge_by.name;
  json["policy"] = trained.file.tensors.origin;
  const dvrp::Limits limits = dvrp::Negotiation::limits_of(trained.config);
  if (limits.any()) {
    json["max_ride"] = limit_json(limits.ride);
    json["max_excess"] = limit_json(limits.excess);
  }
  display_data(json.dump() + "\n");
}

}  // namespace

void add_dvrp_eval(Command& dvrp, Program& program) {
  Command& command = dvrp.add("eval", "what a trained negotiator saves on new days, by a solver");
  auto arguments = std::make_shared<EvalArguments>();
  EvalArguments& a = *arguments;
  command.option("run", a.run, "directory of a run, or a policy file").required();
  a.judge.days.add_checkpoint_to(command);
  a.judge.add_to(command);
  const Option json = command.flag("--json", a.json, "print one JSON object on stdout");
  command.flag("--by-day", a.by_day, "with the minutes of each day, to compare runs day by day")
      .needs(json);
  command.action([&program, arguments] { evaluate(program, *arguments); });
}

}  // namespace flotilla
