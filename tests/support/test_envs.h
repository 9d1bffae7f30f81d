// Environments made for tests. Script does what its action says, so that a test can write down the
// whole trajectory. Broken breaks one rule of the Env concept at a time. Stripes has images.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/core/clock.h"
#include "flotilla/env/env.h"
#include "flotilla/env/registry.h"

namespace flotilla::test {

inline void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

// Observation: steps of the episode, a number in [0, 1000) drawn by reset, the last draw of step.
class Script {
 public:
  enum Act : int32_t {
    kGo,         // reward 1
    kEnd,        // reward 10, terminated
    kCut,        // reward 20, truncated
    kEndAndCut,  // reward 30, both
    kThrow,
    kThrowInt,    // something that is not a std::exception
    kBlind,       // the step succeeds, observe() throws
    kHang,        // takes `hang_s`, then goes on
    kThrowBytes,  // with a message that is not UTF-8
    kActs
  };

  struct State {
    int32_t count;
    int32_t start;
    float noise;
    int32_t blind;
  };

  static Schema schema() {
    Schema schema;
    schema.integer("time_limit", 5, {0, 1'000'000}, "steps; 0: never")
        .choice("reset", "ok", {"ok", "first", "auto", "always", "odd_seed", "slow"},
                "which resets fail: none; those from generator position 0; those between it and "
                "the first leap; all; those past position 0 when the seed is odd. slow: none, but "
                "each takes hang_s")
        .number("hang_s", 1, {0, 100}, "length of a hang");
    return schema;
  }

  explicit Script(const Config& config)
      : reset_(config.get_text("reset")), hang_s_(config.get_number("hang_s")) {
    spec_.name = "test_script";
    spec_.obs = ObsSpace::float32({0, 0, 0}, {1e6F, 1000, 1});
    spec_.action = ActionSpace::discrete(kActs);
    spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
    spec_.metrics = {"count", "start"};
    spec_.reward_low = 1;
    spec_.reward_high = 30;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    if (reset_ == "slow") sleep_s(hang_s_);
    if (reset_fails(g)) throw std::runtime_error("script: told to fail in reset");
    s = {.count = 0, .start = static_cast<int32_t>(g.below(1000)), .noise = 0, .blind = 0};
  }

  Outcome step(State& s, ActionRow action, Rng& g) const {
    const int act = action.discrete();
    if (act == kThrow) throw std::runtime_error("script: told to throw");
    if (act == kThrowInt) throw 42;
    if (act == kThrowBytes) throw std::runtime_error("script: caf\xe9");
    if (act == kHang) sleep_s(hang_s_);
    ++s.count;
    s.noise = static_cast<float>(g.uniform());
    s.blind = act == kBlind;
    Outcome outcome;
    outcome.reward = act == kEnd ? 10 : act == kCut ? 20 : act == kEndAndCut ? 30 : 1;
    outcome.terminated = act == kEnd || act == kEndAndCut;
    outcome.truncated = act == kCut || act == kEndAndCut;
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    if (s.blind != 0) throw std::runtime_error("script: told to be blind");
    row.f32()[0] = static_cast<float>(s.count);
    row.f32()[1] = static_cast<float>(s.start);
    row.f32()[2] = s.noise;
  }

  void metrics(const State& s, MetricRow row) const {
    row[0] = static_cast<float>(s.count);
    row[1] = static_cast<float>(s.start);
  }

  bool valid(const State& s) const { return s.count >= 0 && s.blind == 0; }

 private:
  bool reset_fails(const Rng& g) const {
    const uint64_t at = g.position();
    if (reset_ == "first") return at == 0;
    if (reset_ == "auto") return at > 0 && at < (uint64_t{1} << kFailureLeapBits);
    if (reset_ == "odd_seed") return at > 0 && g.seed() % 2 == 1;
    return reset_ == "always";
  }

