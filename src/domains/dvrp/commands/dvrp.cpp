// flotilla dvrp VERB: what only the dial-a-ride domain has.
//   data       makes up a city and its travellers
//   inspect    reads a city and its travellers, and says what they are like
//   instance   draws requests to be routed
//   solve      routes them
//   check      judges routes (check.cpp)
//   show       draws them, or a day before and after negotiation (show.cpp)
//   eval       what a trained negotiator saves, by an independent solver (eval.cpp)
//   days       writes days before and after negotiation for other solvers (days.cpp)
//   pareto     what it saves against what it asks for, at several prices (pareto.cpp)
//   scaling    how fast training is with few and with many envs (scaling.cpp)
//   oracle     the network that routes many of them at once (oracle.cpp)
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/limit_options.h"
#include "flotilla/domains/dvrp/commands/standard.h"
#include "flotilla/domains/dvrp/data/data.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/routing/ride_schedule.h"
#include "flotilla/domains/dvrp/routing/routes_file.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "flotilla/domains/dvrp/standard/reader.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

void print_facts(const dvrp::DataFacts& facts, bool json) {
  if (json) {
    const Json line = {{"city", facts.city},
                       {"cells", facts.cells},
                       {"travellers", facts.travellers},
                       {"trips", facts.trips},
                       {"mean_minutes", facts.mean_minutes},
                       {"mean_trip_minutes", facts.mean_trip_minutes},
                       {"same_cell", facts.same_cell},
                       {"accepted", facts.accepted},
                       {"triangle_violations", facts.triangle_violations},
                       {"infeasible", facts.infeasible},
                       {"late_only", facts.of_flexibility[0]},
                       {"early_only", facts.of_flexibility[1]},
                       {"inflexible", facts.of_flexibility[2]},
                       {"flexible", facts.of_flexibility[3]}};
    display_data(line.dump() + "\n");
    return;
  }
  display(fmt::format("city {}: {} cells, {:.1f} minutes apart on average\n", facts.city,
                      facts.cells, facts.mean_minutes));
  display(
      fmt::format("{} travellers: {} bear late drop-offs, {} early pickups, {} both, {} neither\n",
                  facts.travellers, facts.of_flexibility[0], facts.of_flexibility[1],
                  facts.of_flexibility[3], facts.of_flexibility[2]));
  display(fmt::format("{} trips of {:.1f} minutes on average, {:.1f} % within a cell\n",
                      facts.trips, facts.mean_trip_minutes, 100 * facts.same_cell));
  display(fmt::format("{:.1f} % of all shifts are accepted\n", 100 * facts.accepted));
}

struct DataArguments {
  dvrp::GenerateOptions options;
  std::string directory;
  bool json = false, gzip = false;
};

void add_data(Command& dvrp) {
  Command& command = dvrp.add("data", "make up a city and its travellers");
  auto arguments = std::make_shared<DataArguments>();
  command.option("--cells", arguments->options.cells, "of the city (default 31)").range(2, 1000);
  command.option("--travellers", arguments->options.travellers, "how many (default 30)")
      .range(1, 10'000);
  command.option("--seed", arguments->options.seed, "of everything that is drawn (default 0)");
  command.option("--out", arguments->directory, "directory of the three tables").required();
  command.flag("--gzip", arguments->gzip, "the table of decisions, the largest, as .csv.gz");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] {
    const dvrp::Data data = generate_data(arguments->options);
    write_data(data, arguments->directory,
               arguments->gzip ? dvrp::Packing::kGzippedDecisions : dvrp::Packing::kPlain);
    print_facts(facts_of(data), arguments->json);
  });
}

void add_inspect(Command& dvrp) {
  Command& command = dvrp.add("inspect", "read a city and its travellers, say what they are like");
  auto arguments = std::make_shared<DataArguments>();
  command.option("directory", arguments->directory, kDvrpDataHelp);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action(
      [arguments] { print_facts(facts_of(dvrp_data_of(arguments->directory)), arguments->json); });
}

struct InstanceArguments {
  std::string data, out;
  int customers = 30;
  uint64_t seed = 0;
  bool full = false;
  LimitOptions limits;
};

