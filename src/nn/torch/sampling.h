// Draws actions from the numbers a network gave, on the CPU: a function of (seed, env, step), the
// same for every kind of policy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

#include "flotilla/core/random_words.h"
#include "flotilla/core/rng.h"
#include "flotilla/nn/policy.h"

namespace flotilla::torch_nn {

// The last open choice before which no more than u of the probability lies. REQUIRES: a choice
// is open.
inline int32_t choose(std::span<const float> probabilities, float u) {
  float sum = 0, before = 0;
  for (const float p : probabilities) sum += p;
  int32_t choice = 0;
  for (size_t c = 0; c < probabilities.size(); ++c) {
    if (probabilities[c] > 0 && before <= u * sum) choice = static_cast<int32_t>(c);
    before += probabilities[c];
  }
  return choice;
}

inline int32_t likeliest(std::span<const float> probabilities) {
  return static_cast<int32_t>(std::max_element(probabilities.begin(), probabilities.end()) -
                              probabilities.begin());
}

// The random numbers of a run of envs at one step, `per_env` each.
class Uniforms {
 public:
  // REQUIRES: first_env is a multiple of kWordsAtOnce.
  Uniforms(const Draw& draw, int first_env, int envs, size_t per_env) : per_env_(per_env) {
    const uint64_t stream = stream_of(Purpose::kPolicy, draw.step);
    const uint64_t first = static_cast<uint64_t>(first_env) * per_env;
    const size_t count = static_cast<size_t>(envs) * per_env;
    words_.resize((count + kWordsAtOnce - 1) / kWordsAtOnce * kWordsAtOnce);
    for (size_t at = 0; at < count; at += kWordsAtOnce) {
      random_words(draw.seed, stream, (first + at) / 4, words_.data() + at);
    }
  }

  // In [0, 1), a multiple of 2^-24.
  float operator()(int env, size_t number) const {
    const uint32_t word = words_[static_cast<size_t>(env) * per_env_ + number];
    return static_cast<float>(word >> 8) * 0x1.0p-24F;
  }

 private:
  size_t per_env_;
  std::vector<uint32_t> words_;
};

// Standard normal: Box and Muller (1958).
inline float normal(float u1, float u2) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(u1)));
  return static_cast<float>(radius * std::cos(2 * std::numbers::pi * static_cast<double>(u2)));
}

// What the env gets for the sample of one dimension of a box.
inline float box_action(const NetworkSpec& spec, float sample, size_t dim) {
  const float low = spec.action.low[dim], high = spec.action.high[dim];
  const float point = spec.squash ? low + (std::tanh(sample) + 1) / 2 * (high - low) : sample;
  return std::clamp(point, low, high);
}

}  // namespace flotilla::torch_nn
