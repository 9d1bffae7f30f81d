// Failures of environments: what is known about one, and the crash bundle that replays it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/env/env_loop.h"

namespace flotilla {

struct FailureReport {
  std::string purpose;  // of the batch of envs, or ""
  std::string env_name;
  int env = -1;       // its number; -1: a worker died while it was in no env
  uint64_t seed = 0;  // of the run
  uint32_t episode = 0;
  uint32_t step = 0;      // of the episode, counted from 0
  std::string phase;      // "step" or "reset"
  std::string action;     // the action of the failed step, "-" in reset
  std::string cause;      // "threw: ...", "killed by signal 11 (SIGSEGV) ...", "hung for 60 s"
  bool repeated = false;  // the worker was replaced and made the same step again: nothing lost
  std::string bundle;     // file that replays it; empty when none was written

  std::string message() const;  // one line with all of it
};

// Thrown by VecEnv::wait() and reset() when a failure ends the run.
class EnvFailure : public Error {
 public:
  EnvFailure(const FailureReport& report, const std::string& consequence);
  const FailureReport& report() const { return report_; }
  const std::string& consequence() const { return consequence_; }

 private:
  FailureReport report_;
  std::string consequence_;
};

// Enough to repeat one env's episode up to the failed step, in one process.
struct CrashBundle {
  std::string env_name;
  std::string config_yaml;
  std::string spec_sha256;
  int time_limit = 0;
  uint64_t seed = 0;
  int env = 0;
  uint32_t episode = 0;
  uint64_t episode_start = 0;  // generator position at which the episode's reset begins
  uint64_t steps_lost = 0;     // actions of the episode's beginning that were not kept
  std::vector<std::vector<double>> actions;  // the last one failed
  std::string cause;

  std::string text() const;
  static CrashBundle read(const std::string& path);  // throws Error(kData)
  static CrashBundle parse(const std::string& contents, const std::string& path);  // the same
};

// "killed by signal 11 (SIGSEGV)", "exited with status 7".
std::string describe_wait_status(int status);
std::string signal_name(int signal);

}  // namespace flotilla