  EnvSpec spec_;
  std::string reset_;
  double hang_s_;
};

class Broken {
 public:
  struct State {
    int32_t count;
    float walk;
  };

  static Schema schema() {
    Schema schema;
    schema.choice("defect", "none",
                  {"none",          "global",      "clock",      "nan_obs",     "obs_bounds",
                   "reward_bounds", "nan_reward",  "nan_metric", "no_choice",   "bad_flag",
                   "mask_lies",     "allocates",   "shared",     "hidden",      "by_thread",
                   "by_process",    "part_of_obs", "bad_spec",   "mask_unsaid", "metrics_unsaid"},
                  "the rule that is broken");
    return schema;
  }

  explicit Broken(const Config& config) : defect_(config.get_text("defect")) {
    spec_.name = "test_broken";
    spec_.obs = ObsSpace::float32({2}, -1e6F, 1e6F);
    spec_.action = ActionSpace::discrete(3);
    spec_.has_mask = !is("mask_unsaid");
    if (!is("metrics_unsaid")) spec_.metrics = {"count"};
    spec_.reward_low = 0;
    spec_.reward_high = is("bad_spec") ? -1 : 2;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    s = {.count = 0, .walk = 0};
    hidden_[g.stream() % hidden_.size()] = 0;
  }

  Outcome step(State& s, ActionRow action, Rng& g) const {
    static std::atomic<int> global{0};
    ++s.count;
    s.walk += static_cast<float>(g.uniform());
    int& hidden = hidden_[g.stream() % hidden_.size()];
    ++hidden;
    if (is("global")) s.walk += static_cast<float>(global.fetch_add(1) % 1000);
    if (is("clock")) s.walk += static_cast<float>(now_ns() % 1000);
    if (is("shared")) s.walk += static_cast<float>(shared_.fetch_add(1) % 1000);
    if (is("hidden")) s.walk += static_cast<float>(hidden);
    if (is("by_thread")) s.walk += gettid() == getpid() ? 0.0F : 1.0F;
    if (is("by_process")) s.walk += static_cast<float>(getpid() % 1009);
    if (is("allocates")) std::vector<int>(100, s.count).swap(keep());
    if (is("mask_lies") && s.count == 50) throw std::runtime_error("not that one");

    Outcome outcome;
    outcome.reward = static_cast<float>(action.discrete());
    if (is("reward_bounds") && s.count == 20) outcome.reward = 2.5F;
    if (is("nan_reward") && s.count == 20) outcome.reward = std::nanf("");
    outcome.terminated = s.count == 60;
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    row.f32()[0] = s.walk;
    if (!is("part_of_obs")) row.f32()[1] = static_cast<float>(s.count);
    if (is("nan_obs") && s.count == 20) row.f32()[1] = std::nanf("");
    if (is("obs_bounds") && s.count == 20) row.f32()[1] = 2e6F;
  }

  void mask(const State& s, MaskRow row) const {
    const uint8_t flag = is("no_choice") && s.count == 20 ? 0 : is("bad_flag") ? 2 : 1;
    for (uint8_t& choice : row) choice = flag;
  }

  void metrics(const State& s, MetricRow row) const {
    row[0] = is("nan_metric") ? std::nanf("") : static_cast<float>(s.count);
  }

 private:
  bool is(const char* defect) const { return defect_ == defect; }
  static std::vector<int>& keep() {
    thread_local std::vector<int> kept;
    return kept;
  }

  EnvSpec spec_;
  std::string defect_;
  mutable std::atomic<int> shared_{0};
  mutable std::array<int, 64> hidden_{};  // by env, so that envs do not disturb each other
};

// Has a mask and advice: of six choices one is illegal, and it advises that one and the two behind
// it.
class Advised {
 public:
  static constexpr int kChoices = 6, kLength = 9;
  struct State {
    int32_t count, unadvised;
  };

  static Schema schema() {
    Schema schema;
    schema.choice("defect", "none", {"none", "clash", "bad_advice", "part_of_advice"},
                  "what is wrong with the advice");
    return schema;
  }

