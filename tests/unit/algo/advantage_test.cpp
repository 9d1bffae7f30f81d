#include "flotilla/algo/advantage.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The arrays of a trajectory; all rows valid, running, and zero.
struct Rollout {
  Rollout(int steps_, int envs_) : steps(steps_), envs(envs_) {
    const size_t rows = at(steps, 0);
    reward.resize(rows);
    value.resize(rows);
    final_value.assign(rows, kNan);  // not to be read unless truncated
    terminated.resize(rows);
    truncated.resize(rows);
    valid.assign(rows, 1);
    last_value.resize(static_cast<size_t>(envs));
  }

  size_t at(int t, int i) const { return static_cast<size_t>(t * envs + i); }

  Trajectory view() const {
    return {steps,        envs,         reward.data(),      terminated.data(), truncated.data(),
            valid.data(), value.data(), final_value.data(), last_value.data()};
  }

  int steps, envs;
  std::vector<float> reward, value, final_value, last_value;
  std::vector<uint8_t> terminated, truncated, valid;
};

struct Estimate {
  std::vector<float> advantage, target;
};

Estimate estimate(const Rollout& rollout, double gamma, double lambda, int parts = 1) {
  Estimate out;
  out.advantage.assign(rollout.reward.size(), kNan);
  out.target.assign(rollout.reward.size(), kNan);
  for (int part = 0; part < parts; ++part) {
    estimate_advantages(rollout.view(), part_of({0, rollout.envs}, part, parts), gamma, lambda,
                        out.advantage.data(), out.target.data());
  }
  return out;
}

// One env, three or four steps, gamma = lambda = 1/2, so that
//   delta[t] = reward[t] + next_value / 2 - value[t]
//   advantage[t] = delta[t] + advantage[t + 1] / 4.
struct Golden {
  std::string name;
  std::vector<float> reward, value;
  float last_value;
  std::vector<uint8_t> terminated, truncated, valid;
  float final_value;  // of the truncated row
  std::vector<float> advantage, target;
};

