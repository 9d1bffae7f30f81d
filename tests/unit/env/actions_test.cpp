#include "flotilla/env/actions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "flotilla/core/rng.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

EnvSpec spec_of(ActionSpace action) {
  EnvSpec spec;
  spec.name = "cartpole";
  spec.obs = ObsSpace::float32({1}, -1, 1);
  spec.action = std::move(action);
  return spec;
}

template <class T>
ActionView view_of(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data())};
}

template <class T>
std::string refusal(const EnvSpec& spec, const std::vector<T>& values) {
  const auto envs = static_cast<int>(values.size() / spec.action.dims());
  return error_text(ErrorCode::kUsage, [&] { check_actions(spec, {0, envs}, view_of(values)); });
}

TEST(CheckActions, NamesEnvAndValue) {
  const EnvSpec spec = spec_of(ActionSpace::discrete(2));
  EXPECT_EQ(refusal<int32_t>(spec, {0, 1, 0, 1, 1}), "no error");
  EXPECT_EQ(refusal<int32_t>(spec, {0, 1, 0, 7, 9}),
            "env 3 of 'cartpole': action 7 is outside Discrete(2)");
  EXPECT_EQ(refusal<int32_t>(spec, {2}), "env 0 of 'cartpole': action 2 is outside Discrete(2)");
  EXPECT_EQ(refusal<int32_t>(spec, {1, -1}),
            "env 1 of 'cartpole': action -1 is outside Discrete(2)");
  EXPECT_EQ(refusal<int32_t>(spec, {std::numeric_limits<int32_t>::min()}),
            "env 0 of 'cartpole': action -2147483648 is outside Discrete(2)");
  std::vector<int32_t> many(1000, 1);
  many[999] = 2;
  EXPECT_EQ(refusal(spec, many), "env 999 of 'cartpole': action 2 is outside Discrete(2)");
}

TEST(CheckActions, NamesTheDimension) {
  const EnvSpec spec = spec_of(ActionSpace::multi_discrete({3, 4}));
  EXPECT_EQ(refusal<int32_t>(spec, {0, 0, 2, 3}), "no error");
  EXPECT_EQ(refusal<int32_t>(spec, {2, 3, 1, 4}),
            "env 1 of 'cartpole': action 4 (dimension 1) is outside MultiDiscrete(3, 4)");
  EXPECT_EQ(refusal<int32_t>(spec, {3, 0}),
            "env 0 of 'cartpole': action 3 (dimension 0) is outside MultiDiscrete(3, 4)");
}

TEST(CheckActions, BoxesMustBeFiniteAndInside) {
  const EnvSpec one = spec_of(ActionSpace::box({-2}, {2}));
  EXPECT_EQ(refusal<float>(one, {-2, 2, 0}), "no error");
  EXPECT_EQ(refusal<float>(one, {0, 2.5F}),
            "env 1 of 'cartpole': action 2.5 is outside Box([-2], [2])");
  EXPECT_EQ(refusal<float>(one, {-2.0000002F}),
            "env 0 of 'cartpole': action -2.0000002 is outside Box([-2], [2])");
  EXPECT_EQ(refusal<float>(one, {0, std::nanf("")}),
            "env 1 of 'cartpole': action nan is not a number");
  EXPECT_EQ(refusal<float>(one, {std::numeric_limits<float>::infinity()}),
            "env 0 of 'cartpole': action inf is not a number");
  const EnvSpec two = spec_of(ActionSpace::box({0, 10}, {1, 20}));
  EXPECT_EQ(refusal<float>(two, {0, 10, 1, 9}),
            "env 1 of 'cartpole': action 9 (dimension 1) is outside Box([0, 10], [1, 20])");
  EXPECT_EQ(refusal<float>(two, {0, std::nanf("")}),
            "env 0 of 'cartpole': action nan (dimension 1) is not a number");
}