  explicit Advised(const Config& config) : defect_(config.get_text("defect")) {
    spec_.obs = ObsSpace::float32({1}, 0, kLength);
    spec_.action = ActionSpace::discrete(kChoices);
    spec_.has_mask = spec_.has_advice = true;
    spec_.metrics = {"unadvised"};
  }

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const { s.count = static_cast<int32_t>(g.below(3)); }

  Outcome step(State& s, ActionRow action, Rng&) const {
    const int from_illegal = (action.discrete() - s.count % kChoices + kChoices) % kChoices;
    if (from_illegal == 0) throw std::runtime_error("advised: that one is illegal");
    if (from_illegal > 2) ++s.unadvised;
    return {.reward = static_cast<float>(from_illegal), .terminated = ++s.count == kLength};
  }

  void observe(const State& s, ObsRow row) const { row.f32()[0] = static_cast<float>(s.count); }

  void mask(const State& s, MaskRow row) const {
    for (uint8_t& flag : row) flag = 1;
    row[static_cast<size_t>(s.count % kChoices)] = 0;
  }

  void advice(const State& s, MaskRow row) const {
    for (size_t i = defect_ == "part_of_advice" ? 1 : 0; i < row.size(); ++i) row[i] = 0;
    const int advised = defect_ == "clash" ? 1 : 3;
    for (int i = 0; i < advised; ++i) {
      row[static_cast<size_t>((s.count + i) % kChoices)] = defect_ == "bad_advice" ? 3 : 1;
    }
  }

  void metrics(const State& s, MetricRow row) const { row[0] = static_cast<float>(s.unadvised); }

 private:
  EnvSpec spec_;
  std::string defect_;
};

// Says that none of its steps can be made again.
class Once : public Script {
 public:
  static constexpr bool kRepeatable = false;
  using Script::Script;
};

// Pictures with a patch of stripes somewhere. Pays 1 for saying which way they run, 8 times.
class Stripes {
 public:
  struct State {
    int32_t count, row, column, upright;
  };

  static Schema schema() {
    Schema schema;
    schema.integer("side", 36, {8, 64}, "rows and columns of a picture")
        .integer("patch", 8, {8, 64}, "rows and columns of the stripes");
    return schema;
  }

  explicit Stripes(const Config& config)
      : side_(static_cast<int>(config.get_integer("side"))),
        patch_(std::min(side_, static_cast<int>(config.get_integer("patch")))) {
    spec_.name = "test_stripes";
    spec_.obs = ObsSpace::uint8({side_, side_, 1});
    spec_.action = ActionSpace::discrete(2);
    spec_.reward_low = 0;
    spec_.reward_high = 1;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    s = {};
    draw(s, g);
  }

  Outcome step(State& s, ActionRow action, Rng& g) const {
    Outcome outcome;
    outcome.reward = action.discrete() == s.upright ? 1 : 0;
    outcome.terminated = ++s.count == kPictures;
    draw(s, g);
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    for (uint8_t& pixel : row.u8()) pixel = 0;
    for (int r = 0; r < patch_; ++r) {
      for (int c = 0; c < patch_; ++c) {
        const bool bright = (s.upright != 0 ? c : r) % 4 < 2;
        const int at = (s.row + r) * side_ + s.column + c;
        row.u8()[static_cast<size_t>(at)] = bright ? 255 : 60;
      }
    }
  }

 private:
  static constexpr int kPictures = 8;

  void draw(State& s, Rng& g) const {
    const auto places = static_cast<uint32_t>(side_ - patch_ + 1);
    s.row = static_cast<int32_t>(g.below(places));
    s.column = static_cast<int32_t>(g.below(places));
    s.upright = static_cast<int32_t>(g.below(2));
  }

  EnvSpec spec_;
  const int side_, patch_;
};

void register_test_envs(Registry& registry);

}  // namespace flotilla::test
