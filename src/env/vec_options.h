// How many environments are stepped, by what, and what happens when one fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/crash_folder.h"
#include "flotilla/env/registry.h"

namespace flotilla {

enum class Backend : uint8_t { kSerial, kThreads, kProcesses, kActors };
enum class StartMethod : uint8_t { kSpawn, kFork };

constexpr int kMaxEnvs = 1'000'000;
constexpr int kMaxEnvNumber = 1'000'000'000;  // of all batches that belong together
constexpr int kMaxGroups = 64;                // of actors
constexpr int kMaxGroupsInTurn = 2;           // of the other back ends
constexpr const char* kDefaultCrashDir = "crashes";

struct VecOptions {
  Backend backend = Backend::kSerial;
  int num_envs = 1;
  // The number of the first of them. Random numbers depend on an env's number, so that several
  // batches, in one program or in many, can share one row of envs: each begins where the one before
  // it ends.
  int first_env = 0;
  int all_envs = 0;  // of all of those batches; 0: this one is alone
  int replicas = 1;  // envs in a row that have the same random numbers
  int groups = 1;    // of Backend::kActors: the actors
  int threads = 1;   // of Backend::kThreads
  bool pin = false;  // each to a CPU of its own
  int workers = 1;   // of Backend::kProcesses, and of kActors, where 0 are none
  StartMethod start_method = StartMethod::kSpawn;  // fork shares the parent's memory image
  // With what worker processes are spawned: a program, found as a shell would, and its first
  // arguments, behind which those of run_if_worker() follow. Empty: this program.
  std::vector<std::string> worker_command;
  int time_limit = 0;   // replaces the env's own when positive
  std::string purpose;  // which messages of failures begin with; "": none

  OnFailure on_failure = OnFailure::kStop;
  int restart_budget = 100;     // restarts over the life of the VecEnv
  double step_timeout_s = 60;   // without progress in one env
  double start_timeout_s = 60;  // for a worker to come up
  double stopped_grace_s = 1;   // a worker stopped by a signal is replaced after this long
  CrashFolder crash_dir;        // where crash bundles go; empty: none are written

  // Whether worker processes step the envs.
  bool in_workers() const {
    return backend == Backend::kProcesses || (backend == Backend::kActors && workers > 0);
  }
  // Whether threads of this process do.
  bool in_threads() const { return backend != Backend::kSerial && !in_workers(); }

  // The keys of all this, as they are called on the command line and in YAML.
  static Schema schema();
  static VecOptions from(const Config& config);
  // Throws Error(kUsage) for combinations that cannot be run. make_vec_env() calls both.
  void validate() const;
  void validate_for(const EnvType& type) const;
};

}  // namespace flotilla
