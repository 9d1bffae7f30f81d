// One env played by hand: the shortest way for a test to say "from this state, this action".
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "flotilla/env/env.h"

namespace flotilla::classic {

template <class E>
Config config_of(std::initializer_list<const char*> overrides = {}) {
  Config config(E::schema());
  for (const char* override_text : overrides) config.apply_override(override_text);
  return config;
}

// Obs is the element type of the env's observation.
template <Env E, class Obs = float>
struct Play {
  static_assert(std::is_trivially_copyable_v<typename E::State>);

  E env;
  Rng rng{1, stream_of(Purpose::kTest, 0)};
  typename E::State state{};
  std::vector<Obs> obs;

  explicit Play(std::initializer_list<const char*> overrides = {})
      : env(config_of<E>(overrides)), obs(env.spec().obs.elements()) {
    reset();
  }

  void observe() { env.observe(state, ObsRow(obs.data(), obs.size())); }

  void reset() {
    env.reset(state, rng);
    observe();
  }

  Outcome step(std::initializer_list<int> choices) {
    std::array<int32_t, 4> action{};
    std::copy(choices.begin(), choices.end(), action.begin());
    const Outcome outcome = env.step(state, ActionRow(action.data()), rng);
    observe();
    return outcome;
  }

  Outcome step_box(float coordinate) {
    const std::array<float, 4> action = {coordinate};
    const Outcome outcome = env.step(state, ActionRow(action.data()), rng);
    observe();
    return outcome;
  }

  std::vector<float> metrics() const requires MeteredEnv<E> {
    std::vector<float> row(env.spec().metrics.size());
    env.metrics(state, row);
    return row;
  }

  // Uniform play with resets; observations and rewards must keep the bounds of the spec.
  void check_random_play(int steps) {
    const EnvSpec& spec = env.spec();
    int age = 0;
    for (int i = 0; i < steps; ++i) {
      Outcome outcome;
      if (spec.action.is_box()) {
        outcome =
            step_box(static_cast<float>(rng.uniform(spec.action.low[0], spec.action.high[0])));
      } else {
        std::array<int32_t, 4> action{};
        for (size_t d = 0; d < spec.action.dims(); ++d) {
          action[d] =
              static_cast<int32_t>(rng.below(static_cast<uint32_t>(spec.action.choices[d])));
        }
        outcome = env.step(state, ActionRow(action.data()), rng);
        observe();
      }
      ASSERT_GE(outcome.reward, spec.reward_low);
      ASSERT_LE(outcome.reward, spec.reward_high);
      for (size_t k = 0; k < obs.size(); ++k) {
        ASSERT_GE(static_cast<float>(obs[k]), spec.obs.low[k]) << "element " << k << " step " << i;
        ASSERT_LE(static_cast<float>(obs[k]), spec.obs.high[k]) << "element " << k << " step " << i;
      }
      if (outcome.terminated || ++age == spec.time_limit) {
        reset();
        age = 0;
      }
    }
  }
};

}  // namespace flotilla::classic
