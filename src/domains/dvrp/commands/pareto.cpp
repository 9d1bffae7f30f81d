// flotilla dvrp pareto RUN...: what negotiation saves against what it asks of travellers, of runs
// that were trained at several prices and under several limits of rides.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/judged_days.h"
#include "flotilla/domains/dvrp/commands/limit_options.h"
#include "flotilla/domains/dvrp/figures/pareto_figure.h"
#include "flotilla/report/text_table.h"

namespace flotilla {
namespace {

constexpr const char* kPicture = ".svg";

struct ParetoArguments {
  std::vector<std::string> runs;
  std::string out;
  JudgedDays judge{100};
  bool json = false;
};

// What travellers are promised, and what becomes of windows: the same for all runs of a group.
struct Rules {
  dvrp::Limits limits;
  std::string shift;  // as env.shift says

  bool operator==(const Rules&) const = default;
};

// Runs under the same rules, judged on the same days.
struct RulesGroup {
  Rules rules;
  std::vector<const TrainedNegotiator*> runs;
  std::vector<dvrp::Judgement> judgements;  // by run
};

// Short enough for the title of a panel: "30 min of excess", "no limit, widened".
std::string text_of(const Rules& rules) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* what, double minutes) {
    if (minutes < dvrp::kUnlimited) parts.push_back(fmt::format("{:g} min of {}", minutes, what));
  };
  add("ride", rules.limits.ride);
  add("excess", rules.limits.excess);
  if (parts.empty()) parts.emplace_back("no limit");
  if (rules.shift == "widen") parts.emplace_back("widened");
  return join(parts, ", ");
}

// The tightest limits first.
std::vector<RulesGroup> grouped_by_rules(const std::vector<TrainedNegotiator>& runs) {
  std::vector<RulesGroup> groups;
  for (const TrainedNegotiator& run : runs) {
    const Rules rules{.limits = dvrp::Negotiation::limits_of(run.config),
                      .shift = run.config.get_text("shift")};
    auto found = std::ranges::find(groups, rules, &RulesGroup::rules);
    if (found == groups.end()) {
      found = groups.insert(found, {.rules = rules, .runs = {}, .judgements = {}});
    }
    found->runs.push_back(&run);
  }
  std::ranges::sort(groups, {}, [](const RulesGroup& group) {
    const dvrp::Limits& limits = group.rules.limits;
    return std::tuple(group.rules.shift, limits.excess, limits.ride);
  });
  return groups;
}

// Days can be compared where they are of the same travellers, who accept the same. Those of the
// made-up city are others where there are more or fewer of them.
void require_same_days(const std::vector<TrainedNegotiator>& runs) {
  const Config& first = runs.front().config;
  for (const TrainedNegotiator& run : runs) {
    for (const char* key : {"data", "travellers", "customers", "acceptance"}) {
      if (run.config.text(key) == first.text(key)) continue;
      throw Error(
          ErrorCode::kUsage,
          fmt::format("{}: expected env.{}={}, as {} has it, got {}", run.file.tensors.origin, key,
                      first.text(key), runs.front().file.tensors.origin, run.config.text(key)));
    }
  }
}

void judge_group(RulesGroup& group, const ParetoArguments& arguments, const dvrp::Referee& referee,
                 ThreadPool& pool) {
  say(text_of(group.rules) + "\n");
  std::vector<std::unique_ptr<dvrp::Days>> days;
  std::vector<dvrp::Contender> contenders;
  const DayOptions& which = arguments.judge.days;
  for (const TrainedNegotiator* run : group.runs) {
    days.push_back(run->days({0, which.count}, which.seed, arguments.judge.referee.threads));
    contenders.push_back({.days = days.back().get(), .policy = run->policy.get()});
  }
  group.judgements = judge(contenders, referee, arguments.judge.options(), pool,
                           [](const std::string& line) { say(line + "\n"); });
}

dvrp::Trade trade_of(const dvrp::Judged& judged, int customers) {
  return {.asked = customers * judged.shifted_minutes, .saved = judged.saved_minutes};
}

struct Prices {
  double minute, traveller;

  auto operator<=>(const Prices&) const = default;
};

Prices prices_of(const TrainedNegotiator& run) {
  return {.minute = run.config.get_number("kappa"),
          .traveller = run.config.get_number("ask_price")};
}

// Runs of the same prices, such as several seeds, are one: their mean of each day.
std::vector<dvrp::Trade> trades_by_price(const RulesGroup& group, int customers) {
  const std::vector<double>& baseline = group.judgements.front().none.costs;
  std::map<Prices, std::vector<const dvrp::Judged*>> runs;
  for (size_t i = 0; i < group.runs.size(); ++i) {
    runs[prices_of(*group.runs[i])].push_back(&group.judgements[i].trained);
  }
  std::vector<dvrp::Trade> trades;
  for (const auto& [prices, judged] : runs) {
    const auto parts = static_cast<double>(judged.size());
    std::vector<double> saved = baseline;
    double asked = 0;
    for (const dvrp::Judged* each : judged) {
      for (size_t day = 0; day < saved.size(); ++day) saved[day] -= each->costs[day] / parts;
      asked += customers * each->shifted_minutes / parts;
    }
    trades.push_back({.asked = asked, .saved = dvrp::estimate(saved)});
  }
  return trades;
}

dvrp::TradePanel panel_of(const RulesGroup& group, int customers) {
  const dvrp::Judgement& first = group.judgements.front();
  dvrp::TradePanel panel{.title = text_of(group.rules),
                         .random = trade_of(first.random, customers),
                         .least_detour = trade_of(first.least_detour, customers),
                         .trained = trades_by_price(group, customers),
                         .ceiling = {}};
  if (first.ceiling) panel.ceiling = trade_of(*first.ceiling, customers);
  return panel;
}

