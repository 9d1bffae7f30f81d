// Thermostat: keep a room warm by switching its heating on and off. The radiator takes its time to
// warm up and to cool down, so a rule that waits for the room comes too late.
#pragma once

#include <cmath>

#include "flotilla/env/env.h"

class Thermostat {
 public:
  struct State {
    float room, radiator, outside;  // degrees
  };

  static flotilla::Schema schema() {
    flotilla::Schema schema;
    schema.number("target", 21, {15, 25}, "degrees that the room should have");
    return schema;
  }

  explicit Thermostat(const flotilla::Config& config)
      : target_(static_cast<float>(config.get_number("target"))) {
    spec_.obs = flotilla::ObsSpace::float32({3}, -50, 50);
    spec_.action = flotilla::ActionSpace::discrete(2);  // off, on
    spec_.time_limit = 240;                             // minutes
  }

  const flotilla::EnvSpec& spec() const { return spec_; }

  void reset(State& s, flotilla::Rng& g) const {
    s.room = s.radiator = static_cast<float>(g.uniform(16, 24));
    s.outside = static_cast<float>(g.uniform(-10, 10));
  }

  flotilla::Outcome step(State& s, flotilla::ActionRow action, flotilla::Rng&) const {
    const float water = action.discrete() == 1 ? 70.0F : s.room;
    s.radiator += 0.05F * (water - s.radiator);
    s.room += 0.05F * (s.radiator - s.room) + 0.02F * (s.outside - s.room);
    return {.reward = -std::abs(s.room - target_)};
  }

  void observe(const State& s, flotilla::ObsRow row) const {
    row.f32()[0] = s.room - target_;
    row.f32()[1] = (s.radiator - s.room) / 10;
    row.f32()[2] = (s.outside - s.room) / 10;
  }

 private:
  flotilla::EnvSpec spec_;
  float target_;
};
