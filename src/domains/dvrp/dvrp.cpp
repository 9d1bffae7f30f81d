#include "flotilla/domains/dvrp/dvrp.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/negotiation/negotiation.h"

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

bool has_customers(const Config& config) {
  return config.schema().find("env.customers") != nullptr;
}

// The horizon of one episode, or of as many as a minibatch takes.
std::string whole_episodes(const Config& config) {
  const int64_t customers = config.get_integer("env.customers");
  const bool has_size = config.schema().find("ppo.batch_size") != nullptr;
  const int64_t least = has_size ? config.get_integer("ppo.batch_size") : 1;
  const int64_t rows = customers * config.get_integer("num_envs");
  return std::to_string(customers * std::max<int64_t>((least + rows - 1) / rows, 1));
}

RunOption customers_option() {
  return {
      .name = "--customers",
      .env = kName,
      .help = "requests of an episode: env.customers, and the horizon where that is not given",
      .range = {},
      .apply = [](Config& config, const std::string& text) { config.set("env.customers", text); },
      .consequence = RunOption::Consequence{.key = "n_steps", .value = whole_episodes}};
}

RunOption update_interval_option() {
  const auto apply = [](Config& config, const std::string& text) {
    if (!has_customers(config)) {
      throw Error(ErrorCode::kUsage, "--policy-update-interval is for dvrp; set n_steps instead");
    }
    config.set("n_steps", std::to_string(std::stoi(text) * config.get_integer("env.customers")));
  };
  return {.name = "--policy-update-interval",
          .env = kName,
          .help = "episodes between updates: n_steps in episodes",
          .range = {{1, 1000}},
          .apply = apply};
}

constexpr int64_t kFewUpdates = 50;

// Days are all equally long: a few days of each env are a few updates.
std::string few_updates(const RunConfig& run) {
  if (run.limits.episodes == 0 || !has_customers(run.config)) return "";
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
  program.run_options.push_back(customers_option());
  program.run_options.push_back(update_interval_option());
  program.device_keys.emplace_back("env.oracle.device");
  program.remarks.emplace_back(few_updates);
  program.endings.emplace_back([](const Run& run) {
    return run.config().type.name == kName ? dvrp_ending(run) : std::string();
  });
}

}  // namespace flotilla
