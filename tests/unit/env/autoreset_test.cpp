// The batch loop: autoreset, time limits, episode statistics, and a slow twin of it all.
#include <gtest/gtest.h>

#include "flotilla/domains/classic/cartpole.h"
#include "flotilla/domains/classic/catch.h"
#include "flotilla/domains/classic/corners.h"
#include "flotilla/domains/classic/faulty.h"
#include "flotilla/domains/classic/maze.h"
#include "flotilla/domains/classic/pendulum.h"
#include "flotilla/domains/classic/regions.h"
#include "support/batch.h"

namespace flotilla::test {
namespace {

using enum Script::Act;

struct Expected {
  int32_t act;
  float reward;
  bool terminated, truncated;
  float count;  // obs[0] after the step
  // Of the episode that ended, where one did.
  float episode_return = 0;
  int length = 0;
};

// The numbers env `env` of Script draws, in order: one per reset, one per step.
class Draws {
 public:
  Draws(uint64_t seed, int env) : rng_(env_rng(seed, env)) {}
  float start() { return static_cast<float>(rng_.below(1000)); }
  float noise() { return static_cast<float>(rng_.uniform()); }

 private:
  Rng rng_;
};

TEST(Autoreset, AWholeTrajectoryByHand) {
  // Time limit 3. The last row of each episode shows the next one's observation.
  const std::vector<Expected> script = {
      {kGo, 1, false, false, 1},
      {kGo, 1, false, false, 2},
      {kGo, 1, false, true, 0, 3, 3},          // cut by the limit
      {kEnd, 10, true, false, 0, 10, 1},       // ended by the rules, in its first step
      {kCut, 20, false, true, 0, 20, 1},       // cut by the env itself
      {kEndAndCut, 30, true, true, 0, 30, 1},  // the env says both
      {kGo, 1, false, false, 1},
      {kGo, 1, false, false, 2},
      {kEnd, 10, true, true, 0, 12, 3},  // ends in the very step of the limit: both are true
      {kGo, 1, false, false, 1},
      {kCut, 20, false, true, 0, 21, 2},
      {kGo, 1, false, false, 1},
      {kGo, 1, false, false, 2},
      {kCut, 20, false, true, 0, 22, 3},
      {kGo, 1, false, false, 1},
  };
  constexpr uint64_t kSeed = 42;
  for (const Variant& variant : variants(3)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"time_limit=3"}, variant.options);
    batch.reset(kSeed);
    const StepView v = batch.view();
    std::vector<Draws> draws;
    std::vector<float> start, age(3);
    for (int i = 0; i < 3; ++i) {
      draws.emplace_back(kSeed, i);
      start.push_back(draws.back().start());
      EXPECT_EQ(batch.obs(i), (std::vector<float>{0, start.back(), 0}));
      EXPECT_EQ(v.reward[i], 0);
      EXPECT_EQ(v.terminated[i] + v.truncated[i], 0);
      EXPECT_EQ(v.valid[i], 1);
    }
    for (size_t t = 0; t < script.size(); ++t) {
      SCOPED_TRACE("step " + std::to_string(t));
      const Expected& e = script[t];
      batch.step({e.act, e.act, e.act});
      for (size_t i = 0; i < 3; ++i) {
        const float noise = draws[i].noise();
        ++age[i];
        EXPECT_EQ(v.reward[i], e.reward);
        EXPECT_EQ(v.terminated[i], e.terminated);
        EXPECT_EQ(v.truncated[i], e.truncated);
        EXPECT_EQ(v.valid[i], 1);
        if (e.terminated || e.truncated) {
          const std::vector<float> last = {age[i], start[i], noise};
          EXPECT_EQ(batch.final_obs(static_cast<int>(i)), last);
          EXPECT_EQ(v.episode_return[i], e.episode_return);
          EXPECT_EQ(v.episode_length[i], e.length);
          EXPECT_EQ(v.metrics[i * 2], age[i]);
          EXPECT_EQ(v.metrics[i * 2 + 1], start[i]);
          start[i] = draws[i].start();
          age[i] = 0;
          EXPECT_EQ(batch.obs(static_cast<int>(i)), (std::vector<float>{0, start[i], 0}));
        } else {
          EXPECT_EQ(batch.obs(static_cast<int>(i)), (std::vector<float>{e.count, start[i], noise}));
        }
      }
    }
    EXPECT_TRUE(batch.vec().take_failures().empty());
  }
}

