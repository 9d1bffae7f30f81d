// What a learner and a remote actor tell each other. The actor introduces itself, the learner
// welcomes it with the run's config or refuses it; from then on the actor reports and the learner
// answers with the policy to go on with, by turns.
//
// Messages come from another machine: whoever reads one gets it whole and checked, or an
// Error(kData). Nothing in them is carried out but the settings of a registered environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/train/rollout.h"

namespace flotilla {

using Message = std::vector<std::byte>;

struct ActorHello {
  std::string version;  // of the program
  std::string host;     // for people
};
Message encode(const ActorHello& hello);
ActorHello read_hello(std::span<const std::byte> message);
constexpr uint64_t kLargestHello = 4096;

struct ActorWelcome {
  std::string refusal = {};  // "": it is welcome
  std::string config = {};   // YAML, all keys
  int first_env = 0, num_envs = 0;
  uint64_t seed = 0;  // of its envs, and of what it draws
  double gamma = 1;   // of the returns by which rewards are scaled
};
Message encode(const ActorWelcome& welcome);
ActorWelcome read_welcome(std::span<const std::byte> message);
constexpr uint64_t kLargestWelcome = uint64_t{1} << 21U;

enum class ActorState : uint64_t {
  kReady,    // it has no policy yet
  kColumns,  // it has played: a rollout of its envs follows
  kLeaving   // it was asked to stop
};

struct ActorReport {
  ActorState state = ActorState::kReady;
  int64_t version = 0;               // of the policy that acted
  int64_t failures = 0;              // of envs, since the last report
  std::vector<double> returns = {};  // discounted, of each env before the first step
};
// `rollout`: of the actor's envs; its own where it has columns.
Message encode(const ActorReport& report, const Rollout& rollout);
// Loads the columns into `rollout`. Throws Error(kData), also for what no policy can have done; the
// rollout is then good for nothing.
ActorReport read_report(std::span<const std::byte> message, Rollout& rollout);
// Bytes of a report on such a rollout, with as many episodes as it has rows.
uint64_t largest_report(const Rollout& rollout, const EnvSpec& spec);

struct ActorPolicy {
  int64_t version = 0;
  std::string model = {};  // a policy file (nn/policy_file.h)
};
Message encode(const ActorPolicy& policy);
ActorPolicy read_policy(std::span<const std::byte> message);
constexpr uint64_t kLargestPolicy = uint64_t{1} << 32U;

}  // namespace flotilla
