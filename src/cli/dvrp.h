// What the verbs of `flotilla dvrp` share. Those that are not in dvrp.cpp register themselves with
// one function here.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "flotilla/cli/command.h"
#include "flotilla/domains/dvrp/instance_file.h"
#include "flotilla/domains/dvrp/negotiation.h"
#include "flotilla/domains/dvrp/routes.h"
#include "flotilla/domains/dvrp/solver.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla {

constexpr const char* kDvrpDataHelp = "directory of the tables (default: what `dvrp data` makes)";
constexpr const char* kDvrpInstanceHelp = "an instance, as `dvrp instance` writes it";

// The tables of a directory; of none, the data that `dvrp data` makes by default.
dvrp::Data dvrp_data_of(const std::string& directory);

// Throw Error(kData) that names the file.
dvrp::Instance read_dvrp_instance(const std::string& path, const dvrp::Data& data);
// The file is the instance's; the requests that cannot be served are named, too.
dvrp::Solution solve_dvrp_instance(const std::string& path, const dvrp::Instance& instance,
                                   const dvrp::SolveOptions& options);
std::vector<dvrp::Route> read_dvrp_routes(const std::string& path);

// A policy that negotiates, with its environment, which knows what it knew in training.
struct TrainedNegotiator {
  std::string origin;  // the file
  std::string data;    // directory of the tables; empty: the default ones
  std::unique_ptr<dvrp::Negotiation> env;
  std::unique_ptr<Policy> policy;
};
// `path`: a run or a policy file. Throws Error(kUsage) where it is not of dvrp, Error(kData) where
// it is damaged.
TrainedNegotiator read_negotiator(const Registry& registry, const std::string& path,
                                  const std::string& checkpoint);

void add_dvrp_check(CLI::App& dvrp, Program& program);
void add_dvrp_show(CLI::App& dvrp, Program& program);
void add_dvrp_eval(CLI::App& dvrp, Program& program);
void add_dvrp_scaling(CLI::App& dvrp, Program& program);
void add_dvrp_oracle(CLI::App& dvrp);

}  // namespace flotilla
