#pragma once
#include "flotilla/env/env.h"

// A bit is shown; repeating it pays 1. An episode takes ten rounds.
class Echo {
 public:
  struct State {
    uint32_t bit;
  };
  static flotilla::Schema schema() { return {}; }
  explicit Echo(const flotilla::Config&) {
    spec_.obs = flotilla::ObsSpace::float32({1}, 0, 1);
    spec_.action = flotilla::ActionSpace::discrete(2);
    spec_.time_limit = 10;
  }
  const flotilla::EnvSpec& spec() const { return spec_; }
  void reset(State& s, flotilla::Rng& g) const { s.bit = g.below(2); }
  flotilla::Outcome step(State& s, flotilla::ActionRow action, flotilla::Rng& g) const {
    const bool same = static_cast<uint32_t>(action.discrete()) == s.bit;
    s.bit = g.below(2);
    return {.reward = same ? 1.0F : 0.0F};
  }
  void observe(const State& s, flotilla::ObsRow row) const {
    row.f32()[0] = static_cast<float>(s.bit);
  }

 private:
  flotilla::EnvSpec spec_;
};
