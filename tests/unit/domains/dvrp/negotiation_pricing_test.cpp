// What the negotiation asks of its router, and what becomes of an env for which the router finds no
// routes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "flotilla/core/sha256.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/negotiation/pricing.h"
#include "flotilla/domains/dvrp/oracle/evaluation.h"
#include "flotilla/env/random_run.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::config_of;
using flotilla::test::serial;

// A router that keeps what it was asked for, and finds no routes where it is told not to.
struct Desk {
  std::vector<std::vector<Instance>> calls;
  std::vector<double> costs;        // of the last call
  std::vector<std::string> faults;  // of routes
  bool (*refuses)(const Instance&) = nullptr;

  static Desk& get() {
    static Desk made;
    return made;
  }
};

class WatchedRouter final : public Router {
 public:
  explicit WatchedRouter(std::unique_ptr<Router> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return "watched"; }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    inner_->route(instances, tours);
    Desk& desk = Desk::get();
    auto& call = desk.calls.emplace_back();
    desk.costs = costs_of(tours);
    for (size_t i = 0; i < instances.size(); ++i) {
      call.push_back(*instances[i]);
      const std::string fault = fault_of(*instances[i], tours[i].routes);
      if (!fault.empty()) desk.faults.push_back(fault);
      if (std::fabs(cost_of(*instances[i], tours[i].routes) - tours[i].cost) > 1e-6) {
        desk.faults.emplace_back("another cost than its routes have");
      }
      if (desk.refuses != nullptr && desk.refuses(*instances[i])) {
        tours[i] = {.routes = {}, .cost = std::numeric_limits<double>::infinity()};
      }
    }
  }

 private:
  std::unique_ptr<Router> inner_;
};

template <class Env>
class Watched : public Env {
 public:
  using Env::Env;
  std::unique_ptr<Stage<typename Env::State>> make_stage(ThreadPool& pool) const {
    return make_pricing(*this, std::make_unique<WatchedRouter>(this->make_router(pool)), pool);
  }
};

const EnvType& watched() {
  static const EnvType type = env_type<Watched<Negotiation>>("watched", "");
  return type;
}
const EnvType& watched_with_limits() {
  static const EnvType type = env_type<Watched<LimitedNegotiation>>("watched", "");
  return type;
}

class Pricing : public testing::Test {
 protected:
  Pricing() { Desk::get() = {}; }

  const Trip& trip_of(const Request& request) const {
    return data_.travellers.trips[static_cast<size_t>(request.trip)];
  }
  static std::string trips_hash(const Instance& instance) {
    Sha256 hash;
    for (const Request& request : instance.requests) hash.update(&request.trip, sizeof(int));
    return hash.hex();
  }
  bool is_plain(const Request& request) const {
    return request.pickup == trip_of(request).pickup && request.dropoff == trip_of(request).dropoff;
  }
  // Moved as far as an accepted action says.
  bool is_accepted(const Request& request) const {
    const Request plain = request_for(data_.travellers, request.trip);
    for (int action = 0; action < kActions; ++action) {
      const bool same = shifted(plain, shift_of(action)) == request;
      if (same && (action == kNoShift || trip_of(request).accepted(action))) return true;
    }
    return false;
  }

  const Data data_ = generate_data({});
};

// Of agents, baselines and what the last shift is compared with: each begins with the routes of its
// own day so far, so that its cost is that of the day routed request by request.
class ContinuedPricing : public Pricing, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Limits, ContinuedPricing, testing::Bool());

TEST_P(ContinuedPricing, RoutesAreThoseOfTheDayRequestByRequest) {
  constexpr size_t kCustomers = 9;
  const EnvType& type = GetParam() ? watched_with_limits() : watched();
  const Config config =
      config_of(type, {"customers=9", "oracle.kind=continued", "oracle.refine=5",
                       "reward=counterfactual", GetParam() ? "max_excess=15" : "max_excess=0"});
  RandomRun run(type, config, serial(4), 3);
  for (size_t t = 0; t < kCustomers; ++t) run.step();
  ThreadPool pool(1);
  const auto router = make_continuing_router({.improve = 20, .refine = 5}, pool);
  const std::vector<Instance>& last = Desk::get().calls.back();
  ASSERT_GT(last.size(), 8u) << "agents, their baselines, and more";
  for (size_t i = 0; i < last.size(); ++i) {
    Tour tour;
    for (size_t n = 1; n <= kCustomers; ++n) {
      Instance part = last[i];
      part.requests.resize(n);
      const Instance* pointer = &part;
      router->route({&pointer, 1}, {&tour, 1});
    }
    EXPECT_EQ(tour.cost, Desk::get().costs[i]) << i;
  }
  EXPECT_EQ(Desk::get().faults, std::vector<std::string>());
}

