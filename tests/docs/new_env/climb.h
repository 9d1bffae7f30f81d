// Climb: two steps up end the episode, the time limit is three, and choice 2 throws. Small enough
// that every row of docs/autoreset.md can be worked out by hand.
#pragma once

#include <stdexcept>

#include "flotilla/env/env.h"

class Climb {
 public:
  struct State {
    int32_t height;
  };

  static flotilla::Schema schema() { return {}; }

  explicit Climb(const flotilla::Config&) {
    spec_.obs = flotilla::ObsSpace::float32({1}, 0, 2);
    spec_.action = flotilla::ActionSpace::discrete(3);  // wait, up, break
    spec_.time_limit = 3;
  }

  const flotilla::EnvSpec& spec() const { return spec_; }

  void reset(State& s, flotilla::Rng&) const { s.height = 0; }

  flotilla::Outcome step(State& s, flotilla::ActionRow action, flotilla::Rng&) const {
    const int choice = action.discrete();
    if (choice == 2) throw std::runtime_error("the ladder broke");
    s.height += choice;
    return {.reward = static_cast<float>(choice), .terminated = s.height == 2};
  }

  void observe(const State& s, flotilla::ObsRow row) const {
    row.f32()[0] = static_cast<float>(s.height);
  }

 private:
  flotilla::EnvSpec spec_;
};
