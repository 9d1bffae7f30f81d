// The negotiation against its slow twin in every mode, its statistics over many episodes, and what
// its config refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "flotilla/domains/dvrp/negotiation/negotiation.h"
#include "flotilla/env/conformance.h"
#include "flotilla/env/random_run.h"
#include "support/build.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/made_up_city.h"
#include "unit/domains/dvrp/negotiation_twin.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::error_text;

const EnvType& dvrp_type() { return flotilla::test::shipped().find("dvrp"); }

std::vector<float> row_of(const std::byte* rows, const EnvSpec& spec, int env) {
  const auto* from =
      reinterpret_cast<const float*>(rows) + static_cast<size_t>(env) * spec.obs.elements();
  return {from, from + spec.obs.elements()};
}

void expect_near(const std::vector<float>& found, const std::vector<float>& expected,
                 float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], tolerance) << "element " << i;
  }
}

// One step of one env against the twin. Scaled numbers may differ by a rounding.
void expect_same(RandomRun& run, int env, const Twin::Row& expected) {
  const EnvSpec& spec = run.vec().spec();
  const StepView& v = run.view();
  expect_near(row_of(v.obs, spec, env), expected.obs, 2e-7F);
  EXPECT_NEAR(v.reward[env], expected.reward, 1e-4);
  EXPECT_EQ(v.terminated[env], expected.terminated);
  EXPECT_EQ(v.truncated[env], 0);
  EXPECT_EQ(v.valid[env], 1);
  if (!expected.terminated) return;
  expect_near(row_of(v.final_obs, spec, env), expected.final_obs, 2e-7F);
  EXPECT_NEAR(v.episode_return[env], expected.episode_return, 1e-3);
  const float* metrics = v.metrics + static_cast<size_t>(env) * spec.metrics.size();
  const double saving = 100 * (expected.baseline - expected.cost) / expected.baseline;
  const std::vector<double> numbers = {expected.cost,
                                       expected.baseline,
                                       saving,
                                       expected.accepted,
                                       expected.accepted_nonzero,
                                       expected.offered_nonzero,
                                       0};
  for (size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_NEAR(metrics[i], numbers[i], 1e-4 * std::max(1.0, std::fabs(numbers[i])))
        << spec.metrics[i];
  }
}

