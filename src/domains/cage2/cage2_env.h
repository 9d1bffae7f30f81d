// CAGE Challenge 2 as an environment: blue defends thirteen hosts against a scripted attacker.
// docs/cage2.md: the rules, the versions, the loopholes.
#pragma once

#include <optional>

#include "flotilla/domains/cage2/actions.h"
#include "flotilla/domains/cage2/compliance.h"
#include "flotilla/domains/cage2/random_source.h"
#include "flotilla/domains/cage2/simulator.h"
#include "flotilla/env/env.h"

namespace flotilla::cage2 {

class Cage2 {
 public:
  using State = cage2::State;
  enum class Obs : uint8_t { kBits52, kBits62, kFull, kMemory };

  static Schema schema();
  explicit Cage2(const Config& config);

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const;
  Outcome step(State& s, ActionRow action, Rng& g) const;
  // The action of the 145 that a policy's choice stands for now, and what that changes.
  int expanded(State& s, int choice) const { return reduced_ ? expand_action(choice, s) : choice; }
  // A step with any source of choices; `action` is one of the 145.
  template <class Source>
  Outcome play(State& s, int action, Source& source) const {
    const double score_before = score(s);
    judge(s, action);
    return settle(s, action, Simulator<Source>(s, rules_of(s), source).step(action), score_before);
  }
  void observe(const State& s, ObsRow row) const;
  void mask(const State& s, MaskRow m) const;
  void metrics(const State& s, MetricRow m) const;
  bool valid(const State& s) const;

 private:
  const Rules& rules_of(const State& s) const { return s.legacy ? legacy_rules_ : rules_; }
  // Counts a fix and whether it keeps to the workflow; from the state before the step.
  void judge(State& s, int action) const;
  double score(const State& s) const;
  // Blue's bookkeeping, counters and the reward, after the step.
  Outcome settle(State& s, int action, const StepRecord& record, double score_before) const;

  EnvSpec spec_;
  Rules rules_, legacy_rules_;  // the latter of episodes for which that version was drawn
  bool both_versions_;
  Obs obs_;
  bool reduced_;
  RedAgent red_;
  uint32_t reds_;  // one of the first so many is drawn; 1: red_
  std::optional<Workflow> workflow_;
  enum class Rule : uint8_t { kHistory, kState } rule_;
  enum class Alignment : uint8_t { kNone, kLevel, kGain } alignment_;
  double weight_;
};

}  // namespace flotilla::cage2
