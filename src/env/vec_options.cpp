#include "flotilla/env/vec_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

// Envs of an actor, below which one more is not worth a thread's while: it acts for few at a time.
constexpr int kLargeGroup = 8;

Backend backend_from(const std::string& name) {
  if (name == "threads") return Backend::kThreads;
  if (name == "actors") return Backend::kActors;
  return name == "processes" ? Backend::kProcesses : Backend::kSerial;
}

OnFailure on_failure_from(const std::string& name) {
  if (name == "restart") return OnFailure::kRestart;
  return name == "drop" ? OnFailure::kDrop : OnFailure::kStop;
}

}  // namespace

Schema VecOptions::schema() {
  Schema schema;
  schema
      .choice("backend", "serial", {"serial", "threads", "processes", "actors"},
              "where environments are stepped; actors run ahead of the learner")
      .execution()
      .integer("num_envs", 1, {1, kMaxEnvs}, "environments stepped together")
      .alias("n_envs")
      .integer("replicas", 1, {1, kMaxEnvs},
               "envs in a row that have the same random numbers, and differ by their actions alone")
      .integer("groups", 1, {0, kMaxGroupsInTurn},
               "parts that step in turn: 2 is double buffering; 0: chosen where it pays")
      .execution()
      .integer("threads", 0, {0, 1024}, "threads of the threads back end; 0: one per CPU")
      .execution()
      .boolean("pin", false, "every thread stays on a CPU of its own")
      .execution()
      .integer("workers", 0, {0, 1024},
               "workers of the processes back end, 0: one per CPU; of actors, 0: none")
      .execution()
      .integer(
          "actors", 0, {0, kMaxGroups},
          "parts of the envs of the actors back end; 0: two per thread, or one of few envs; two on "
          "a GPU")
      .execution()
      .choice("start_method", "spawn", {"spawn", "fork"}, "how worker processes are started")
      .execution()
      .choice("on_env_failure", "stop", {"stop", "restart", "drop"},
              "stop the run, give the env a new episode, or go on without it")
      .integer("restart_budget", 100, {0, 1'000'000'000}, "restarts before the run stops")
      .number("step_timeout_s", 60, {0.01, 86400}, "seconds without progress that count as hung")
      .execution()
      .number("start_timeout_s", 60, {0.01, 86400}, "seconds a worker may take to come up")
      .execution()
      .text("crash_dir", kDefaultCrashDir, "directory of crash bundles; empty: none")
      .execution();
  return schema;
}

VecOptions VecOptions::from(const Config& config) {
  VecOptions options;
  options.backend = backend_from(config.get_text("backend"));
  options.num_envs = static_cast<int>(config.get_integer("num_envs"));
  options.replicas = static_cast<int>(config.get_integer("replicas"));
  options.groups = std::max(1, static_cast<int>(config.get_integer("groups")));
  options.threads = static_cast<int>(config.get_integer("threads"));
  options.pin = config.get_boolean("pin");
  options.workers = static_cast<int>(config.get_integer("workers"));
  options.start_method =
      config.get_text("start_method") == "fork" ? StartMethod::kFork : StartMethod::kSpawn;
  options.on_failure = on_failure_from(config.get_text("on_env_failure"));
  options.restart_budget = static_cast<int>(config.get_integer("restart_budget"));
  options.step_timeout_s = config.get_number("step_timeout_s");
  options.start_timeout_s = config.get_number("start_timeout_s");
  options.crash_dir = config.get_text("crash_dir");
  if (options.threads == 0) options.threads = std::min(cpu_count(), options.num_envs);
  if (options.workers == 0 && options.backend != Backend::kActors) {
    options.workers = std::min(cpu_count(), options.num_envs);
  }
  if (options.backend == Backend::kActors) {
    options.groups = static_cast<int>(config.get_integer("actors"));
    if (options.groups == 0) {
      const int most = std::min(options.num_envs, kMaxGroups);
      const int large = options.num_envs / kLargeGroup;
      options.groups = std::min(std::clamp(large, options.threads, 2 * options.threads), most);
    }
  }
  return options;
}

void VecOptions::validate() const {
  const auto in_range = [](const char* name, int value, int high, const char* why = "") {
    if (value < 1 || value > high) {
      throw Error(ErrorCode::kUsage, fmt::format("{}: expected an integer from 1 to {}{}, got {}",
                                                 name, high, why, value));
    }
  };
  // Each has an env at least.
  const auto shares_envs = [&](const char* name, int value, int high) {
    const bool few = num_envs < high;
    in_range(name, value, few ? num_envs : high, few ? " (num_envs)" : "");
  };
  in_range("num_envs", num_envs, kMaxEnvs);
  in_range("replicas", replicas, kMaxEnvs);
  if (first_env < 0 || first_env > kMaxEnvNumber - num_envs) {
    throw Error(ErrorCode::kUsage,
                fmt::format("first_env: expected an integer from 0 to {}, got {}",
                            kMaxEnvNumber - num_envs, first_env));
  }
  const bool actors = backend == Backend::kActors;
  shares_envs(actors ? "actors" : "groups", groups, actors ? kMaxGroups : kMaxGroupsInTurn);
  in_range("threads", threads, 1024);
  if (pin && threads > cpu_count()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("pin: {} cannot have a CPU of their own: there are {}",
                            counted(threads, "thread"), cpu_count()));
  }
  for (const double seconds : {step_timeout_s, start_timeout_s}) {
    if (!(seconds > 0)) throw Error(ErrorCode::kUsage, "a timeout must be longer than 0 s");
  }
  if (!in_workers()) return;
  if (actors) {
    in_range("workers", workers, groups, " (actors)");
  } else {
    shares_envs("workers", workers, 1024);
  }
  if (start_method == StartMethod::kFork && !worker_command.empty()) {
    throw Error(ErrorCode::kUsage, "start_method: expected spawn, for workers are another program");
  }
}

void VecOptions::validate_for(const EnvType& type) const {
  if (type.worker_command) {
    const auto expect = [&type](bool holds, const char* what) {
      if (holds) return;
      throw Error(ErrorCode::kUsage,
                  fmt::format("{}: the environments of '{}' are in {}", what, type.name,
                              type.make_worker_loop ? "worker processes alone"
                                                    : "workers of another program"));
    };
    expect(in_workers(), backend == Backend::kActors ? "workers: expected 1 at least"
                                                     : "backend: expected processes or actors");
    expect(start_method == StartMethod::kSpawn, "start_method: expected spawn");
  }
  if (!type.batched) return;
  const auto refuse = [&type](const std::string& what) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: the environments of '{}' step all together", what, type.name));
  };
  if (backend == Backend::kProcesses || backend == Backend::kActors) {
    refuse("backend: expected serial or threads, not " +
           std::string(backend == Backend::kActors ? "actors" : "processes"));
  }
  if (groups > 1) refuse("groups: expected 1, not 2");
}

}  // namespace flotilla
