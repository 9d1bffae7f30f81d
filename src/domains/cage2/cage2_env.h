// CAGE Challenge 2 as an environment: blue defends thirteen hosts against a scripted attacker.
// docs/cage2.md: the rules, the versions, the loopholes.
#pragma once

#include "flotilla/domains/cage2/actions.h"
#include "flotilla/domains/cage2/random_source.h"
#include "flotilla/domains/cage2/simulator.h"
#include "flotilla/env/env.h"

namespace flotilla::cage2 {

class Cage2 {
 public:
  using State = cage2::State;
  enum class Obs : uint8_t { kBits52, kBits62, kFull };

  static Schema schema();
  explicit Cage2(const Config& config);

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const;
  Outcome step(State& s, ActionRow action, Rng& g) const;
  void observe(const State& s, ObsRow row) const;
  void mask(const State& s, MaskRow m) const;
  void metrics(const State& s, MetricRow m) const;
  bool valid(const State& s) const;

 private:
  EnvSpec spec_;
  Rules rules_;
  Obs obs_;
  bool reduced_;
  int red_;  // a RedAgent, or kMix
};

}  // namespace flotilla::cage2