TEST(Autoreset, EnvsEndOnTheirOwn) {
  Batch batch("test_script", {}, serial(3));
  batch.reset(1);
  batch.step({kGo, kEnd, kGo});
  EXPECT_EQ(batch.obs(0)[0], 1);
  EXPECT_EQ(batch.obs(1)[0], 0);
  batch.step({kCut, kGo, kGo});
  EXPECT_EQ(batch.obs(0)[0], 0);
  EXPECT_EQ(batch.obs(1)[0], 1);
  EXPECT_EQ(batch.obs(2)[0], 2);
  EXPECT_EQ(batch.view().episode_length[0], 2);
}

TEST(Autoreset, TheTimeLimitCanBeReplaced) {
  const auto first_cut = [](const char* own, int replaced) {
    VecOptions options = serial(1);
    options.time_limit = replaced;
    Batch batch("test_script", {own}, options);
    EXPECT_EQ(batch.spec().time_limit, replaced > 0 ? replaced : std::stoi(std::string(own + 11)));
    batch.reset(1);
    for (int t = 1; t <= 10'000; ++t) {
      batch.step({kGo});
      if (batch.view().truncated[0] != 0) return t;
    }
    return -1;
  };
  EXPECT_EQ(first_cut("time_limit=5", 0), 5);
  EXPECT_EQ(first_cut("time_limit=5", 2), 2);
  EXPECT_EQ(first_cut("time_limit=5", 1), 1);
  EXPECT_EQ(first_cut("time_limit=5", 9), 9);
  EXPECT_EQ(first_cut("time_limit=0", 4), 4);
  EXPECT_EQ(first_cut("time_limit=0", 0), -1) << "0 is never";
}

TEST(Autoreset, ReturnsAreSummedInDoublePrecision) {
  // 20 million in steps of 1 would stand still in float after 2^24; 10^6 steps of 1 + rounding do
  // not show it, so the sum is checked where float sums go wrong: pendulum's uneven rewards.
  Batch batch("pendulum", {}, serial(2));
  batch.reset(3);
  double sum = 0;
  for (uint64_t t = 0; t < 200; ++t) {
    batch.step_randomly(3, t);
    sum += static_cast<double>(batch.view().reward[1]);
  }
  ASSERT_EQ(batch.view().truncated[1], 1);
  EXPECT_EQ(batch.view().episode_return[1], static_cast<float>(sum));
  EXPECT_EQ(batch.view().episode_length[1], 200);
}

TEST(Autoreset, AStepWritesOnlyItsOwnView) {
  constexpr int kEnvs = 150;
  Batch batch("catch", {}, serial(kEnvs), 4);
  batch.vec().reset(1, batch.view(0));
  const auto image = [&](int t) {
    std::string all;
    for (int i = 0; i < kEnvs; ++i) all += row_bytes(batch.spec(), batch.view(t), i);
    return all;
  };
  const std::string first = image(0), third = image(2);
  random_actions(batch.spec(), {0, kEnvs}, 1, 0, nullptr, batch.actions_out(1));
  batch.vec().begin(0, batch.actions(1), batch.view(1));
  batch.vec().wait(0);
  EXPECT_EQ(image(0), first);
  EXPECT_EQ(image(2), third);
  EXPECT_NE(image(1), third);
}

TEST(Autoreset, TheSameSeedGivesTheSameAgain) {
  Batch batch("faulty", {}, serial(5));
  const auto play = [&](uint64_t seed) {
    batch.reset(seed);
    std::vector<std::vector<std::string>> all = {batch.rows()};
    for (uint64_t t = 0; t < 150; ++t) {
      batch.step_randomly(seed, t);
      all.push_back(batch.rows());
    }
    return all;
  };
  const auto first = play(7);
  EXPECT_NE(play(8), first);
  EXPECT_EQ(play(7), first);
}

