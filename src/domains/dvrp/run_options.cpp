#include "flotilla/domains/dvrp/run_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"

namespace flotilla::dvrp {
namespace {

constexpr const char* kEnv = "dvrp";

// The horizon of one episode, or of as many as a minibatch takes.
std::string whole_episodes(const Config& config) {
  const int64_t customers = config.get_integer("env.customers");
  const bool has_size = config.schema().find("ppo.batch_size") != nullptr;
  const int64_t least = has_size ? config.get_integer("ppo.batch_size") : 1;
  const int64_t rows = customers * config.get_integer("num_envs");
  return std::to_string(customers * std::max<int64_t>((least + rows - 1) / rows, 1));
}

void require_own(const Config& config, const std::string& option, const std::string& instead) {
  if (config.get_text("env.name") == kEnv) return;
  throw Error(ErrorCode::kUsage, fmt::format("{} is for dvrp; {} instead", option, instead));
}

RunOption customers_option() {
  return {
      .name = "--customers",
      .env = kEnv,
      .help = "requests of an episode: env.customers, and the horizon where that is not given",
      .range = {},
      .apply = [](Config& config, const std::string& text) { config.set("env.customers", text); },
      .consequence = RunOption::Consequence{.key = "n_steps", .value = whole_episodes}};
}

RunOption update_interval_option() {
  const auto apply = [](Config& config, const std::string& text) {
    require_own(config, "--policy-update-interval", "set n_steps");
    config.set("n_steps", std::to_string(std::stoi(text) * config.get_integer("env.customers")));
  };
  return {.name = "--policy-update-interval",
          .env = kEnv,
          .help = "episodes between updates: n_steps in episodes",
          .range = {{1, 1000}},
          .apply = apply};
}

// Epochs are what the earlier system counted. REQUIRES: behind all that set num_envs and n_steps.
RunOption save_interval_option() {
  const auto apply = [](Config& config, const std::string& text) {
    config.set("save_freq", text);  // refuses what is no number
    const int64_t rows = config.get_integer("num_envs") * config.get_integer("n_steps");
    config.set("save_freq", std::to_string(config.get_integer("save_freq") * rows));
  };
  return {.name = "--save-interval",
          .env = kEnv,
          .help = "epochs between checkpoints: save_freq in epochs",
          .range = {},
          .apply = apply,
          .otherwise = "save_freq"};
}

RunOption log_interval_option() {
  const auto apply = [](Config& config, const std::string& text) {
    require_own(config, "--log-interval", "leave it out");
    if (text == "1") return;
    throw Error(
        ErrorCode::kUsage,
        fmt::format("--log-interval: expected 1, got {}: metrics.jsonl has a line for every "
                    "epoch",
                    text));
  };
  return {.name = "--log-interval",
          .env = kEnv,
          .help = "epochs between lines of metrics.jsonl: 1, the only one there is",
          .range = {{1, 1'000'000}},
          .apply = apply};
}

// Where a recipe evaluates anyway, there is nothing to do.
RunOption eval_option() {
  const auto apply = [](Config& config, const std::string&) {
    constexpr const char* kEpisodes = "10";  // as the earlier system
    require_own(config, "--eval", "set eval.episodes");
    if (config.get_integer("eval.episodes") == 0) config.set("eval.episodes", kEpisodes);
  };
  return {.name = "--eval",
          .env = kEnv,
          .help = "evaluate the policy in the end, on 10 days where the recipe says no number",
          .range = {},
          .is_flag = true,
          .apply = apply};
}

}  // namespace

std::vector<RunOption> run_options() {
  return {customers_option(), update_interval_option(), save_interval_option(),
          log_interval_option(), eval_option()};
}

}  // namespace flotilla::dvrp