void expect_twin(const TwinSettings& settings, int episodes, int replicas = 1) {
  constexpr uint64_t kSeed = 3;
  constexpr int kEnvs = 3;
  const Config config = flotilla::test::config_of(dvrp_type(), settings.overrides());
  VecOptions options = flotilla::test::serial(kEnvs);
  options.replicas = replicas;
  RandomRun run(dvrp_type(), config, options, kSeed);
  std::vector<Twin> twins;
  for (int i = 0; i < kEnvs; ++i) {
    twins.emplace_back(data(), settings, kSeed, i / replicas);
    expect_near(row_of(run.view().obs, run.vec().spec(), i), twins.back().observation(), 2e-7F);
  }
  for (int t = 0; t < episodes * settings.customers; ++t) {
    run.step();
    for (int i = 0; i < kEnvs; ++i) {
      SCOPED_TRACE("env " + std::to_string(i) + ", step " + std::to_string(t));
      const int action = run.actions().ints()[i];
      expect_same(run, i, twins[static_cast<size_t>(i)].step(action));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(Negotiation, DoesWhatItsTwinDoesInEveryMode) {
  for (const char* acceptance : {"table", "threshold", "hard"}) {
    for (const char* observation : {"list", "dense", "onehot"}) {
      for (const char* reward : {"marginal", "temporal", "counterfactual"}) {
        for (const bool scale : {true, false}) {
          SCOPED_TRACE(std::string(acceptance) + ", " + observation + ", " + reward);
          expect_twin({.acceptance = acceptance,
                       .observation = observation,
                       .reward = reward,
                       .customers = 9,
                       .scale = scale,
                       .kappa = 0.5},
                      2);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(Negotiation, DoesWhatItsTwinDoesByDefault) {
  expect_twin({.oracle = "network"}, flotilla::test::kSanitized ? 1 : 2);
}

TEST(Negotiation, DoesWhatItsTwinDoesWhereWindowsWiden) {
  for (const char* observation : {"list", "onehot"}) {
    expect_twin({.observation = observation, .shift = "widen", .customers = 9, .kappa = 0.5}, 2);
  }
}

TEST(Negotiation, DoesWhatItsTwinDoesWhereEnvsShareADay) { expect_twin({}, 3, 2); }

// Offers are drawn among the legal ones.
void expect_twin_mask(const RandomRun& run, int env, const Twin& twin, int& illegal) {
  for (int action = 0; action < kActions; ++action) {
    const bool legal = run.view().mask[static_cast<size_t>(env * kActions + action)] != 0;
    ASSERT_EQ(legal, twin.is_legal(action)) << "offer " << action;
    illegal += legal ? 0 : 1;
  }
}

TEST(Negotiation, DoesWhatItsTwinDoesUnderLimits) {
  const std::vector<TwinSettings> cases = {
      {.observation = "list", .customers = 14, .max_excess = 15},
      {.observation = "onehot", .reward = "counterfactual", .customers = 9, .max_ride = 45},
      {.shift = "widen", .customers = 9, .max_ride = 50, .max_excess = 10}};
  for (const TwinSettings& settings : cases) {
    SCOPED_TRACE(testing::PrintToString(settings.overrides()));
    expect_twin(settings, 2);
    const Config config = flotilla::test::config_of(dvrp_type(), settings.overrides());
    RandomRun run(dvrp_type(), config, flotilla::test::serial(2), 3);
    std::vector<Twin> twins = {{data(), settings, 3, 0}, {data(), settings, 3, 1}};
    int illegal = 0;
    for (int t = 0; t < 2 * settings.customers; ++t) {
      for (int i = 0; i < 2; ++i) {
        expect_twin_mask(run, i, twins[static_cast<size_t>(i)], illegal);
        if (HasFailure()) return;
      }
      run.step();
      for (int i = 0; i < 2; ++i) twins[static_cast<size_t>(i)].step(run.actions().ints()[i]);
    }
    EXPECT_EQ(illegal > 0, settings.shift == "move") << "what widens forces nothing";
  }
}

TEST(Negotiation, AnIllegalOfferIsAnErrorOfWhoMakesIt) {
  const Config config = flotilla::test::config_of(dvrp_type(), {"customers=30", "max_excess=15"});
  const LimitedNegotiation env(config);
  Negotiation::State s{};
  Rng rng(1, 0);
  env.reset(s, rng);
  std::array<uint8_t, kActions> mask;
  int32_t illegal = -1;
  for (; illegal < 0 && s.fixed < 30; ++s.fixed) {
    env.mask(s, mask);
    const auto found = std::ranges::find(mask, 0);
    if (found == mask.end()) continue;
    illegal = static_cast<int32_t>(found - mask.begin());
    const auto text =
        error_text(ErrorCode::kEnvironment, [&] { env.prepare(s, ActionRow(&illegal), rng); });
    EXPECT_EQ(text,
              "offer " + std::to_string(illegal) + " is illegal: the ride would break its limit");
  }
  EXPECT_GE(illegal, 0);
}

TEST(Negotiation, ObservationsHaveTheirShapes) {
  const auto shape = [](const std::string& observation, const std::string& customers) {
    const Config config = flotilla::test::config_of(
        dvrp_type(), {"observation=" + observation, "customers=" + customers});
    return dvrp_type().spec(config).obs.shape;
  };
  EXPECT_EQ(shape("list", "30"), (std::vector<int>{31, 6}));
  EXPECT_EQ(shape("dense", "30"), (std::vector<int>{30, 6}));
  EXPECT_EQ(shape("onehot", "30"), (std::vector<int>{2 * 31 + 192, 2}));
  EXPECT_EQ(shape("detours", "30"), (std::vector<int>{2 * (2 * 31 + 192) + 16}));
  EXPECT_EQ(shape("list", "4"), (std::vector<int>{5, 6}));
}

// Sums of rewards and penalties over whole episodes, with the trips drawn again beside the run.
TEST(Negotiation, MarginalRewardsTelescope) {
  constexpr uint64_t kSeed = 8;
  constexpr int kEnvs = 64, kCustomers = 10, kEpisodes = 40;
  const double kappa = 0.5, ask_price = 0.25;
  const Config config = flotilla::test::config_of(
      dvrp_type(), {"customers=" + std::to_string(kCustomers), "shift_price=0.5", "ask_price=0.25",
                    "oracle.kind=insertion", "oracle.refine=0"});
  RandomRun run(dvrp_type(), config, flotilla::test::serial(kEnvs), kSeed);
  std::vector<Rng> rngs;
  for (int i = 0; i < kEnvs; ++i) rngs.push_back(flotilla::test::env_rng(kSeed, i));
  int checked = 0, accepted = 0;
  for (int episode = 0; episode < kEpisodes; ++episode) {
    std::vector<Instance> drawn;
    for (Rng& rng : rngs) {
      drawn.push_back(draw_instance(data(), kCustomers, rng));
      for (int t = 0; t <= kCustomers; ++t) rng.uniform();  // what travellers are taken for
    }
    std::vector<double> sum(kEnvs, 0);
    for (size_t t = 0; t < kCustomers; ++t) {
      run.step();
      for (size_t i = 0; i < kEnvs; ++i) {
        const int action = run.actions().ints()[i];
        const auto trip = static_cast<size_t>(drawn[i].requests[t].trip);
        sum[i] += static_cast<double>(run.view().reward[i]);
        sum[i] += action != kNoShift ? ask_price : 0;
        if (!data().travellers.trips[trip].accepted(action)) continue;
        ++accepted;
        sum[i] += kappa * minutes_of(action);
      }
    }
    for (size_t i = 0; i < kEnvs; ++i) {
      ASSERT_EQ(run.view().terminated[i], 1);
      const float* metrics = run.view().metrics + i * run.vec().spec().metrics.size();
      const double saved = static_cast<double>(metrics[1]) - static_cast<double>(metrics[0]);
      ASSERT_NEAR(sum[i], saved, 1e-3) << "episode " << episode << ", env " << i;
      ++checked;
    }
  }
  EXPECT_EQ(checked, kEnvs * kEpisodes);
  const double rate = accepted / static_cast<double>(checked * kCustomers);
  EXPECT_GE(rate, 0.26) << "of uniformly random offers";
  EXPECT_LE(rate, 0.31);
}

TEST(Negotiation, WholeEpisodesTelescopeToo) {
  const Config config = flotilla::test::config_of(dvrp_type(), {"kappa=0"});
  const size_t envs = flotilla::test::kSanitized ? 2 : 16;
  RandomRun run(dvrp_type(), config, flotilla::test::serial(static_cast<int>(envs)), 4);
  double saving = 0;
  for (int t = 0; t < 60; ++t) {
    run.step();
    for (size_t i = 0; i < envs && run.view().terminated[0] != 0; ++i) {
      const float* metrics = run.view().metrics + i * run.vec().spec().metrics.size();
      ASSERT_NEAR(run.view().episode_return[i], metrics[1] - metrics[0], 1e-3);
      saving += static_cast<double>(metrics[2]) / static_cast<double>(2 * envs);
    }
  }
  // Random offers widen nothing: they move windows, a few per cent either way.
  EXPECT_GT(saving, -5);
  EXPECT_LT(saving, 10);
}

TEST(Negotiation, KeepsTheContract) {
  constexpr int kSteps = flotilla::test::kSanitized ? 10 : 60;
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"customers=7"},
           {"customers=5", "observation=dense", "reward=counterfactual", "oracle.kind=insertion",
            "oracle.refine=0"},
           {"customers=6", "observation=detours", "max_excess=15"},
           {"customers=1", "observation=onehot", "reward=temporal", "acceptance=hard"}}) {
    const Config config = flotilla::test::config_of(dvrp_type(), overrides);
    for (const CheckResult& result :
         check_env(dvrp_type(), config, {.seed = 2, .steps = kSteps, .num_envs = 5})) {
      EXPECT_TRUE(result.passed) << overrides[0] << ", " << result.name << ": " << result.detail;
    }
  }
}

// A state of the time when a day had at most 128 requests.
TEST(Negotiation, OldStatesAreRead) {
  static_assert(sizeof(Negotiation::OldState) == 1488, "as it was saved");
  Negotiation::OldState old = {};
  old.cost = 12.5;
  old.fixed = 2;
  old.trips[1] = 77;
  old.trips[127] = 5;
  old.granted[127] = 3;
  old.routes.stops = 384;
  old.routes.stop[383] = 9;
  const Negotiation::State s = Negotiation::upgraded(old);
  EXPECT_EQ(s.cost, 12.5);
  EXPECT_EQ(s.fixed, 2);
  EXPECT_EQ(s.trips[1], 77);
  EXPECT_EQ(s.trips[127], 5);
  EXPECT_EQ(s.granted[127], 3);
  EXPECT_EQ(s.routes.nodes().size(), 384u);
  EXPECT_EQ(s.routes.nodes().back(), 9);
  EXPECT_EQ(s.baseline_routes.stops, 0);
}

TEST(Negotiation, RefusesWhatCannotBe) {
  const auto refusal = [](const std::string& setting) {
    return error_text(ErrorCode::kUsage, [&] {
      dvrp_type().make_loop(flotilla::test::config_of(dvrp_type(), {setting}), 0);
    });
  };
  EXPECT_EQ(refusal("customers=0"), "customers: expected an integer from 1 to 200, got '0'");
  EXPECT_EQ(refusal("customers=31"),
            "customers: expected at most 30, the travellers of the data, got 31");
  EXPECT_EQ(refusal("customers=201"), "customers: expected an integer from 1 to 200, got '201'");
  dvrp_type().make_loop(flotilla::test::config_of(dvrp_type(), {"customers=200", "travellers=200"}),
                        0);
  EXPECT_EQ(refusal("max_excess=-1"), "max_excess: expected a number from 0 to 1440, got '-1'");
  const std::string short_ride = refusal("max_ride=5");
  EXPECT_TRUE(short_ride.starts_with(
      "max_ride, max_excess: expected limits that every trip can keep alone; "))
      << short_ride;
  const auto missing = error_text(ErrorCode::kData, [] {
    dvrp_type().make_loop(flotilla::test::config_of(dvrp_type(), {"data=/nowhere"}), 0);
  });
  EXPECT_NE(missing.find("/nowhere/travel_time_matrix.csv"), std::string::npos) << missing;
}

}  // namespace
}  // namespace flotilla::dvrp::test
