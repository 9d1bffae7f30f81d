// CoinRun as an environment. docs/coinrun.md: the rules, the options, the picture.
#pragma once

#include <optional>

#include "flotilla/domains/coinrun/full_look.h"
#include "flotilla/domains/coinrun/state.h"
#include "flotilla/env/env.h"

namespace flotilla::coinrun {

constexpr uint32_t kLevelSeeds = 2147483647;  // they are from 0 to one less

class CoinRun {
 public:
  using State = coinrun::State;

  static Schema schema();
  explicit CoinRun(const Config& config);

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const;
  Outcome step(State& s, ActionRow action, Rng& g) const;
  void observe(const State& s, ObsRow row) const;
  void metrics(const State& s, MetricRow m) const;
  bool valid(const State& s) const;

  Mode mode() const { return mode_; }
  // Begins an episode on a given level.
  void begin(State& s, int32_t level_seed) const;

 private:
  uint32_t draw_level(Rng& g) const;

  EnvSpec spec_;
  Mode mode_;
  std::optional<FullLook> full_;           // none: monochrome
  uint32_t first_level_ = 0, levels_ = 0;  // of training; 0: all there are
  bool held_out_ = false;                  // all but these are played
};

Mode mode_named(const std::string& name);

}  // namespace flotilla::coinrun