// A slip must not cost a file of something else.
void require_place_for_instance(const std::string& path) {
  if (path.empty() || !path_exists(path)) return;
  const std::string text = read_whole_file(path, kLargestDvrpFile);
  if (text.empty() || dvrp::is_instance(text)) return;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("{} is there already and no instance; give another name", in_quotes(path)));
}

void draw_instance(const InstanceArguments& arguments) {
  require_place_for_instance(arguments.out);
  const dvrp::Data data = dvrp_data_of(arguments.data);
  if (arguments.customers > data.travellers.count) {
    throw Error(ErrorCode::kUsage, fmt::format("--customers {}: there are {} travellers",
                                               arguments.customers, data.travellers.count));
  }
  Rng rng(arguments.seed, stream_of(Purpose::kEnv, 0));
  dvrp::Instance instance = dvrp::draw_instance(data, arguments.customers, rng);
  instance.limits = arguments.limits.over({});
  const std::string text =
      arguments.full ? encode_full_instance(instance) : encode_instance(instance);
  if (arguments.out.empty()) {
    display_data(text);
  } else {
    write_file_atomically(arguments.out, text);
  }
}

void add_instance(Command& dvrp) {
  Command& command = dvrp.add("instance", "draw requests to be routed");
  auto arguments = std::make_shared<InstanceArguments>();
  command.option("--data", arguments->data, kDvrpDataHelp);
  command.option("--customers", arguments->customers, "requests (default 30)").range(1, 1000);
  command.option("--seed", arguments->seed, "of what is drawn (default 0)");
  command.flag("--full", arguments->full,
               "with all that another solver needs, on one line: seconds between nodes, "
               "windows, capacity");
  arguments->limits.add_to(command);
  command.option("--out", arguments->out, "file to write (default: stdout)");
  command.action([arguments] { draw_instance(*arguments); });
}

struct SolveArguments {
  std::string file, data;
  dvrp::SolveOptions options;
  LimitOptions limits;
  bool json = false;
};

// Minutes at which the stops of each route are served, with the depot at both ends: where rides
// have limits, they do not follow from the routes by themselves.
Json service_times(const dvrp::Instance& instance, const dvrp::Routes& routes) {
  Json all = Json::array();
  dvrp::RideSchedule schedule(instance);
  for (const dvrp::RouteView route : routes) {
    schedule.follow(route);
    Json times = Json::array();
    for (size_t place = 0; place < route.size() + 2; ++place) {
      times.push_back(schedule.minutes(place));
    }
    all.push_back(std::move(times));
  }
  return all;
}

// The exit status.
int solve(const SolveArguments& arguments) {
  const std::string text = read_whole_file(arguments.file, kLargestDvrpFile);
  if (dvrp::standard::is_standard(text)) {
    refuse_data_of_standard(arguments.data);
    arguments.limits.refuse_for_standard();
    return solve_standard(text, arguments.file, arguments.options, arguments.json);
  }
  const dvrp::Data data = dvrp_data_of(arguments.data);
  dvrp::Instance instance = decode_instance(text, arguments.file, data);
  instance.limits = arguments.limits.over(instance.limits);
  const dvrp::Solution solution = solve_dvrp_instance(arguments.file, instance, arguments.options);
  if (const std::string fault = fault_of(instance, solution.routes); !fault.empty()) {
    throw Error(ErrorCode::kInternal, "the solver's routes break a rule: " + fault);
  }
  if (arguments.json) {
    Json routes = Json::array();
    for (const dvrp::RouteView route : solution.routes) {
      routes.push_back(dvrp::Route(route.begin(), route.end()));
    }
    Json line = {{"cost", solution.cost},
                 {"vehicles", solution.routes.size()},
                 {"iterations", solution.iterations},
                 {"routes", routes}};
    if (instance.limits.any()) line["times"] = service_times(instance, solution.routes);
    display_data(line.dump() + "\n");
    return 0;
  }
  display(fmt::format("{} in {}, {:.2f} minutes\n",
                      counted(static_cast<int64_t>(instance.requests.size()), "request"),
                      counted(static_cast<int64_t>(solution.routes.size()), "vehicle"),
                      solution.cost));
  for (const dvrp::RouteView route : solution.routes) {
    std::vector<std::string> stops;
    for (const int node : route) {
      stops.push_back(fmt::format("{}{}", dvrp::Instance::is_pickup(node) ? '+' : '-',
                                  dvrp::Instance::request_of(node) + 1));
    }
    display("  " + join(stops, " ") + "\n");
  }
  return 0;
}