TEST_F(Pricing, OneCallForAgentsAndBaselines) {
  constexpr int kEnvs = 6, kCustomers = 12;
  const Config config = config_of(watched(), {"customers=12"});
  RandomRun run(watched(), config, serial(kEnvs), 3);
  size_t pairs = 0, shifts = 0;
  for (size_t t = 0; t < 2 * kCustomers; ++t) {
    run.step();
    const auto& calls = Desk::get().calls;
    ASSERT_EQ(calls.size(), t + 1) << "one call a step";
    const std::vector<Instance>& call = calls.back();
    size_t at = 0;
    for (int env = 0; env < kEnvs; ++env) {
      const Instance& agent = call[at++];
      ASSERT_EQ(agent.requests.size(), t % kCustomers + 1);
      const bool any =
          !std::ranges::all_of(agent.requests, [&](const Request& r) { return is_plain(r); });
      for (const Request& request : agent.requests) EXPECT_TRUE(is_accepted(request));
      if (!any) continue;  // its own baseline
      const Instance& baseline = call[at++];
      EXPECT_EQ(trips_hash(agent), trips_hash(baseline));
      for (size_t i = 0; i < agent.requests.size(); ++i) {
        EXPECT_TRUE(is_plain(baseline.requests[i]));
        EXPECT_EQ(agent.requests[i].origin, baseline.requests[i].origin);
        EXPECT_EQ(agent.requests[i].destination, baseline.requests[i].destination);
        shifts += !is_plain(agent.requests[i]);
      }
      ++pairs;
    }
    EXPECT_EQ(at, call.size()) << "and nothing else";
  }
  EXPECT_GT(pairs, 100u);
  EXPECT_GT(shifts, 150u);
}

TEST_F(Pricing, EqualInstancesAreRoutedOnce) {
  constexpr int kEnvs = 8, kReplicas = 4, kCustomers = 12;
  VecOptions options = serial(kEnvs);
  options.replicas = kReplicas;
  RandomRun run(watched(), config_of(watched(), {"customers=12"}), options, 3);
  size_t plain = 0, routed = 0;
  for (int t = 0; t < 2 * kCustomers; ++t) {
    run.step();
    const std::vector<Instance>& call = Desk::get().calls.back();
    std::set<std::string> days;
    for (size_t i = 0; i < call.size(); ++i) {
      days.insert(trips_hash(call[i]));
      plain += std::ranges::all_of(call[i].requests, [&](const Request& r) { return is_plain(r); });
      for (size_t j = 0; j < i; ++j) EXPECT_NE(call[i].requests, call[j].requests);
    }
    EXPECT_EQ(days.size(), kEnvs / kReplicas);
    routed += call.size();
  }
  EXPECT_EQ(plain, 2 * kCustomers * kEnvs / kReplicas) << "a baseline for every day";
  EXPECT_LT(routed, 2 * kCustomers * (kEnvs + kEnvs / kReplicas));
}

TEST_F(Pricing, EveryTourIsFeasible) {
  const Config config = config_of(watched(), {"reward=counterfactual"});
  RandomRun run(watched(), config, serial(6), 5);
  const int steps = flotilla::test::kSanitized ? 30 : 60;
  for (int t = 0; t < steps; ++t) run.step();
  EXPECT_TRUE(Desk::get().faults.empty()) << Desk::get().faults.front();
}

