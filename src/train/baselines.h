// The simplest players: what a policy has to beat before its score says anything.
#pragma once

#include <optional>

#include "flotilla/train/evaluator.h"

namespace flotilla {

// Uniformly random among the open choices: a function of the seed, the env and the step.
Player random_player(const EnvSpec& spec, uint64_t seed);

struct ConstantPlay {
  int choice = 0;
  Evaluation eval;
};

// The best of those that choose the same at every step. None where actions are more than one
// choice, among more than kMostConstants, or closed at times.
constexpr int kMostConstants = 32;
std::optional<ConstantPlay> best_constant(Evaluator& evaluator, const EnvSpec& spec);

}  // namespace flotilla
