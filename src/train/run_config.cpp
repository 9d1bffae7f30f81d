#include "flotilla/train/run_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/env/libenv/libenv.h"

namespace flotilla {
namespace {

constexpr int64_t kMaxRows = 1 << 30;  // of a rollout
constexpr int kActorsOnGpu = 2;        // one steps while the other acts
constexpr const char* kEvalLevels = "eval.levels";
constexpr const char* kValidation = "validation";
constexpr std::string_view kLast = "_last";  // ends the key of a schedule's last value
constexpr std::array<std::string_view, 3> kOfSeparatePhases = {
    "ppo.value_epochs", "ppo.policy_epochs", "ppo.value_learning_rate"};

// Whether an environment keeps levels apart by which a policy is chosen.
bool has_validation(const EnvType& type) {
  const Key* levels = type.schema.find("levels");
  return levels != nullptr && std::ranges::count(levels->options, kValidation) > 0;
}

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
    case Backend::kActors:
      return vec.groups;
  }
  return 1;
}

// Parts of a rollout that remote actors send: the same on every machine, for they are what an
// actor plays.
int slots_worth(int num_envs) {
  int slots = 4;
  while (num_envs % slots != 0) --slots;
  return slots;
}

}  // namespace

Schema RunConfig::vec_schema() {
  Schema schema = VecOptions::schema();
  schema.set_default("num_envs", "64").set_default("backend", "threads").set_default("groups", "0");
  return schema;
}

Schema ClusterOptions::schema() {
  const ClusterOptions d;
  Schema schema;
  schema
      .choice("sum", "exact", {"exact", "fast"},
              "gradients of blocks are added in their order, for the same bits with any number of "
              "processes, or as is fastest")
      .integer("port", d.port, {0, 65535}, "where processes meet; 0: MASTER_PORT + 1")
      .execution()
      .number("deadline_s", d.deadline_s, {1, 1e6},
              "seconds without a sign of life after which a process is given up")
      .execution()
      .text("listen", d.listen,
            "PORT of this host, or HOST:PORT for others, where remote actors come; empty: none")
      .execution();
  return schema;
}

ClusterOptions ClusterOptions::from(const Config& config, const std::string& prefix) {
  ClusterOptions options;
  options.sum = config.get_text(prefix + "sum") == "exact" ? BlockSum::kExact : BlockSum::kFast;
  options.port = static_cast<int>(config.get_integer(prefix + "port"));
  options.deadline_s = config.get_number(prefix + "deadline_s");
  options.listen = config.get_text(prefix + "listen");
  return options;
}

Schema RunConfig::schema(const EnvType& type, const Algorithm& algorithm) {
  Schema schema;
  schema.choice("env.name", type.name, {type.name}, "the environment");
  schema.include("env", type.schema);
  schema.include("", vec_schema());
  schema.include("async", AsyncOptions::schema());
  if (type.worker_command) schema.set_default("backend", "processes");
  schema
      .integer("learner_threads", 0, {0, 1024},
               "threads that learn; 0: as many as pay, measured at the start")
      .execution();
  schema.integer("seed", 0, {0, INT64_MAX}, "of everything that is drawn")
      .integer("total_timesteps", kSteps, {0, INT64_MAX}, "steps of all envs together; 0: no limit")
      .alias("steps")
      .integer("episodes", 0, {0, INT64_MAX}, "episodes of all envs together; 0: no limit")
      .integer("iterations", 0, {0, INT64_MAX}, "rollouts, each with its update; 0: no limit")
      .alias("epochs")
      .number("duration_s", 0, {0, 1e9}, "seconds of wall time; 0: no limit")
      .integer("n_steps", 128, {1, 1'000'000}, "steps of each env between updates")
      .alias("horizon")
      .alias("num_steps")
      .text("curriculum", "", "settings of parts of the run, one after another (docs/training.md)")
      .holds_maps()
      .text("init", "", "run or policy file whose weights and normalisers training starts from")
      .choice("algo", algorithm.name, {algorithm.name}, "the learning algorithm")
      .choice("policy", "auto", {"auto", "fused", "torch"}, "what carries out the network")
      .choice("device", "cpu", {"cpu", "cuda"}, "where the network runs")
      .boolean("normalize_reward", false, "rewards divided by the std of the return")
      .alias("normalise_reward")
      .integer("eval_freq", 0, {0, INT64_MAX},
               "steps of all envs between evaluations; 0: as eval.every says")
      .integer("save_freq", 0, {0, INT64_MAX},
               "steps of all envs between checkpoints; 0: by time alone")
      .alias("checkpoint.every")
      .execution();
  schema.include("net", NetworkSpec::schema());
  schema.rename("net.normalize_obs", "normalize_obs");  // beside that of rewards
  schema.include(algorithm.name, algorithm.schema);
  schema.include("explore", ExplorationOptions::schema());
  schema.include("eval", EvalOptions::schema());
  if (has_validation(type)) {
    schema.choice(kEvalLevels, kValidation, {"train", kValidation},
                  "which of its levels evaluations play; the best checkpoint is chosen by them, so "
                  "never those of the test");
  }
  schema
      .number("checkpoint.every_s", 60, {0, 1e9}, "seconds between checkpoints; 0: by steps alone")
      .execution()
      .integer("checkpoint.keep", 3, {1, 1'000'000}, "checkpoints to keep, besides the best one")
      .execution();
  schema.include("cluster", ClusterOptions::schema());
  return schema;
}