// As the spec's counterfactual wants it: the last request unshifted, those before it as they stand.
TEST_F(Pricing, TheCounterfactualIsInTheSameCall) {
  const Config config = config_of(watched(), {"reward=counterfactual", "customers=12"});
  RandomRun run(watched(), config, serial(6), 3);
  size_t found = 0;
  for (size_t t = 0; t < 11; ++t) {  // the baseline comes with the twelfth
    run.step();
    const std::vector<Instance>& call = Desk::get().calls.back();
    for (size_t i = 0; i < call.size(); ++i) {
      if (is_plain(call[i].requests.back())) continue;
      ASSERT_LT(i + 1, call.size());
      std::vector<Request> expected = call[i].requests;
      expected.back() = request_for(data_.travellers, expected.back().trip);
      EXPECT_EQ(call[i + 1].requests, expected);
      ++found;
      ++i;
    }
  }
  EXPECT_GT(found, 10u);
}

// The fourth request of an episode has no routes when its first one has an even trip.
bool refuses_even_fours(const Instance& instance) {
  return instance.requests.size() == 4 && instance.requests[0].trip % 2 == 0;
}

// Whether each env's current episode has such a first trip, beside the run.
std::vector<bool> even_starts(const Data& data, std::vector<Rng>& rngs, int customers) {
  std::vector<bool> even;
  for (Rng& rng : rngs) {
    even.push_back(draw_instance(data, customers, rng).requests[0].trip % 2 == 0);
    for (int t = 0; t <= customers; ++t) rng.uniform();  // what travellers are taken for
  }
  return even;
}

TEST_F(Pricing, AnEnvWithoutRoutesIsFrozenUntilTheCommonEnd) {
  constexpr size_t kEnvs = 8, kCustomers = 7, kEpisodes = 3;
  const Config config = config_of(watched(), {"customers=7"});
  for (const int threads : {1, 2}) {
    VecOptions options = serial(kEnvs);
    if (threads > 1) options.backend = Backend::kThreads;
    options.threads = threads;
    Desk::get() = {};
    RandomRun free(watched(), config, options, 6);
    RandomRun run(watched(), config, options, 6);
    std::vector<Rng> rngs;
    for (int i = 0; i < static_cast<int>(kEnvs); ++i) {
      rngs.push_back(flotilla::test::env_rng(6, i));
    }
    size_t failed = 0;
    std::vector<bool> even;
    for (size_t t = 0; t < kEpisodes * kCustomers; ++t) {
      if (t % kCustomers == 0) even = even_starts(data_, rngs, kCustomers);
      Desk::get().refuses = nullptr;
      free.step();
      Desk::get().refuses = refuses_even_fours;
      run.step();
      const StepView& v = run.view();
      const bool last = t % kCustomers == kCustomers - 1;
      for (size_t i = 0; i < kEnvs; ++i) {
        SCOPED_TRACE("env " + std::to_string(i) + ", step " + std::to_string(t));
        const bool frozen = even[i] && t % kCustomers >= 3;
        EXPECT_EQ(v.valid[i], frozen ? 0 : 1);
        EXPECT_EQ(v.terminated[i], last);
        const int env = static_cast<int>(i);
        if (!frozen) {
          EXPECT_EQ(flotilla::test::row_bytes(run.vec().spec(), v, env),
                    flotilla::test::row_bytes(run.vec().spec(), free.view(), env));
          continue;
        }
        EXPECT_EQ(v.reward[i], 0);
        const float* metrics = v.metrics + i * run.vec().spec().metrics.size();
        if (!last) continue;
        ++failed;
        EXPECT_EQ(metrics[6], 1);
        for (size_t m = 0; m < 6; ++m) EXPECT_TRUE(std::isnan(metrics[m]));
      }
      // What is frozen is not routed any more.
      const auto live = static_cast<size_t>(std::ranges::count(even, false));
      const size_t asked = Desk::get().calls.back().size();
      EXPECT_LE(asked, 2 * (t % kCustomers > 3 ? live : kEnvs));
    }
    EXPECT_GT(failed, 4u);
    EXPECT_LT(failed, kEnvs * kEpisodes);
    EXPECT_TRUE(run.vec().take_failures().empty()) << "no crash";
  }
}

