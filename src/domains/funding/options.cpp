#include "flotilla/domains/funding/options.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"

namespace flotilla::funding {
namespace {

// An option that sets a key. "ppo." stands for whichever algorithm learns.
struct KnownOption {
  const char* name;
  const char* key;
  const char* help;
};
constexpr const char* kAlgorithm = "ppo.";

constexpr KnownOption kOptions[] = {
    {"--initial-capital", "env.initial_capital", "USD at the beginning of an episode"},
    {"--episode-length-days", "env.episode_days", "days of an episode"},
    {"--max-leverage", "env.max_leverage", "most leverage of a pair"},
    {"--target-utilization", "env.target_utilization", "part of the margin spread over the pairs"},
    {"--max-positions", "env.max_positions", "most pairs that are open at once"},
    {"--funding-reward-scale", "env.funding_scale", "of funding in the reward of rules=era"},
    {"--price-reward-scale", "env.price_scale", "of price profits in the reward of rules=era"},
    {"--liquidation-penalty-scale", "env.liquidation_scale", "of the penalty near liquidation"},
    {"--learning-rate", "ppo.learning_rate", "of the optimiser"},
    {"--gamma", "ppo.gamma", "discount of future rewards"},
    {"--gae-lambda", "ppo.gae_lambda", "decay of the advantage estimate"},
    {"--clip-range", "ppo.clip_range", "how far the ratio may go from 1"},
    {"--value-coef", "ppo.vf_coef", "weight of the value loss"},
    {"--entropy-coef", "ppo.ent_coef", "weight of the entropy bonus"},
    {"--n-epochs", "ppo.n_epochs", "passes over a rollout in an update"},
    {"--batch-size", "ppo.batch_size", "rows of a minibatch"},
    {"--eval-every", "eval.every", "updates between evaluations"},
    {"--eval-episodes", "eval.episodes", "episodes of an evaluation"},
};

std::string key_of(const KnownOption& option, const Config& config) {
  const std::string key = option.key;
  if (!key.starts_with(kAlgorithm)) return key;
  return config.get_text("algo") + "." + key.substr(std::string(kAlgorithm).size());
}

RunOption as_run_option(const KnownOption& option) {
  const auto apply = [&option](Config& config, const std::string& text) {
    const std::string key = key_of(option, config);
    if (config.schema().find(key) == nullptr) {
      throw Error(ErrorCode::kUsage, fmt::format("{}: {} has no key {}", option.name,
                                                 config.get_text("env.name"), key));
    }
    config.set(key, text);
  };
  return {.name = option.name,
          .env = "funding",
          .help = fmt::format("{} ({})", option.help, option.key),
          .range = {},
          .apply = apply};
}

// The earlier system counted its updates.
RunOption save_every() {
  const auto apply = [](Config& config, const std::string& text) {
    const int64_t rows = config.get_integer("num_envs") * config.get_integer("n_steps");
    config.set("save_freq", std::to_string(std::stoi(text) * rows));
  };
  return {.name = "--save-every",
          .env = "funding",
          .help = "updates between checkpoints (save_freq, in steps)",
          .range = {{1, 1'000'000}},
          .apply = apply};
}

}  // namespace

std::vector<RunOption> known_options() {
  std::vector<RunOption> options;
  for (const KnownOption& option : kOptions) options.push_back(as_run_option(option));
  options.push_back(save_every());
  return options;
}

}  // namespace flotilla::funding
