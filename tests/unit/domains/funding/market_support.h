// A small market for tests, and environments on it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "flotilla/core/file.h"
#include "flotilla/domains/funding/funding_env.h"

namespace flotilla::funding {

// A directory for a market, as long as the object lives.
class Scratch {
 public:
  Scratch() : path_(temporary_path("funding")) { EXPECT_NE(mkdtemp(path_.data()), nullptr); }
  ~Scratch() { std::filesystem::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Coins are few, so that the ten rows are not always full.
inline std::vector<std::string> small_market() {
  return {"market.days=12", "market.symbols=14", "split.embargo_days=1", "episode_days=1"};
}

inline Config small_config(const std::vector<std::string>& more = {}) {
  Config config(Funding::schema());
  for (const std::string& setting : small_market()) config.apply_override(setting);
  for (const std::string& setting : more) {
    config.set(setting.substr(0, setting.find('=')), setting.substr(setting.find('=') + 1));
  }
  return config;
}

inline Funding small_env(const std::vector<std::string>& more = {}) {
  return Funding(small_config(more));
}

// An episode played by hand.
struct Play {
  explicit Play(const Funding& played, uint64_t seed = 1, int number = 0)
      : env(played), rng(seed, stream_of(Purpose::kEnv, static_cast<uint64_t>(number))) {
    env.reset(state, rng);
  }
  Outcome step(int32_t action) { return env.step(state, ActionRow(&action), rng); }
  std::vector<float> obs() const {
    std::vector<float> row(kObserved, -77);
    env.observe(state, ObsRow(row.data(), row.size()));
    return row;
  }
  std::vector<uint8_t> mask() const {
    std::vector<uint8_t> row(kActions, 7);
    env.mask(state, row);
    return row;
  }
  // One of those that are open, or of all.
  int32_t random_action(Rng& draw, bool only_open) const {
    const std::vector<uint8_t> open = mask();
    int32_t action = 0;
    do {
      action = static_cast<int32_t>(draw.below(kActions));
    } while (only_open && open[static_cast<size_t>(action)] == 0);
    return action;
  }

  const Funding& env;
  Rng rng;
  Funding::State state{};
};

}  // namespace flotilla::funding