TEST_F(Pricing, AFrozenEnvSurvivesSaving) {
  const Config config = config_of(watched(), {"customers=7"});
  Desk::get().refuses = refuses_even_fours;
  RandomRun run(watched(), config, serial(8), 6);
  for (int t = 0; t < 5; ++t) run.step();
  ASSERT_EQ(std::ranges::count(std::span(run.view().valid, 8), 0) > 0, true);
  Writer writer;
  run.save(writer);
  RandomRun other(watched(), config, serial(8), 7);
  Reader reader(writer.buffer(), "saved");
  other.load(reader);
  for (int t = 0; t < 9; ++t) {
    run.step();
    other.step();
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(flotilla::test::row_bytes(run.vec().spec(), run.view(), i),
                flotilla::test::row_bytes(run.vec().spec(), other.view(), i));
    }
  }
}

TEST_F(Pricing, OrEndsWithAPenalty) {
  const Config config = config_of(watched(), {"customers=7", "failure=penalty"});
  Desk::get().refuses = refuses_even_fours;
  RandomRun run(watched(), config, serial(8), 6);
  int ended = 0;
  for (int t = 0; t < 4; ++t) {
    run.step();
    for (size_t i = 0; i < 8; ++i) {
      const bool failed = run.view().reward[i] == -5000;
      EXPECT_EQ(run.view().terminated[i], failed);
      EXPECT_EQ(run.view().valid[i], 1);
      ended += failed;
      if (failed) {
        EXPECT_EQ(t, 3);
        EXPECT_EQ(run.view().metrics[i * 7 + 6], 1);
      }
    }
  }
  EXPECT_GT(ended, 0);
  EXPECT_LT(ended, 8);
  run.step();  // the others at their fifth request, these at their first
  size_t shortest = 9, longest = 0;
  for (const Instance& instance : Desk::get().calls.back()) {
    shortest = std::min(shortest, instance.requests.size());
    longest = std::max(longest, instance.requests.size());
  }
  EXPECT_EQ(shortest, 1u);
  EXPECT_EQ(longest, 5u);
}

RunConfig training(const std::vector<std::string>& more) {
  Config config(RunConfig::schema(watched()));
  for (const char* each :
       {"env.customers=7", "env.kappa=0", "env.reward=temporal", "num_envs=8", "horizon=7",
        "steps=560", "net.hidden=8", "ppo.minibatches=1", "eval.episodes=6"}) {
    config.apply_override(each);
  }
  for (const std::string& each : more) config.apply_override(each);
  return RunConfig(watched(), config);
}

TEST_F(Pricing, TrainingLeavesFailedEpisodesOutAndCountsThem) {
  Desk::get().refuses = refuses_even_fours;
  Trainer trainer(training({"seed=6"}));
  double share = 0;
  for (int i = 0; i < 10; ++i) {
    trainer.iterate();
    const EndedEpisodes& ended = trainer.progress().ended;
    ASSERT_EQ(ended.count, 8);
    int failed = 0;
    double sum = 0, cost = 0;
    for (const Episode& episode : trainer.ended_episodes()) {
      failed += !episode.valid;
      if (!episode.valid) continue;
      sum += static_cast<double>(episode.episode_return);
      cost += static_cast<double>(episode.metrics[0]);
    }
    share += failed / 80.0;
    EXPECT_NEAR(ended.metrics[6], failed / 8.0, 1e-9);
    if (failed == 8) continue;
    EXPECT_NEAR(ended.return_mean, sum / (8 - failed), 1e-4);
    EXPECT_NEAR(ended.metrics[0], cost / (8 - failed), 1e-3);
  }
  EXPECT_EQ(trainer.progress().episodes, 80);
  EXPECT_GT(share, 0.3);
  EXPECT_LT(share, 0.7);
  const Evaluation eval = trainer.evaluate();
  EXPECT_EQ(eval.episodes, 6);
  EXPECT_GT(eval.metrics[6], 0);
  EXPECT_LT(eval.metrics[6], 1);
  EXPECT_NEAR(eval.mean, -eval.metrics[0], 1e-3) << "of the same episodes";
  Desk::get().refuses = [](const Instance&) { return true; };
  EXPECT_EQ(flotilla::test::error_text(ErrorCode::kEnvironment, [&] { trainer.evaluate(); }),
            "evaluation: every episode of 'watched' ended invalid");
}

}  // namespace
}  // namespace flotilla::dvrp::test
