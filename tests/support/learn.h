// One step of learning as most tests take it: the gradient over some rows, and down along it.
#pragma once

#include "flotilla/nn/policy.h"

namespace flotilla::test {

struct LearnResult {
  double grad_norm = 0;  // before clipping
  LossSums sums;
};

inline LearnResult learn(Policy& policy, ThreadPool& pool, const Samples& samples,
                         std::span<const int32_t> chosen, Nets nets, const Objective& objective,
                         const GradientStep& step = {}) {
  LearnResult result;
  result.sums = policy.gradient(pool, samples, chosen, nets, objective);
  result.grad_norm = policy.apply(pool, nets, step);
  return result;
}

}  // namespace flotilla::test
