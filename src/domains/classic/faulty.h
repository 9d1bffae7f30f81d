// Faulty: a counting env that fails on request, to try how the engine takes it. Harmless unless the
// key `fault` says otherwise.
//
// It also exercises masks: after an odd number of steps t the choice t mod 3 is illegal, and
// stepping with it throws. The reward is the choice. Observation: share of the time limit used, the
// last choice (-1 before the first), a random walk in [-1, 1], and the parity of t.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "flotilla/domains/classic/choice.h"
#include "flotilla/env/env.h"

namespace flotilla::classic {

class Faulty {
 public:
  struct State {
    int32_t steps;
    int32_t last_choice;
    float walk;
  };

  static Schema schema() {
    Schema schema;
    schema
        .integer("time_limit", 100, {1, 1'000'000'000}, "steps after which an episode is truncated")
        .choice("fault", "none", {"none", "throw", "segv", "abort", "exit", "hang", "kill"},
                "what goes wrong: an exception, a write through a null pointer, abort(), exit with "
                "status 7, a call that never returns, SIGKILL to its own process")
        .choice("where", "step", {"step", "reset"}, "the call in which it goes wrong")
        .integer("fault_step", 50, {1, 1'000'000'000},
                 "where = step: first step of an episode, counted from 1, that can fail")
        .number("fault_probability", 1.0, {0.0, 1.0},
                "chance of the fault in each such step, or in each reset")
        .number("sleep_ms", 0, {0, 60'000}, "a step sleeps so long")
        .number("slow_ms", 0, {0, 60'000}, "and some steps so long instead")
        .number("slow_probability", 0.05, {0.0, 1.0}, "how many of them");
    return schema;
  }

  explicit Faulty(const Config& config);

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    if (fault_ != Fault::kNone && in_reset_ && g.chance(fault_probability_)) fail("reset");
    s = {.steps = 0, .last_choice = -1, .walk = 0};
  }

  Outcome step(State& s, ActionRow action, Rng& g) const {
    const int choice = action.discrete();
    require_choice(choice, 3);
    if (choice == illegal_choice(s)) throw_illegal(choice, s.steps);
    if (fault_ != Fault::kNone && !in_reset_ && s.steps + 1 >= fault_step_ &&
        g.chance(fault_probability_)) {
      fail("step " + std::to_string(s.steps + 1));
    }
    if (sleep_ms_ > 0 || slow_ms_ > 0) {
      sleep(slow_ms_ > 0 && g.chance(slow_probability_) ? slow_ms_ : sleep_ms_);
    }
    ++s.steps;
    s.last_choice = choice;
    s.walk = std::clamp(s.walk + static_cast<float>(g.uniform(-0.1, 0.1)), -1.0F, 1.0F);

    Outcome outcome;
    outcome.reward = static_cast<float>(choice);
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    float* out = row.f32().data();
    out[0] = static_cast<float>(s.steps) / static_cast<float>(spec_.time_limit);
    out[1] = static_cast<float>(s.last_choice);
    out[2] = s.walk;
    out[3] = static_cast<float>(s.steps % 2);
  }

  bool valid(const State& s) const {
    return s.steps >= 0 && s.steps < spec_.time_limit && s.last_choice >= -1 && s.last_choice < 3 &&
           s.walk >= -1 && s.walk <= 1;
  }

  void mask(const State& s, MaskRow row) const {
    for (int choice = 0; choice < 3; ++choice) row[choice] = choice != illegal_choice(s);
  }

 private:
  enum class Fault { kNone, kThrow, kSegv, kAbort, kExit, kHang, kKill };

  static int illegal_choice(const State& s) { return s.steps % 2 == 1 ? s.steps % 3 : -1; }

  [[noreturn]] void fail(const std::string& when) const;
  [[noreturn]] static void throw_illegal(int choice, int step);
  static void sleep(double ms);

  EnvSpec spec_;
  Fault fault_ = Fault::kNone;
  bool in_reset_;
  int fault_step_;
  double fault_probability_;
  double sleep_ms_, slow_ms_, slow_probability_;
};

}  // namespace flotilla::classic