// The readable twin: one env, one loop, straight over the Env concept.
template <class E>
class SlowTwin {
 public:
  SlowTwin(const Config& config, uint64_t seed, int env) : env_(config), rng_(env_rng(seed, env)) {
    env_.reset(state_, rng_);
  }

  // The row after this action, in the order of row_bytes().
  std::string step(const void* action) {
    const EnvSpec& spec = env_.spec();
    const Outcome outcome = env_.step(state_, ActionRow(action), rng_);
    return_ += static_cast<double>(outcome.reward);
    const bool truncated =
        outcome.truncated || (++length_ == spec.time_limit && spec.time_limit > 0);
    std::string ended;
    if (outcome.terminated || truncated) {
      ended = observed() + bytes_of(static_cast<float>(return_)) + bytes_of(length_);
      std::vector<float> metrics(spec.metrics.size());
      if constexpr (MeteredEnv<E>) env_.metrics(state_, metrics);
      for (const float metric : metrics) ended += bytes_of(metric);
      env_.reset(state_, rng_);
      return_ = 0;
      length_ = 0;
    }
    std::string mask(spec.has_mask ? spec.action.mask_size() : 0, '\0');
    if constexpr (MaskedEnv<E>) {
      env_.mask(state_, {reinterpret_cast<uint8_t*>(mask.data()), mask.size()});
    }
    return observed() + bytes_of(outcome.reward) + bytes_of(outcome.terminated) +
           bytes_of(truncated) + '\1' + mask + ended;
  }

 private:
  template <class T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(value)};
  }
  std::string observed() const {
    std::string row(env_.spec().obs.row_bytes(), '\0');
    env_.observe(state_, ObsRow(row.data(), env_.spec().obs.elements()));
    return row;
  }

  const E env_;
  Rng rng_;
  typename E::State state_{};
  double return_ = 0;
  int32_t length_ = 0;
};

template <class E>
void expect_equal_to_twin(const std::string& name, const std::vector<std::string>& overrides = {}) {
  SCOPED_TRACE(name);
  constexpr int kEnvs = 70;  // more than the loop handles in one go
  const Config config = config_of(registry().find(name), overrides);
  Batch batch(name, overrides, serial(kEnvs));
  batch.reset(5);
  std::vector<std::unique_ptr<SlowTwin<E>>> twins;
  for (int i = 0; i < kEnvs; ++i) twins.push_back(std::make_unique<SlowTwin<E>>(config, 5, i));
  int ended = 0;
  for (uint64_t t = 0; t < 1000; ++t) {
    batch.step_randomly(99, t);
    for (int i = 0; i < kEnvs; ++i) {
      const void* action = batch.actions().row(static_cast<size_t>(i), batch.spec().action.dims());
      ASSERT_EQ(batch.row(i), twins[static_cast<size_t>(i)]->step(action))
          << "env " << i << ", step " << t;
      ended += batch.view().terminated[i] + batch.view().truncated[i];
    }
  }
  EXPECT_GT(ended, kEnvs) << "too few episodes ended to say anything";
}

TEST(SlowTwin, EveryShippedEnv) {
  expect_equal_to_twin<classic::CartPole>("cartpole");
  expect_equal_to_twin<classic::Pendulum>("pendulum");
  expect_equal_to_twin<classic::Corners>("corners");
  expect_equal_to_twin<classic::Regions>("regions");
  expect_equal_to_twin<classic::Maze>("maze", {"time_limit=150"});
  expect_equal_to_twin<classic::Catch>("catch");
  expect_equal_to_twin<classic::Faulty>("faulty");
  expect_equal_to_twin<classic::Pendulum>("pendulum", {"time_limit=1"});
}

}  // namespace
}  // namespace flotilla::test
