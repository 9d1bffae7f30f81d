// The policy of a run that is to be judged, with the market it is judged on.
#pragma once

#include <memory>
#include <string>

#include "flotilla/command/program.h"
#include "flotilla/domains/funding/funding_env.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla {

// Which policy, and on which days: options of all commands that judge one.
struct JudgeArguments {
  std::string run, checkpoint, levels = "test", data;
  uint64_t seed = 9999;
  int allow_overlap = 0;  // how often it was given

  void add_to(Command& command);
};

struct JudgedPolicy {
  const EnvType& type;
  Config config;           // of its environment, with the days that are judged
  std::string checkpoint;  // "best", "last", a step, or "file"
  std::string origin;      // its file
  bool seen_in_training;   // some of these days were
  std::unique_ptr<Policy> policy;
};

// Throws Error(kUsage) for days of the policy's training, unless that was asked for twice.
JudgedPolicy read_judged_policy(const Program& program, const JudgeArguments& arguments);

}  // namespace flotilla
