#include "flotilla/domains/dvrp/dvrp.h"

#include <fmt/format.h>

#include <utility>

#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/negotiation/negotiation.h"
#include "flotilla/domains/dvrp/run_options.h"

namespace flotilla {

void add_dvrp_recipes(Registry& registry);  // made by CMake

namespace {

constexpr const char* kName = "dvrp";

EnvType negotiation() {
  const char* const summary =
      "negotiate the time windows of ride requests, priced by routing them all";
  EnvType type = env_type<dvrp::Negotiation>(kName, summary);
  type.make_loop = [free = type.make_loop,
                    limited = env_type<dvrp::LimitedNegotiation>(kName, summary).make_loop](
                       const Config& config, int time_limit) {
    const bool any = dvrp::Negotiation::limits_of(config).any();
    return (any ? limited : free)(config, time_limit);
  };
  type.stage_hint = "the oracle of dvrp has keys for that (env.oracle)";
  return type;
}

constexpr int64_t kFewUpdates = 50;

// Days are all equally long: a few days of each env are a few updates.
std::string few_updates(const RunConfig& run) {
  if (run.limits.episodes == 0 || run.type.name != kName) return "";
  const int64_t length = run.config.get_integer("env.customers");
  const int64_t rows = int64_t{run.vec.num_envs} * run.n_steps;
  const int64_t updates = run.limits.episodes * length / rows;
  if (updates >= kFewUpdates) return "";
  return fmt::format(
      "{} episodes of {} envs are {}, too few to learn much: raise --episodes to {}, or say "
      "--epochs {}",
      run.limits.episodes, run.vec.num_envs, counted(updates, "epoch"),
      (kFewUpdates * rows + length - 1) / length, kFewUpdates);
}

}  // namespace

void register_dvrp(Program& program) {
  program.registry.add(negotiation());
  add_dvrp_recipes(program.registry);
  program.commands["dvrp"] = add_dvrp_commands;
  for (RunOption& option : dvrp::run_options()) program.run_options.push_back(std::move(option));
  program.device_keys.emplace_back("env.oracle.device");
  program.remarks.emplace_back(few_updates);
  program.endings.emplace_back([](const Run& run) {
    return run.config().type.name == kName ? dvrp_ending(run) : std::string();
  });
}

}  // namespace flotilla
