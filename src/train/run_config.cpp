#include "flotilla/train/run_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

constexpr int64_t kMaxRows = 1 << 30;  // of a rollout

// With two groups workers step one while the policy acts for the other, and threads go on with one
// while others are still at the other. Halves must not become too small to be worth a thread.
int groups_worth(const EnvType& type, const VecOptions& vec) {
  constexpr int kEnvsPerThread = 32;
  if (type.batched) return 1;
  switch (vec.backend) {
    case Backend::kSerial:
      return 1;
    case Backend::kThreads:
      return vec.threads > 1 && vec.num_envs >= kEnvsPerThread * vec.threads ? 2 : 1;
    case Backend::kProcesses:
      return vec.num_envs >= 2 ? 2 : 1;
  }
  return 1;
}

}  // namespace

Schema RunConfig::vec_schema() {
  Schema schema = VecOptions::schema();
  schema.set_default("num_envs", "64").set_default("backend", "threads").set_default("groups", "0");
  return schema;
}

Schema RunConfig::schema(const EnvType& type, const Algorithm& algorithm) {
  Schema schema;
  schema.choice("env.name", type.name, {type.name}, "the environment");
  schema.include("env", type.schema);
  schema.include("", vec_schema());
  schema.integer("seed", 0, {0, INT64_MAX}, "of everything that is drawn")
      .integer("steps", kSteps, {0, INT64_MAX}, "steps of all envs together; 0: no limit")
      .alias("total_timesteps")
      .integer("episodes", 0, {0, INT64_MAX}, "episodes of all envs together; 0: no limit")
      .integer("epochs", 0, {0, INT64_MAX}, "rollouts, each with its update; 0: no limit")
      .alias("iterations")
      .number("duration_s", 0, {0, 1e9}, "seconds of wall time; 0: no limit")
      .integer("horizon", 128, {1, 1'000'000}, "steps of each env between updates")
      .alias("n_steps")
      .choice("algo", algorithm.name, {algorithm.name}, "the learning algorithm")
      .choice("policy", "auto", {"auto", "fused", "torch"}, "what carries out the network")
      .choice("device", "cpu", {"cpu", "cuda"}, "where the network runs")
      .boolean("normalise_reward", false, "divide rewards by the deviation of the return")
      .alias("normalize_reward");
  schema.include("net", NetworkSpec::schema());
  schema.include(algorithm.name, algorithm.schema);
  schema.include("eval", EvalOptions::schema());
  schema
      .integer("checkpoint.every", 0, {0, INT64_MAX},
               "steps of all envs between checkpoints; 0: by time alone")
      .alias("save_freq")
      .execution()
      .number("checkpoint.every_s", 60, {0, 1e9}, "seconds between checkpoints; 0: by steps alone")
      .execution()
      .integer("checkpoint.keep", 3, {1, 1'000'000}, "checkpoints to keep, besides the best one")
      .execution();
  return schema;
}

RunConfig::RunConfig(const EnvType& type, const Config& config, const Algorithms& algorithms)
    : type(type),
      algorithm(algorithms.find(config.get_text("algo"))),
      config(config),
      env_config(config.part("env", type.schema)),
      algo_config(config.part(algorithm.name, algorithm.schema)) {
  vec = VecOptions::from(config);
  threads = vec.threads;
  if (config.get_integer("groups") == 0) vec.groups = groups_worth(type, vec);
  // What was left to be chosen goes into the effective config.
  this->config.set("threads", std::to_string(vec.threads));
  this->config.set("workers", std::to_string(vec.workers));
  this->config.set("groups", std::to_string(vec.groups));
  vec.validate();
  vec.validate_for(type);
  horizon = static_cast<int>(config.get_integer("horizon"));
  seed = static_cast<uint64_t>(config.get_integer("seed"));
  limits = {.steps = config.get_integer("steps"),
            .episodes = config.get_integer("episodes"),
            .updates = config.get_integer("epochs"),
            .duration_s = config.get_number("duration_s")};
  if (limits.steps == 0 && limits.episodes == 0 && limits.updates == 0 && limits.duration_s == 0) {
    throw Error(ErrorCode::kUsage, "one of steps, episodes, epochs and duration_s must be above 0");
  }
  policy = config.get_text("policy");
  device = config.get_text("device");
  normalise_reward = config.get_boolean("normalise_reward");
  spec = type.spec(env_config, vec.time_limit);
  network = NetworkSpec::from(config, "net.", spec);
  eval = EvalOptions::from(config, "eval.", seed);
  eval.vec = vec;
  checkpoint = {.every = config.get_integer("checkpoint.every"),
                .every_s = config.get_number("checkpoint.every_s"),
                .keep = static_cast<int>(config.get_integer("checkpoint.keep"))};
  const int64_t rows = int64_t{horizon} * vec.num_envs;
  if (rows > kMaxRows) {
    throw Error(ErrorCode::kUsage, fmt::format("horizon {} x num_envs {} is more than {} rows",
                                               horizon, vec.num_envs, kMaxRows));
  }
  algorithm.validate(algo_config, rows, network);
}

void keep_crashes_inside(Config& config, const std::string& path) {
  const std::string folder = config.get_text("crash_dir");
  if (folder.empty() || folder == kDefaultCrashDir) return;
  log::warn(
      "crash_dir of the run's config.yaml is not taken: it leads outside of the run; give it "
      "on the command line",
      {{"crash_dir", folder}, {"now", path + "/" + kDefaultCrashDir}});
  config.set("crash_dir", kDefaultCrashDir);
}

}  // namespace flotilla