RunConfig::RunConfig(const EnvType& type, const Config& config, const Algorithms& algorithms)
    : type(type),
      algorithm(algorithms.find(config.get_text("algo"))),
      config(config),
      env_config(config.part("env", type.schema)),
      eval_config(env_config),
      algo_config(config.part(algorithm.name, algorithm.schema)) {
  vec = VecOptions::from(config);
  threads = vec.threads;
  learner_threads = static_cast<int>(config.get_integer("learner_threads"));
  most_learner_threads =
      config.get_integer("threads") == 0 ? cpu_count() : std::min(threads, cpu_count());
  cluster = ClusterOptions::from(config, "cluster.");
  if (config.get_integer("actors") == 0) {
    const bool act_on_gpu = asynchronous() && config.get_text("device") == "cuda";
    if (remote()) {
      vec.groups = slots_worth(vec.num_envs);
    } else if (act_on_gpu && vec.workers == 0 && !type.worker_command) {
      vec.groups = std::min(vec.num_envs, kActorsOnGpu);
    }
  }
  async = AsyncOptions::from(config, "async.");
  if (asynchronous() && type.worker_command && vec.workers == 0) {
    // Where actors are remote, those here are not stepped: one process has them all.
    vec.workers = remote() ? 1 : std::min(cpu_count(), vec.groups);
  }
  if (config.get_integer("groups") == 0) vec.groups = groups_worth(type, vec);
  // What was left to be chosen goes into the effective config.
  this->config.set("threads", std::to_string(vec.threads));
  this->config.set("workers", std::to_string(vec.workers));
  this->config.set(asynchronous() ? "actors" : "groups", std::to_string(vec.groups));
  vec.validate();
  vec.validate_for(type);
  n_steps = static_cast<int>(config.get_integer("n_steps"));
  seed = env_seed = static_cast<uint64_t>(config.get_integer("seed"));
  limits = {.steps = config.get_integer("total_timesteps"),
            .episodes = config.get_integer("episodes"),
            .updates = config.get_integer("iterations"),
            .duration_s = config.get_number("duration_s")};
  if (limits.steps == 0 && limits.episodes == 0 && limits.updates == 0 && limits.duration_s == 0) {
    throw Error(ErrorCode::kUsage,
                "one of total_timesteps, episodes, iterations and duration_s must be above 0");
  }
  init = config.get_text("init");
  policy = config.get_text("policy");
  device = config.get_text("device");
  normalise_reward = config.get_boolean("normalize_reward");
  exploration = ExplorationOptions::from(config, "explore.");
  spec = type.spec(env_config, vec.time_limit);
  network = NetworkSpec::from(config, "net.", spec);
  eval = EvalOptions::from(config, "eval.", seed);
  eval.vec = vec;
  checkpoint = {.every = config.get_integer("save_freq"),
                .every_s = config.get_number("checkpoint.every_s"),
                .keep = static_cast<int>(config.get_integer("checkpoint.keep"))};
  const int64_t rows = int64_t{n_steps} * vec.num_envs;
  if (rows > kMaxRows) {
    throw Error(ErrorCode::kUsage, fmt::format("n_steps {} x num_envs {} is more than {} rows",
                                               n_steps, vec.num_envs, kMaxRows));
  }
  algorithm.validate(algo_config, rows, network);
  require_equal_blocks();
  if (algorithm.learns_in_actors) require_learning_actors();
  if (asynchronous() && !algorithm.allows_lag) {
    throw Error(ErrorCode::kUsage,
                "backend: expected serial, threads or processes, not actors: " + algorithm.name +
                    " learns from what the present policy did (algo=appo and "
                    "algo=impala allow for others)");
  }
  if (remote()) require_remote();
  fill_in();
}