TEST(CheckActions, LooksOnlyAtItsEnvs) {
  const EnvSpec spec = spec_of(ActionSpace::discrete(2));
  const std::vector<int32_t> actions = {9, 1, 0, 9};
  EXPECT_NO_THROW(check_actions(spec, {1, 3}, view_of(actions)));
  EXPECT_THROW(check_actions(spec, {0, 3}, view_of(actions)), Error);
  EXPECT_THROW(check_actions(spec, {1, 4}, view_of(actions)), Error);
  EXPECT_NO_THROW(check_actions(spec, {0, 0}, view_of(actions)));
}

TEST(DescribeAction, OneNumberOrAList) {
  EXPECT_EQ(describe_action(spec_of(ActionSpace::discrete(9)), view_of<int32_t>({3, 5}), 1), "5");
  EXPECT_EQ(describe_action(spec_of(ActionSpace::multi_discrete({9, 9})),
                            view_of<int32_t>({1, 2, 3, 4}), 1),
            "[3, 4]");
  EXPECT_EQ(describe_action(spec_of(ActionSpace::box({-1}, {1})), view_of<float>({0.25F}), 0),
            "0.25");
}

template <class T>
std::vector<T> drawn(const EnvSpec& spec, Span envs, int total, uint64_t seed, uint64_t step,
                     const uint8_t* mask = nullptr) {
  std::vector<T> out(static_cast<size_t>(total) * spec.action.dims(), T{-77});
  random_actions(spec, envs, seed, step, mask, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// The readable twin: word k of stream (action, step) is dimension k % dims of env k / dims.
uint32_t word_of(uint64_t seed, uint64_t step, size_t k) {
  return random_block(seed, stream_of(Purpose::kAction, step), k / 4)[k % 4];
}

TEST(RandomActions, EqualTheSlowTwin) {
  for (const auto& choices : {std::vector<int>{2}, {7}, {3, 2}, {5, 1, 4}}) {
    const EnvSpec spec = spec_of(choices.size() == 1 ? ActionSpace::discrete(choices[0])
                                                     : ActionSpace::multi_discrete(choices));
    const auto actions = drawn<int32_t>(spec, {0, 150}, 150, 11, 123'456'789'012);
    for (size_t k = 0; k < actions.size(); ++k) {
      const auto n = static_cast<uint64_t>(choices[k % choices.size()]);
      ASSERT_EQ(actions[k], static_cast<int32_t>(word_of(11, 123'456'789'012, k) * n >> 32));
    }
  }
  const EnvSpec box = spec_of(ActionSpace::box({-2, 5}, {2, 6}));
  const auto points = drawn<float>(box, {0, 150}, 150, 3, 4);
  for (size_t k = 0; k < points.size(); ++k) {
    const double low = box.action.low[k % 2], high = box.action.high[k % 2];
    ASSERT_EQ(points[k], static_cast<float>(low + (high - low) * (word_of(3, 4, k) * 0x1.0p-32)));
  }
}

TEST(RandomActions, DoNotDependOnTheSpanAskedFor) {
  const EnvSpec specs[] = {spec_of(ActionSpace::discrete(5)),
                           spec_of(ActionSpace::multi_discrete({3, 2, 9}))};
  for (const EnvSpec& spec : specs) {
    const size_t dims = spec.action.dims();
    const auto all = drawn<int32_t>(spec, {0, 100}, 100, 8, 9);
    for (int begin = 0; begin < 100; begin += 7) {
      for (int end = begin; end <= 100; end += 11) {
        const auto some = drawn<int32_t>(spec, {begin, end}, 100, 8, 9);
        for (size_t k = 0; k < some.size(); ++k) {
          const bool inside =
              k >= static_cast<size_t>(begin) * dims && k < static_cast<size_t>(end) * dims;
          ASSERT_EQ(some[k], inside ? all[k] : -77) << "span " << begin << " to " << end;
        }
      }
    }
  }
}

TEST(RandomActions, DependOnSeedStepAndEnv) {
  const EnvSpec spec = spec_of(ActionSpace::discrete(1'000'000));
  const auto base = drawn<int32_t>(spec, {0, 64}, 64, 1, 1);
  EXPECT_EQ(drawn<int32_t>(spec, {0, 64}, 64, 1, 1), base);
  const auto equal = [&](const std::vector<int32_t>& other, size_t shift = 0) {
    int count = 0;
    for (size_t i = shift; i < base.size(); ++i) count += base[i] == other[i - shift];
    return count;
  };
  EXPECT_LE(equal(drawn<int32_t>(spec, {0, 64}, 64, 2, 1)), 1);
  EXPECT_LE(equal(drawn<int32_t>(spec, {0, 64}, 64, 1, 2)), 1);
  EXPECT_LE(equal(base, 1), 1) << "neighbouring envs draw alike";
}

// Pearson's statistic for equally likely cells; the bound is mean + 6 standard deviations.
void expect_uniform(const std::vector<int>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0);
  const double expected = total / static_cast<double>(counts.size());
  double chi2 = 0;
  for (const int count : counts) chi2 += (count - expected) * (count - expected) / expected;
  const double freedom = static_cast<double>(counts.size()) - 1;
  EXPECT_LT(chi2, freedom + 6 * std::sqrt(2 * freedom) + 6);
}

TEST(RandomActions, AreUniformOverEnvsAndOverSteps) {
  for (const int choices : {2, 3, 7, 10}) {
    const EnvSpec spec = spec_of(ActionSpace::discrete(choices));
    std::vector<int> over_envs(static_cast<size_t>(choices)), over_steps = over_envs;
    for (const int32_t a : drawn<int32_t>(spec, {0, 20'000}, 20'000, 5, 3)) {
      ++over_envs[static_cast<size_t>(a)];
    }
    for (uint64_t step = 0; step < 20'000; ++step) {
      ++over_steps[static_cast<size_t>(drawn<int32_t>(spec, {0, 1}, 1, 5, step)[0])];
    }
    expect_uniform(over_envs);
    expect_uniform(over_steps);
  }
}

TEST(RandomActions, KeepTheMaskAndAreUniformWithinIt) {
  const EnvSpec spec = spec_of(ActionSpace::multi_discrete({4, 3}));
  constexpr int kEnvs = 12'000;
  std::vector<uint8_t> mask;
  for (int i = 0; i < kEnvs; ++i) {
    const std::vector<uint8_t> even = {0, 1, 1, 0, /**/ 1, 0, 1}, odd = {0, 0, 0, 1, /**/ 1, 1, 1};
    const auto& row = i % 2 == 0 ? even : odd;
    mask.insert(mask.end(), row.begin(), row.end());
  }
  const auto actions = drawn<int32_t>(spec, {0, kEnvs}, kEnvs, 2, 7, mask.data());
  std::vector<int> first(4), second(3);
  for (int i = 0; i < kEnvs; ++i) {
    const auto row = static_cast<size_t>(i) * 7;
    const auto a = static_cast<size_t>(actions[static_cast<size_t>(i) * 2]);
    const auto b = static_cast<size_t>(actions[static_cast<size_t>(i) * 2 + 1]);
    ASSERT_LT(a, 4u);
    ASSERT_LT(b, 3u);
    ASSERT_EQ(mask[row + a], 1) << "env " << i;
    ASSERT_EQ(mask[row + 4 + b], 1) << "env " << i;
    if (i % 2 == 0) ++first[a];
    if (i % 2 == 1) ++second[b];
  }
  expect_uniform({first[1], first[2]});
  expect_uniform(second);
  const auto half = drawn<int32_t>(spec, {5, 900}, kEnvs, 2, 7, mask.data());
  for (size_t k = 10; k < 1800; ++k) ASSERT_EQ(half[k], actions[k]);
}

TEST(RandomActions, StayInTheBox) {
  const float huge = std::numeric_limits<float>::max();
  const EnvSpec spec = spec_of(ActionSpace::box({-2, 0.1F, 3, -huge}, {2, 0.2F, 3, huge}));
  std::vector<int> cells(10);
  float lowest = 2, highest = -2;
  for (uint64_t step = 0; step < 20; ++step) {
    const auto points = drawn<float>(spec, {0, 1000}, 1000, 6, step);
    const auto* bytes = reinterpret_cast<const std::byte*>(points.data());
    ASSERT_NO_THROW(check_actions(spec, {0, 1000}, {bytes}));
    for (size_t k = 0; k < points.size(); k += 4) {
      ++cells[static_cast<size_t>((points[k] + 2) / 4 * 10)];
      lowest = std::min(lowest, points[k]);
      highest = std::max(highest, points[k]);
      ASSERT_EQ(points[k + 2], 3);
    }
  }
  expect_uniform(cells);
  EXPECT_LT(lowest, -1.99F);
  EXPECT_GT(highest, 1.99F);
}

TEST(ActionLog, KeepsTheLatestStepsOldestFirst) {
  EnvSpec spec = spec_of(ActionSpace::multi_discrete({100, 100}));
  spec.time_limit = 4;
  ActionLog log(spec, 2);
  for (int32_t step = 0; step < 10; ++step) {
    const std::vector<int32_t> row = {step, 50 + step, 20 + step, 70 + step};
    log.record(static_cast<uint64_t>(step), {0, 2}, view_of(row));
  }
  using Actions = std::vector<std::vector<double>>;
  EXPECT_EQ(log.last(0, 10, 2), (Actions{{8, 58}, {9, 59}}));
  EXPECT_EQ(log.last(1, 10, 3), (Actions{{27, 77}, {28, 78}, {29, 79}}));
  EXPECT_EQ(log.last(1, 10, 4).size(), 4u) << "a whole episode";
  EXPECT_EQ(log.last(0, 10, 0), Actions{});
}

TEST(ActionLog, KeepsChoicesThatFitInAByteAndOnesThatDoNot) {
  for (const int choices : {256, 257, 100'000}) {
    EnvSpec spec = spec_of(ActionSpace::multi_discrete({2, choices}));
    spec.time_limit = 3;
    ActionLog log(spec, 2);
    const std::vector<int32_t> row = {1, 0, 0, choices - 1};
    log.record(5, {0, 2}, view_of(row));
    EXPECT_EQ(log.last(0, 6, 1), (std::vector<std::vector<double>>{{1, 0}}));
    EXPECT_EQ(log.last(1, 6, 1), (std::vector<std::vector<double>>{{0, choices - 1.0}}));
  }
}

TEST(ActionLog, GivesFewerWhenThereAreFewer) {
  EnvSpec spec = spec_of(ActionSpace::box({-1}, {1}));
  spec.time_limit = 0;
  ActionLog log(spec, 3);
  const std::vector<float> row = {0.1F, -0.5F, 1};
  log.record(0, {0, 3}, view_of(row));
  const auto found = log.last(1, 1, 5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], std::vector<double>{-0.5});

  for (uint64_t step = 1; step < 10'000; ++step) log.record(step, {0, 3}, view_of(row));
  const size_t kept = log.last(1, 10'000, 10'000).size();
  EXPECT_GE(kept, 1000u);
  EXPECT_LT(kept, 10'000u);
}

TEST(ActionLog, GroupsAreRecordedApart) {
  EnvSpec spec = spec_of(ActionSpace::discrete(100));
  spec.time_limit = 8;
  ActionLog log(spec, 4);
  const std::vector<int32_t> first = {1, 2, 3, 4}, second = {5, 6, 7, 8};
  log.record(0, {0, 2}, view_of(first));
  log.record(0, {2, 4}, view_of(second));
  log.record(1, {0, 2}, view_of(second));
  EXPECT_EQ(log.last(1, 2, 2), (std::vector<std::vector<double>>{{2}, {6}}));
  EXPECT_EQ(log.last(3, 1, 1), (std::vector<std::vector<double>>{{8}}));
}

}  // namespace
}  // namespace flotilla