const std::vector<Golden> kGoldens = {
    // delta = 1 + 2 - 8 = -5, 2 + 1 - 4 = -1, 4 + 3 - 2 = 5
    // advantage = -5 + 0.25 / 4, -1 + 5 / 4, 5
    {"running",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 0, 0},
     {0, 0, 0},
     {1, 1, 1},
     kNan,
     {-4.9375f, 0.25f, 5},
     {3.0625f, 4.25f, 7}},
    // delta[1] = 2 - 4 = -2, and nothing comes from behind it; advantage[0] = -5 - 2 / 4
    {"terminated",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 1, 0},
     {0, 0, 0},
     {1, 1, 1},
     kNan,
     {-5.5f, -2, 5},
     {2.5f, 2, 7}},
    // delta[2] = 4 - 2 = 2; advantage = -5 - 0.5 / 4, -1 + 2 / 4, 2
    {"terminated at the edge",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 0, 1},
     {0, 0, 0},
     {1, 1, 1},
     kNan,
     {-5.125f, -0.5f, 2},
     {2.875f, 3.5f, 4}},
    // delta[1] = 2 + 10 / 2 - 4 = 3; advantage[0] = -5 + 3 / 4
    {"truncated",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 0, 0},
     {0, 1, 0},
     {1, 1, 1},
     10,
     {-4.25f, 3, 5},
     {3.75f, 7, 7}},
    // delta[2] = 4 + 10 / 2 - 2 = 7, not with the last value; -1 + 7 / 4 = 0.75; -5 + 0.75 / 4
    {"truncated at the edge",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 0, 0},
     {0, 0, 1},
     {1, 1, 1},
     10,
     {-4.8125f, 0.75f, 7},
     {3.1875f, 4.75f, 9}},
    // The end that is an end wins over the cut.
    {"terminated and truncated",
     {1, 2, 4},
     {8, 4, 2},
     6,
     {0, 1, 0},
     {0, 1, 0},
     {1, 1, 1},
     10,
     {-5.5f, -2, 5},
     {2.5f, 2, 7}},
    // Row 0 bootstraps from value[1] = 4: delta[0] = 1 + 2 - 8, and that is all.
    {"failed in the middle",
     {1, kNan, 4},
     {8, 4, 2},
     6,
     {0, 0, 0},
     {0, 0, 0},
     {1, 0, 1},
     kNan,
     {-5, 0, 5},
     {3, 4, 7}},
    {"failed at the start",
     {kNan, 2, 4},
     {8, 4, 2},
     6,
     {0, 0, 0},
     {0, 0, 0},
     {0, 1, 1},
     kNan,
     {0, 0.25f, 5},
     {8, 4.25f, 7}},
    // Row 1 bootstraps from value[2] = 2: -1. Row 0: -5 - 1 / 4. The last value is of another
    // episode.
    {"failed at the end",
     {1, 2, kNan},
     {8, 4, 2},
     kNan,
     {0, 0, 0},
     {0, 0, 0},
     {1, 1, 0},
     kNan,
     {-5.25f, -1, 0},
     {2.75f, 3, 2}},
    // Out of service for a step after the failure; row 0 bootstraps from value[1] = 4.
    {"failed twice",
     {1, kNan, kNan, 4},
     {8, 4, 3, 2},
     6,
     {0, 0, 0, 0},
     {0, 0, 0, 0},
     {1, 0, 0, 1},
     kNan,
     {-5, 0, 0, 5},
     {3, 4, 3, 7}},
    // The flags of an invalid row mean nothing.
    {"failed with flags",
     {1, 5, 4},
     {8, 4, 2},
     6,
     {0, 1, 0},
     {0, 1, 0},
     {1, 0, 1},
     10,
     {-5, 0, 5},
     {3, 4, 7}},
    // The episode ends, then the first step of the next fails.
    {"ended, then failed",
     {1, kNan, 4},
     {8, 4, 2},
     6,
     {1, 0, 0},
     {0, 0, 0},
     {1, 0, 1},
     kNan,
     {-7, 0, 5},
     {1, 4, 7}},
};

void fill(Rollout& rollout, int env, const Golden& golden) {
  for (int t = 0; t < rollout.steps; ++t) {
    const size_t row = rollout.at(t, env), from = static_cast<size_t>(t);
    rollout.reward[row] = golden.reward[from];
    rollout.value[row] = golden.value[from];
    rollout.terminated[row] = golden.terminated[from];
    rollout.truncated[row] = golden.truncated[from];
    rollout.valid[row] = golden.valid[from];
    if (golden.truncated[from] != 0) rollout.final_value[row] = golden.final_value;
  }
  rollout.last_value[static_cast<size_t>(env)] = golden.last_value;
}

TEST(Advantage, GoldensByHand) {
  for (const Golden& golden : kGoldens) {
    Rollout rollout(static_cast<int>(golden.reward.size()), 1);
    fill(rollout, 0, golden);
    const Estimate got = estimate(rollout, 0.5, 0.5);
    EXPECT_EQ(got.advantage, golden.advantage) << golden.name;
    EXPECT_EQ(got.target, golden.target) << golden.name;
  }
}

TEST(Advantage, EnvsDoNotTouchEachOther) {
  std::vector<Golden> goldens;
  for (const Golden& golden : kGoldens) {
    if (golden.reward.size() == 3) goldens.push_back(golden);
  }
  const int envs = static_cast<int>(goldens.size());
  Rollout rollout(3, envs);
  for (int i = 0; i < envs; ++i) fill(rollout, i, goldens[static_cast<size_t>(i)]);
  for (const int parts : {1, 2, 3, envs}) {
    const Estimate got = estimate(rollout, 0.5, 0.5, parts);
    for (int i = 0; i < envs; ++i) {
      const Golden& golden = goldens[static_cast<size_t>(i)];
      for (int t = 0; t < 3; ++t) {
        EXPECT_EQ(got.advantage[rollout.at(t, i)], golden.advantage[static_cast<size_t>(t)])
            << golden.name << " at " << t;
        EXPECT_EQ(got.target[rollout.at(t, i)], golden.target[static_cast<size_t>(t)])
            << golden.name << " at " << t;
      }
    }
  }
}