void RunConfig::require_remote() const {
  const auto expect = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorCode::kUsage, what + " with cluster.listen");
  };
  const Endpoint at = endpoint_from(cluster.listen, "cluster.listen");
  expect(asynchronous() && !algorithm.learns_in_actors,
         "algo, backend: expected appo or impala, and actors,");
  expect(!async.fixed, "async.schedule: expected free");
  expect(type.name != kLibenv, "env: expected none of libenv, whose library actors do not have,");
  expect(vec.workers == (type.worker_command ? 1 : 0),
         "workers: expected none (give them to actors: flotilla actor --workers)");
  expect(vec.replicas == 1, "replicas: expected 1");
  expect(config.get_text("curriculum").empty(), "curriculum: expected none");
  expect(vec.num_envs % vec.groups == 0,
         fmt::format("actors: expected a number that divides num_envs {}, not {},", vec.num_envs,
                     vec.groups));
  if (at.host == "0.0.0.0" || at.host == "::") {
    throw Error(ErrorCode::kUsage,
                "cluster.listen: expected the address by which actors reach this host, not '" +
                    at.host + "'");
  }
}

int RunConfig::blocks() const { return algorithm.blocks ? algorithm.blocks(algo_config) : 1; }

void RunConfig::require_equal_blocks() const {
  const int count = blocks();
  const std::string key = algorithm.name + ".blocks";
  if (vec.num_envs % count != 0) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} {} do not divide num_envs {}", key, count, vec.num_envs));
  }
  if (vec.num_envs / count % vec.replicas != 0 && count > 1) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} {}: the {} envs of a block are no multiple of replicas {}", key,
                            count, vec.num_envs / count, vec.replicas));
  }
}

VecOptions RunConfig::own_envs() const {
  const Collective& processes = *cluster.collective;
  if (processes.size() == 1) return vec;
  const std::string many = fmt::format("{} processes", processes.size());
  if (!algorithm.blocks) {
    throw Error(ErrorCode::kUsage, fmt::format("algo: expected ppo for {}: {} has no blocks that "
                                               "they could share",
                                               many, algorithm.name));
  }
  if (asynchronous()) {
    throw Error(ErrorCode::kUsage,
                "backend: expected serial, threads or processes for " + many + ", not actors");
  }
  if (blocks() < processes.size()) {
    throw Error(ErrorCode::kUsage, fmt::format("{}.blocks: expected {} or more for {}, not {}",
                                               algorithm.name, processes.size(), many, blocks()));
  }
  if (exploration.on()) {
    throw Error(ErrorCode::kUsage,
                "explore.bonus: expected 0 for " + many + ": each would count what it met alone");
  }
  const Blocks shared(blocks(), *cluster.collective, cluster.sum);
  const int each = vec.num_envs / blocks();
  VecOptions own = vec;
  own.num_envs = each * shared.own();
  own.first_env = each * shared.mine().begin;
  own.all_envs = vec.num_envs;
  // Where they were chosen, it was for all envs. Rank 0 alone knows what was given.
  const auto fitting = [&](const char* key, int value) {
    if (value > own.num_envs && config.is_overridden(key)) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("{}: expected an integer from 1 to {} (num_envs {} shared by {}), got {}",
                      key, own.num_envs, vec.num_envs, many, value));
    }
    return std::min(value, own.num_envs);
  };
  own.groups = fitting("groups", vec.groups);
  if (vec.in_workers()) own.workers = fitting("workers", vec.workers);
  return own;
}