void add_solve(Command& dvrp, Program& program) {
  Command& command = dvrp.add("solve", "route an instance by large-neighbourhood search");
  auto arguments = std::make_shared<SolveArguments>();
  command.option("file", arguments->file, kDvrpAnyInstanceHelp).required();
  command.option("--data", arguments->data, kDvrpDataHelp);
  const Option iterations =
      command.option("--iterations", arguments->options.iterations, "default 5000")
          .range(0, 1'000'000'000);
  command.option("--seconds", arguments->options.seconds, "of search, instead of iterations")
      .range(0.001, 86'400.0)
      .excludes(iterations);
  command.option("--seed", arguments->options.seed, "of the search (default 0)");
  arguments->limits.add_to(command);
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments, &program] { program.exit_status = solve(*arguments); });
}

// "request 3", "requests 3, 7": those that no vehicle can serve, even alone.
std::string unserveable(const dvrp::Instance& instance) {
  std::vector<std::string> numbers;
  for (size_t i = 0; i < instance.requests.size(); ++i) {
    const dvrp::Instance alone{
        .city = instance.city, .requests = {instance.requests[i]}, .limits = instance.limits};
    if (!std::isfinite(dvrp::solve(alone, {.iterations = 0}).cost)) {
      numbers.push_back(std::to_string(i + 1));
    }
  }
  return (numbers.size() == 1 ? "request " : "requests ") + join(numbers, ", ");
}

}  // namespace

void refuse_data_of_standard(const std::string& directory) {
  if (directory.empty()) return;
  throw Error(ErrorCode::kUsage, "--data: a standard instance has distances of its own");
}

dvrp::Data dvrp_data_of(const std::string& directory) {
  return directory.empty() ? dvrp::generate_data({})
                           : dvrp::read_data(directory, dvrp::Decisions::kIfThere);
}

dvrp::Instance read_dvrp_instance(const std::string& path, const dvrp::Data& data) {
  return decode_instance(read_whole_file(path, kLargestDvrpFile), path, data);
}

dvrp::Solution solve_dvrp_instance(const std::string& path, const dvrp::Instance& instance,
                                   dvrp::SolveOptions options) {
  const Activity routing("routing");
  options.stoppable = true;
  dvrp::Solution solution = dvrp::solve(instance, options);
  stop_if_interrupted();
  if (std::isfinite(solution.cost)) return solution;
  throw Error(ErrorCode::kData,
              fmt::format("{}: cannot be served, even alone: {}", path, unserveable(instance)));
}

dvrp::Routes read_dvrp_routes(const std::string& path) {
  return dvrp::decode_routes(read_whole_file(path, kLargestDvrpFile), path);
}

TrainedNegotiator read_negotiator(const Registry& registry, const std::string& path,
                                  const std::string& checkpoint) {
  PolicyFile file = find_policy(path, checkpoint);
  if (file.origin.env != "dvrp") {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is of '{}', not of dvrp", file.tensors.origin, file.origin.env));
  }
  const EnvType& type = env_of(registry, file);
  Config config = env_config_of(file, type);
  const EnvSpec spec = type.spec(config, file.origin.time_limit);
  auto policy = make_policy(file, spec, {});
  return {.file = std::move(file),
          .type = type,
          .config = std::move(config),
          .policy = std::move(policy)};
}

std::unique_ptr<dvrp::Days> TrainedNegotiator::days(Span numbers, uint64_t seed,
                                                    int threads) const {
  auto days = std::make_unique<dvrp::Days>(type, config, numbers, seed, threads);
  give_knowledge(file, days->memory());
  return days;
}

void add_dvrp_commands(Command& root, Program& program) {
  Command& command = root.add("dvrp", "dial-a-ride: a city, its travellers, routes");
  add_data(command);
  add_inspect(command);
  add_instance(command);
  add_solve(command, program);
  add_dvrp_check(command, program);
  add_dvrp_show(command, program);
  add_dvrp_eval(command, program);
  add_dvrp_days(command, program);
  add_dvrp_pareto(command, program);
  add_dvrp_scaling(command, program);
  add_dvrp_oracle(command);
  add_bench_oracle(root.find("bench"));
}

}  // namespace flotilla