TEST(Advantage, LambdaZeroIsOneStepAndLambdaOneIsTheReturn) {
  Rollout rollout(3, 1);
  fill(rollout, 0, kGoldens[0]);
  EXPECT_EQ(estimate(rollout, 0.5, 0).advantage, (std::vector<float>{-5, -1, 5}));
  // 1 + 2/2 + 4/4 + 6/8 = 3.75, 2 + 4/2 + 6/4 = 5.5, 4 + 6/2 = 7
  EXPECT_EQ(estimate(rollout, 0.5, 1).target, (std::vector<float>{3.75f, 5.5f, 7}));
}

Rollout random_rollout(uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kTest, 0));
  Rollout rollout(1 + static_cast<int>(rng.below(40)), 1 + static_cast<int>(rng.below(9)));
  for (size_t row = 0; row < rollout.reward.size(); ++row) {
    rollout.value[row] = static_cast<float>(rng.normal());
    rollout.valid[row] = rng.chance(0.1) ? 0 : 1;
    rollout.terminated[row] = rng.chance(0.1) ? 1 : 0;
    rollout.truncated[row] = rng.chance(0.1) ? 1 : 0;
    rollout.reward[row] = rollout.valid[row] != 0 ? static_cast<float>(rng.normal()) : kNan;
    if (rollout.truncated[row] != 0) rollout.final_value[row] = static_cast<float>(rng.normal());
  }
  for (float& x : rollout.last_value) x = static_cast<float>(rng.normal());
  return rollout;
}

// The definition: from each step forward, the sum of (gamma lambda)^k delta[t + k] up to the end
// of its episode, the step before a failure, or the edge of the rollout.
double slow_advantage(const Rollout& rollout, int step, int env, double gamma, double lambda) {
  double sum = 0, weight = 1;
  for (int t = step; t < rollout.steps; ++t, weight *= gamma * lambda) {
    const size_t row = rollout.at(t, env);
    if (rollout.valid[row] == 0) break;
    const bool terminated = rollout.terminated[row] != 0, truncated = rollout.truncated[row] != 0;
    double next_value = 0;
    if (!terminated && truncated) {
      next_value = static_cast<double>(rollout.final_value[row]);
    } else if (!terminated) {
      next_value =
          static_cast<double>(t + 1 < rollout.steps ? rollout.value[rollout.at(t + 1, env)]
                                                    : rollout.last_value[static_cast<size_t>(env)]);
    }
    sum += weight * (static_cast<double>(rollout.reward[row]) + gamma * next_value -
                     static_cast<double>(rollout.value[row]));
    if (terminated || truncated) break;
  }
  return sum;
}

TEST(Advantage, EqualsTheDefinition) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Rollout rollout = random_rollout(seed);
    const Estimate got = estimate(rollout, 0.99, 0.95, 2);
    for (int t = 0; t < rollout.steps; ++t) {
      for (int i = 0; i < rollout.envs; ++i) {
        const size_t row = rollout.at(t, i);
        const double expected = slow_advantage(rollout, t, i, 0.99, 0.95);
        // Floats of a few units, added up over at most 40 steps.
        ASSERT_NEAR(got.advantage[row], expected, 2e-5) << "seed " << seed << " row " << row;
        ASSERT_EQ(got.target[row], got.advantage[row] + rollout.value[row]);
      }
    }
  }
}

std::vector<float> returns_of(const Rollout& rollout, double gamma, int parts = 1) {
  std::vector<float> returns(rollout.reward.size(), kNan);
  for (int part = 0; part < parts; ++part) {
    monte_carlo_returns(rollout.view(), part_of({0, rollout.envs}, part, parts), gamma,
                        returns.data());
  }
  return returns;
}

