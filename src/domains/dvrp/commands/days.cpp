// flotilla dvrp days RUN: days that a trained negotiator has not seen, before and after it
// negotiated them, as standard instances that any solver can judge.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/day_options.h"
#include "flotilla/domains/dvrp/commands/limit_options.h"
#include "flotilla/domains/dvrp/oracle/evaluation.h"
#include "flotilla/domains/dvrp/standard/writer.h"

namespace flotilla {
namespace {

constexpr const char *kIndex = "days.json", *kDayPrefix = "day-";

struct DaysArguments {
  std::string run, out;
  DayOptions which;
  int iterations = 5000, threads = cpu_count();
};

// Shifts that the own solver's routes of the whole day do not need are taken back.
void trim_days(std::vector<dvrp::Day>& days, const dvrp::Days& played,
               const DaysArguments& arguments) {
  ThreadPool pool(arguments.threads);
  std::vector<dvrp::Instance> granted;
  for (const dvrp::Day& day : days) granted.push_back(day.granted);
  const Activity routing("routing");
  const std::vector<dvrp::Tour> tours =
      dvrp::make_solver_referee(arguments.iterations, pool)(granted, arguments.which.seed);
  for (size_t i = 0; i < days.size(); ++i) {
    if (!std::isfinite(tours[i].cost)) continue;  // nothing is known of what they need
    played.trim(days[i], tours[i].routes);
  }
}

// Which request is whose, and what was granted to it, in minutes.
Json requests_json(const dvrp::Day& day) {
  Json requests = Json::array();
  for (size_t k = 0; k < day.asked.requests.size(); ++k) {
    const dvrp::Request &asked = day.asked.requests[k], &granted = day.granted.requests[k];
    requests.push_back({{"trip", asked.trip + 1},
                        {"pickup_earlier", asked.pickup.early - granted.pickup.early},
                        {"dropoff_later", granted.dropoff.late - asked.dropoff.late}});
  }
  return requests;
}

// A file of an older day beside a new one would be taken for its own: limits of rides, say.
void require_no_days(const Directory& folder) {
  const auto refuse = [&folder](const std::string& name) {
    throw Error(ErrorCode::kUsage, "'" + folder.path(name) + "' is there already");
  };
  if (folder.holds(kIndex)) refuse(kIndex);
  for (const std::string& name : folder.names()) {
    if (name.starts_with(kDayPrefix)) refuse(name);
  }
}

Json write_day(const Directory& folder, int number, const dvrp::Day& day) {
  const std::string name = fmt::format("{}{:05}", kDayPrefix, number);
  const std::string before = name + ".before.txt", after = name + ".after.txt";
  const std::string times = name + ".times", rides = name + ".rides";
  folder.write(before, dvrp::standard::cordeau_text(day.asked));
  folder.write(after, dvrp::standard::cordeau_text(day.granted));
  folder.write(times, dvrp::standard::times_text(day.asked));
  Json json = {{"day", number}, {"before", before}, {"after", after}, {"times", times}};
  if (const std::string text = dvrp::standard::rides_text(day.asked); !text.empty()) {
    folder.write(rides, text);
    json["rides"] = rides;
  }
  json["requests"] = requests_json(day);
  return json;
}

void write_days(const Program& program, const DaysArguments& arguments) {
  const DayOptions& which = arguments.which;
  const TrainedNegotiator trained =
      read_negotiator(program.registry, arguments.run, which.checkpoint);
  const Directory folder = Directory::make(arguments.out);
  require_no_days(folder);
  say(trained.file.tensors.origin + "\n");
  const auto played = trained.days({0, which.count}, which.seed, arguments.threads);
  std::vector<dvrp::Day> days = [&] {
    const Activity negotiating("negotiating");
    return played->play(dvrp::policy_negotiator(*trained.policy));
  }();
  if (which.trim) trim_days(days, *played, arguments);
  Json index = {{"policy", trained.file.tensors.origin},
                {"seed", which.seed},
                {"trim", which.trim},
                {"unit", "seconds"}};
  if (const dvrp::Limits limits = dvrp::Negotiation::limits_of(trained.config); limits.any()) {
    index["max_ride"] = limit_json(limits.ride);
    index["max_excess"] = limit_json(limits.excess);
  }
  index["days"] = Json::array();
  const Activity writing("writing");
  for (size_t i = 0; i < days.size(); ++i) {
    stop_if_interrupted();
    index["days"].push_back(write_day(folder, static_cast<int>(i), days[i]));
  }
  folder.write(kIndex, index.dump(1) + "\n");
  display(fmt::format("{} before and after negotiation: {}\n",
                      counted(static_cast<int64_t>(days.size()), "day"), arguments.out));
}

}  // namespace

void add_dvrp_days(Command& dvrp, Program& program) {
  Command& command = dvrp.add(
      "days", "write days before and after negotiation as instances that any solver reads");
  auto arguments = std::make_shared<DaysArguments>();
  DaysArguments& a = *arguments;
  command.option("run", a.run, "directory of a run, or a policy file").required();
  command.option("--out", a.out, "directory to write").required();
  a.which.add_checkpoint_to(command);
  a.which.add_count_to(command, 1);
  const Option trim = a.which.add_to(command);
  command.option("--iterations", a.iterations, "of the own solver, for --trim (default 5000)")
      .range(0, 1'000'000'000)
      .needs(trim);
  command.option("--threads", a.threads, "default: all CPUs").range(1, 1024);
  command.action([&program, arguments] { write_days(program, *arguments); });
}

}  // namespace flotilla
