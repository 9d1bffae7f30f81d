// Hike: walk along a path to its end, over stones that may slip.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "flotilla/env/env.h"

class Hike {
 public:
  struct State {
    int32_t position;
    int32_t slips;
  };

  static flotilla::Schema schema() {
    flotilla::Schema schema;
    schema.integer("length", 20, {2, 10'000}, "places of the path; the walk starts at the first")
        .number("slip", 0.1, {0.0, 0.5}, "chance that a step goes the other way");
    return schema;
  }

  explicit Hike(const flotilla::Config& config)
      : last_(static_cast<int>(config.get_integer("length")) - 1),
        slip_(config.get_number("slip")) {
    spec_.obs = flotilla::ObsSpace::float32({1}, 0, 1);
    spec_.action = flotilla::ActionSpace::discrete(2);  // back, on
    spec_.has_mask = true;
    spec_.metrics = {"slips"};
    spec_.time_limit = 10 * (last_ + 1);
    spec_.reward_low = -0.01F;
    spec_.reward_high = 1;
  }

  const flotilla::EnvSpec& spec() const { return spec_; }

  void reset(State& s, flotilla::Rng&) const { s = {.position = 0, .slips = 0}; }

  flotilla::Outcome step(State& s, flotilla::ActionRow action, flotilla::Rng& g) const {
    const bool on = action.discrete() == 1;
    if (!on && s.position == 0) throw std::invalid_argument("no way back from the first place");
    const bool slipped = g.chance(slip_);
    s.slips += slipped;
    s.position = std::clamp(s.position + (on != slipped ? 1 : -1), 0, last_);
    const bool arrived = s.position == last_;
    return {.reward = arrived ? 1.0F : -0.01F, .terminated = arrived};
  }

  void observe(const State& s, flotilla::ObsRow row) const {
    row.f32()[0] = static_cast<float>(s.position) / static_cast<float>(last_);
  }

  void mask(const State& s, flotilla::MaskRow row) const {
    row[0] = s.position > 0;
    row[1] = 1;
  }

  void metrics(const State& s, flotilla::MetricRow row) const {
    row[0] = static_cast<float>(s.slips);
  }

  bool valid(const State& s) const {
    return s.position >= 0 && s.position <= last_ && s.slips >= 0;
  }

 private:
  flotilla::EnvSpec spec_;
  int last_;
  double slip_;
};