TEST(MonteCarloReturns, GoldensByHand) {
  // Rewards 1, 2, 4 and gamma 1/2; values play no part.
  Rollout rollout(3, 5);
  for (int i = 0; i < 5; ++i) {
    for (int t = 0; t < 3; ++t) {
      rollout.reward[rollout.at(t, i)] = static_cast<float>(1 << t);
      rollout.value[rollout.at(t, i)] = kNan;
    }
    rollout.last_value[static_cast<size_t>(i)] = kNan;
  }
  rollout.terminated[rollout.at(1, 1)] = 1;
  rollout.truncated[rollout.at(1, 2)] = 1;
  rollout.valid[rollout.at(1, 3)] = 0;
  rollout.reward[rollout.at(1, 3)] = kNan;
  rollout.valid[rollout.at(2, 4)] = 0;
  const std::vector<float> expected = {
      // running: 1 + 2/2 + 4/4; ended at row 1, twice; failed at row 1; failed at row 2
      3, 2, 2, 1, 2,  //
      4, 2, 2, 0, 2,  //
      4, 4, 4, 4, 0};
  EXPECT_EQ(returns_of(rollout, 0.5), expected);
  EXPECT_EQ(returns_of(rollout, 0.5, 2), expected);
}

TEST(MonteCarloReturns, EqualTheDefinition) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Rollout rollout = random_rollout(seed);
    const std::vector<float> got = returns_of(rollout, 0.99, 2);
    for (int i = 0; i < rollout.envs; ++i) {
      for (int t = 0; t < rollout.steps; ++t) {
        double expected = 0, weight = 1;
        for (int k = t; k < rollout.steps; ++k, weight *= 0.99) {
          const size_t row = rollout.at(k, i);
          if (rollout.valid[row] == 0) break;
          expected += weight * static_cast<double>(rollout.reward[row]);
          if (rollout.terminated[row] != 0 || rollout.truncated[row] != 0) break;
        }
        ASSERT_NEAR(got[rollout.at(t, i)], expected, 2e-5) << "seed " << seed;
      }
    }
  }
}

std::vector<float> normalised(std::vector<float> x, const std::vector<uint8_t>& valid,
                              double epsilon) {
  normalise(x.data(), valid.data(), x.size(), epsilon);
  return x;
}

TEST(Normalise, ByHand) {
  // Mean 2, sample variance (4 + 0 + 4) / 2 = 4.
  EXPECT_EQ(normalised({0, 2, 4}, {1, 1, 1}, 0), (std::vector<float>{-1, 0, 1}));
  EXPECT_EQ(normalised({0, 2, 4}, {1, 1, 1}, 2), (std::vector<float>{-0.5f, 0, 0.5f}));
  EXPECT_EQ(normalised({100, 0, kNan, 2, 4}, {0, 1, 0, 1, 1}, 0),
            (std::vector<float>{0, -1, 0, 0, 1}));
}

TEST(Normalise, WithoutADeviation) {
  EXPECT_EQ(normalised({3, 3, 3}, {1, 1, 1}, 1e-8), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(normalised({7, 5}, {0, 1}, 1e-8), (std::vector<float>{0, 0}));
  EXPECT_EQ(normalised({7, 5}, {0, 0}, 1e-8), (std::vector<float>{0, 0}));
  EXPECT_EQ(normalised({}, {}, 1e-8), std::vector<float>{});
}

TEST(Normalise, MeanZeroDeviationOne) {
  Rng rng(1, stream_of(Purpose::kTest, 0));
  std::vector<float> x(1000);
  for (float& value : x) value = static_cast<float>(500 + 3 * rng.normal());
  x = normalised(x, std::vector<uint8_t>(x.size(), 1), 1e-8);
  double sum = 0, squares = 0;
  for (const float value : x) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 1000, 0, 1e-6);
  EXPECT_NEAR(squares / 999, 1, 1e-6);
}

}  // namespace
}  // namespace flotilla