void RunConfig::fill_in() {
  const auto for_evaluation = [this] {
    Config changed = env_config;
    if (has_validation(type)) changed.set("levels", config.get_text(kEvalLevels));
    return changed;
  };
  // Where it has no such levels, that is said at once.
  if (has_validation(type) && eval.episodes > 0) type.spec(for_evaluation(), vec.time_limit);
  if (type.fill_in) {
    type.fill_in(env_config);
    for (const Key& key : type.schema.keys()) {
      config.set("env." + key.name, env_config.input_text(key.name));
    }
  }
  eval_config = for_evaluation();
}

std::string RunConfig::made_idle_by(const std::string& key) const {
  const auto unless = [this](bool matters, const std::string& other) {
    return matters ? "" : other + "=" + config.input_text(other);
  };
  if (key == "start_method" || key == "start_timeout_s") return unless(vec.in_workers(), "backend");
  if (key == "workers") return unless(vec.in_workers() || asynchronous(), "backend");
  if (key == "groups") return unless(!asynchronous(), "backend");
  if (key == "actors" || key.starts_with("async.")) {
    if (!asynchronous()) return unless(false, "backend");
    return unless(key != (async.fixed ? "async.ring" : "async.lag"), "async.schedule");
  }
  if (key == "restart_budget") return unless(vec.on_failure != OnFailure::kStop, "on_env_failure");
  if (key == "net.groups" || key == "net.fusion") {
    return unless(network.torso == Torso::kAttention, "net.torso");
  }
  if (key == "explore.resolution" || key == "explore.cells") {
    return unless(exploration.on(), "explore.bonus");
  }
  // A phase of a curriculum may change what another key of the algorithm means.
  const bool of_algorithm = key.starts_with(algorithm.name + ".");
  if (of_algorithm && !config.get_text("curriculum").empty()) return "";
  if (key.ends_with(kLast)) {
    const std::string shape = key.substr(0, key.size() - kLast.size()) + "_schedule";
    const bool is_value = config.schema().find(shape) != nullptr;
    return unless(!is_value || config.get_text(shape) != "constant", shape);
  }
  if (std::ranges::count(kOfSeparatePhases, key) > 0) {
    return unless(config.get_text("ppo.phases") == "separate", "ppo.phases");
  }
  return "";
}

std::map<std::string, std::vector<std::string>> RunConfig::without_effect() const {
  std::map<std::string, std::vector<std::string>> keys;
  for (const Key& key : config.schema().keys()) {
    if (!config.is_overridden(key.name)) continue;
    if (const std::string by = made_idle_by(key.name); !by.empty()) keys[by].push_back(key.name);
  }
  return keys;
}

void RunConfig::require_learning_actors() const {
  const auto refuse = [](const std::string& key, const std::string& expected,
                         const std::string& why) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: expected {}: {}", key, expected, why));
  };
  const std::string& name = algorithm.name;
  if (!asynchronous()) refuse("backend", "actors", name + " learns in them");
  if (vec.in_workers()) refuse("workers", "0", "the threads of " + name + " step their own envs");
  if (async.fixed) refuse("async.schedule", "free", name + " depends on timing by design");
  if (device != "cpu") {
    refuse("device", "cpu",
           "the threads of " + name +
               " share parameters in the memory of the CPU (appo and impala learn "
               "on a GPU)");
  }
  if (exploration.on()) {
    refuse("explore.bonus", "0", "the threads of " + name + " learn before all is counted");
  }
  if (normalise_reward) {
    refuse("normalize_reward", "false",
           "the threads of " + name +
               " learn before the rewards of all are known (appo scales "
               "them)");
  }
}

void keep_crashes_inside(Config& config, const std::string& path) {
  const std::string folder = config.get_text("crash_dir");
  if (folder.empty() || folder == kDefaultCrashDir) return;
  log::warn(
      "crash_dir of the run's config.yaml is not taken, since a run may come from somebody else: "
      "give it on the command line",
      {{"crash_dir", folder}, {"now", path + "/" + kDefaultCrashDir}});
  config.set("crash_dir", kDefaultCrashDir);
}

}  // namespace flotilla