// A negotiator under some rules; `run` is null where it was not trained.
struct Negotiator {
  std::string name;
  const TrainedNegotiator* run;
  const dvrp::Judged* judged;
};

std::vector<Negotiator> negotiators_of(const RulesGroup& group) {
  const dvrp::Judgement& first = group.judgements.front();
  std::vector<Negotiator> rows = {{"no_negotiation", nullptr, &first.none},
                                  {"least_detour", nullptr, &first.least_detour},
                                  {"random_allowed", nullptr, &first.random}};
  for (size_t i = 0; i < group.runs.size(); ++i) {
    rows.push_back({"trained", group.runs[i], &group.judgements[i].trained});
  }
  if (first.ceiling) rows.push_back({"ceiling", nullptr, &*first.ceiling});
  return rows;
}

Json point_json(const Negotiator& row, int customers) {
  const dvrp::Judged& judged = *row.judged;
  Json json = {{"name", row.name}};
  if (row.run != nullptr) {
    json["policy"] = row.run->file.tensors.origin;
    json["kappa"] = row.run->config.get_number("kappa");
    json["ask_price"] = row.run->config.get_number("ask_price");
  }
  const Json numbers = {{"minutes", judged.cost},
                        {"asked_minutes", customers * judged.shifted_minutes},
                        {"saved_minutes", judged.saved_minutes.mean},
                        {"saved_ci95", judged.saved_minutes.ci95},
                        {"saving_pct", judged.saving_pct.mean},
                        {"saving_ci95", judged.saving_pct.ci95},
                        {"moved", judged.moved},
                        {"ride_minutes", judged.ride_minutes},
                        {"excess_minutes", judged.excess_minutes},
                        {"longest_excess_minutes", judged.longest_excess}};
  for (const auto& [name, value] : numbers.items()) json[name] = value;
  return json;
}

Json group_json(const RulesGroup& group, int customers) {
  Json points = Json::array();
  for (const Negotiator& row : negotiators_of(group)) points.push_back(point_json(row, customers));
  return {{"max_ride", limit_json(group.rules.limits.ride)},
          {"max_excess", limit_json(group.rules.limits.excess)},
          {"shift", group.rules.shift},
          {"points", std::move(points)}};
}

void print_group(const RulesGroup& group, int customers) {
  std::vector<std::vector<std::string>> table = {
      {text_of(group.rules), "price", "asked", "saved", "saving %", "excess", "longest"}};
  for (const Negotiator& row : negotiators_of(group)) {
    const dvrp::Judged& judged = *row.judged;
    const std::string price =
        row.run == nullptr ? "" : fmt::format("{:g}", row.run->config.get_number("kappa"));
    std::string name = row.name;
    std::ranges::replace(name, '_', ' ');
    table.push_back(
        {name == "ceiling" ? "S*" : name, price,
         fmt::format("{:.0f}", customers * judged.shifted_minutes),
         fmt::format("{:.1f} +- {:.1f}", judged.saved_minutes.mean, judged.saved_minutes.ci95),
         fmt::format("{:.2f}", judged.saving_pct.mean),
         fmt::format("{:.1f}", judged.excess_minutes),
         fmt::format("{:.1f}", judged.longest_excess)});
  }
  display(text_table(table, terminal_width(Stream::kOut)) + "\n");
}

void print_json(const ParetoArguments& arguments, Json limits) {
  const DayOptions& which = arguments.judge.days;
  const Json json = {{"instances", which.count},
                     {"trim", which.trim},
                     {"seed", which.seed},
                     {"referee", arguments.judge.referee.name},
                     {"limits", std::move(limits)}};
  display_data(json.dump() + "\n");
}

void draw_pareto(const Program& program, const ParetoArguments& arguments) {
  const Activity judging("judging");
  if (!arguments.out.empty()) require_report_place(arguments.out, kPicture);
  std::vector<TrainedNegotiator> runs;
  for (const std::string& run : arguments.runs) {
    runs.push_back(read_negotiator(program.registry, run, "last"));
  }
  require_same_days(runs);
  const RefereeArguments& judge_by = arguments.judge.referee;
  ThreadPool pool(judge_by.threads);
  const dvrp::Referee referee = judge_by.make_for(runs.front().config, pool);
  const auto customers = static_cast<int>(runs.front().config.get_integer("customers"));
  std::vector<RulesGroup> groups = grouped_by_rules(runs);
  std::vector<dvrp::TradePanel> panels;
  Json limits = Json::array();
  for (RulesGroup& group : groups) {
    judge_group(group, arguments, referee, pool);
    panels.push_back(panel_of(group, customers));
    limits.push_back(group_json(group, customers));
    if (!arguments.json) print_group(group, customers);
  }
  if (arguments.json) print_json(arguments, std::move(limits));
  // Last: what took minutes is told in any case.
  if (!arguments.out.empty()) write_report(arguments.out, kPicture, pareto_svg(panels));
}

}  // namespace

void add_dvrp_pareto(Command& dvrp, Program& program) {
  Command& command = dvrp.add(
      "pareto", "vehicle minutes saved against traveller minutes asked, by limits and prices");
  auto arguments = std::make_shared<ParetoArguments>();
  ParetoArguments& a = *arguments;
  command.option("runs", a.runs, "directories of runs, or policy files, of any limits and prices")
      .required();
  a.judge.add_to(command);
  command.option("--out", a.out,
                 "SVG file to write: a panel for each limit, and for windows that widen; runs "
                 "of the same price are one point");
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([&program, arguments] { draw_pareto(program, *arguments); });
}

}  // namespace flotilla
