// What the verbs of `flotilla dvrp` share. Those that are not in dvrp.cpp register themselves with
// one function here.
#pragma once

#include <memory>
#include <string>

#include "flotilla/command/program.h"
#include "flotilla/domains/dvrp/data/instance_file.h"
#include "flotilla/domains/dvrp/negotiation/days.h"
#include "flotilla/domains/dvrp/routing/routes.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla {

constexpr const char* kDvrpDataHelp = "directory of the tables (default: what `dvrp data` makes)";
constexpr const char* kDvrpInstanceHelp = "an instance, as `dvrp instance` writes it";
constexpr const char* kDvrpAnyInstanceHelp =
    "an instance, as `dvrp instance` writes it, or a file by Cordeau or by Li and Lim";
constexpr size_t kLargestDvrpFile = size_t{64} << 20U;

// The tables of a directory; of none, the data that `dvrp data` makes by default.
dvrp::Data dvrp_data_of(const std::string& directory);

// Throws Error(kUsage) where one is given beside an instance that needs none.
void refuse_data_of_standard(const std::string& directory);

// Throw Error(kData) that names the file.
dvrp::Instance read_dvrp_instance(const std::string& path, const dvrp::Data& data);
// The file is the instance's; the requests that cannot be served are named, too. Throws
// Error(kInterrupted) besides.
dvrp::Solution solve_dvrp_instance(const std::string& path, const dvrp::Instance& instance,
                                   dvrp::SolveOptions options);
dvrp::Routes read_dvrp_routes(const std::string& path);

// A policy that negotiates, and the environment it was trained in.
struct TrainedNegotiator {
  PolicyFile file;
  const EnvType& type;
  Config config;  // of the environment
  std::unique_ptr<Policy> policy;

  // Days of `seed`, in envs that know what those of its training knew.
  std::unique_ptr<dvrp::Days> days(Span numbers, uint64_t seed, int threads) const;
};
// `path`: a run or a policy file. Throws Error(kUsage) where it is not of dvrp, Error(kData) where
// it is damaged.
TrainedNegotiator read_negotiator(const Registry& registry, const std::string& path,
                                  const std::string& checkpoint);

// Days that are shown and judged, by default.
constexpr uint64_t kDvrpDaysSeed = 9999;

// A picture of the first of these days, before and after negotiation, on the solver's routes.
// `name`: what the policy is called in errors. `trim`: shifts that these routes do not need are
// taken back. Throws Error(kEnvironment) where it has no routes.
std::string dvrp_day_svg(dvrp::Days& days, const ActingPolicy& policy, const std::string& name,
                         const dvrp::SolveOptions& options, bool trim = false);

// What `train` says of a run that has ended.
std::string dvrp_ending(const Run& run);

// All of them, and `bench oracle`.
void add_dvrp_commands(Command& root, Program& program);

void add_dvrp_check(Command& dvrp, Program& program);
void add_dvrp_show(Command& dvrp, Program& program);
void add_dvrp_eval(Command& dvrp, Program& program);
void add_dvrp_days(Command& dvrp, Program& program);
void add_dvrp_pareto(Command& dvrp, Program& program);
void add_dvrp_scaling(Command& dvrp, Program& program);
void add_dvrp_oracle(Command& dvrp);
void add_bench_oracle(Command& bench);

}  // namespace flotilla
