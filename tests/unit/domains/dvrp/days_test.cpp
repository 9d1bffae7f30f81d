// Days that are played for a judgement, against days that are negotiated one by one, straight from
// the rules.
#include "flotilla/domains/dvrp/negotiation/days.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/negotiation/judgement.h"
#include "flotilla/domains/dvrp/negotiation/pricing.h"
#include "flotilla/domains/dvrp/routing/detours.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::config_of;
using flotilla::test::error_text;

constexpr uint64_t kSeed = 21;
constexpr int kCustomers = 4;
constexpr Span kNumbers = {5, 145};  // more than play at once

const EnvType& dvrp_type() { return flotilla::test::shipped().find("dvrp"); }

Config cheap(const EnvType& type, std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"customers=4", "oracle.kind=insertion", "oracle.improve=0",
                                  "oracle.refine=0"};
  all.insert(all.end(), more.begin(), more.end());
  return config_of(type, all);
}

Instance asked_on(int day) {
  Rng rng(eval_seed(kSeed), stream_of(Purpose::kEnv, static_cast<uint64_t>(day)));
  return draw_instance(data(), kCustomers, rng);
}

// With offers of any kind, all with the same probability.
Day random_day(int number, uint64_t seed) {
  Day day{.asked = asked_on(number), .granted = {.city = nullptr, .requests = {}}};
  for (const Request& request : day.asked.requests) {
    Rng rng(seed, stream_of(Purpose::kAction, static_cast<uint64_t>(number)),
            day.granted.requests.size());
    const int offer = static_cast<int>(rng.below(kActions));
    const bool accepts = data().travellers.trips[static_cast<size_t>(request.trip)].accepted(offer);
    day.granted.requests.push_back(accepts ? shifted(request, shift_of(offer)) : request);
    day.accepted += accepts;
    day.shifts += offer != kNoShift;
    day.shifted += accepts && offer != kNoShift;
  }
  return day;
}

void expect_same(const std::vector<Day>& found, const std::vector<Day>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    SCOPED_TRACE("the day at " + std::to_string(i));
    EXPECT_EQ(found[i].asked.requests, expected[i].asked.requests);
    EXPECT_EQ(found[i].granted.requests, expected[i].granted.requests);
    EXPECT_EQ(found[i].accepted, expected[i].accepted);
    EXPECT_EQ(found[i].shifts, expected[i].shifts);
    EXPECT_EQ(found[i].shifted, expected[i].shifted);
  }
}

TEST(Days, AreThoseThatAreNegotiatedOneByOne) {
  std::vector<Day> expected;
  for (int i = kNumbers.begin; i < kNumbers.end; ++i) expected.push_back(random_day(i, 7));
  for (const int threads : {1, 2}) {
    Days days(dvrp_type(), cheap(dvrp_type()), kNumbers, kSeed, threads);
    EXPECT_EQ(days.count(), kNumbers.size());
    for (int round = 0; round < 2; ++round) {
      const std::vector<Day> found = days.play(random_negotiator(7));
      expect_same(found, expected);
      EXPECT_EQ(found.back().asked.city, &days.data().city);
      EXPECT_EQ(found.back().granted.city, &days.data().city);
    }
  }
}

TEST(Days, AreTheSameForWhoeverNegotiates) {
  Days days(dvrp_type(), cheap(dvrp_type()), kNumbers, kSeed, 1);
  const std::vector<Day> found = days.play([](const ActRows& rows, uint64_t) {
    std::fill_n(reinterpret_cast<int32_t*>(rows.action), rows.count, int32_t{kNoShift});
  });
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].asked.requests, asked_on(kNumbers.begin + static_cast<int>(i)).requests);
    EXPECT_EQ(found[i].granted.requests, found[i].asked.requests);
    EXPECT_EQ(found[i].shifts, 0);
  }
}

// Of every traveller, what he is.
std::vector<std::byte> the_truth() {
  std::vector<TypeProbabilities> guesses(static_cast<size_t>(data().travellers.count));
  for (const Trip& trip : data().travellers.trips) {
    guesses[static_cast<size_t>(trip.traveller)][static_cast<size_t>(trip.flexibility)] = 1;
  }
  const auto bytes = std::as_bytes(std::span(guesses));
  return {bytes.begin(), bytes.end()};
}

TEST(Days, AreAdvisedByWhatTheEnvsKnow) {
  Days knowing(dvrp_type(), cheap(dvrp_type(), {"advice.types=learnt"}), kNumbers, kSeed, 1);
  Days told(dvrp_type(), cheap(dvrp_type(), {"advice.types=true"}), kNumbers, kSeed, 1);
  ASSERT_NE(knowing.memory(), nullptr);
  EXPECT_EQ(told.memory(), nullptr);
  knowing.memory()->set_knowledge(the_truth());
  const std::vector<Day> expected = told.play(random_negotiator(7));
  for (int round = 0; round < 2; ++round) {
    expect_same(knowing.play(random_negotiator(7)), expected);
  }
}

// The rule straight from its text: a day is negotiated request by request, with the routes of
// insertion.
Day least_detour_day(int number) {
  Day day{.asked = asked_on(number), .granted = {.city = &data().city, .requests = {}}};
  for (const Request& request : day.asked.requests) {
    const Routes routes =
        day.granted.requests.empty() ? Routes() : solve(day.granted, {.iterations = 0}).routes;
    const auto added = [&](int action) {
      Detours detours(data().city);
      for (const RouteView route : routes) {
        for (const int node : route) detours.visit(day.granted.request_at(node), node);
        detours.end_route();
      }
      return detours.least(shifted(request, shift_of(action)));
    };
    const Trip& trip = data().travellers.trips[static_cast<size_t>(request.trip)];
    int best = kNoShift;
    for (int minutes = 10; minutes <= 60; minutes += 10) {  // the smallest of equal ones
      for (int action = 0; action < kActions; ++action) {
        const Shift shift = shift_of(action);
        if (shift.pickup + shift.dropoff != minutes || !trip.accepted(action)) continue;
        if (added(action) < added(best) - 0.03F) best = action;
      }
    }
    day.granted.requests.push_back(shifted(request, shift_of(best)));
    ++day.accepted;
    day.shifts += best != kNoShift;
    day.shifted += best != kNoShift;
  }
  return day;
}

TEST(Days, TheLeastDetourAsksOnlyWhereItGains) {
  constexpr Span kSome = {5, 35};
  Days days(dvrp_type(), cheap(dvrp_type(), {"advice.types=true", "observation=list"}), kSome,
            kSeed, 1);
  const auto shown = days.with_detours();
  std::vector<Day> expected;
  for (int i = kSome.begin; i < kSome.end; ++i) expected.push_back(least_detour_day(i));
  expect_same(shown->play(least_detour_negotiator(shown->observed_numbers())), expected);
  int asked = 0;
  for (const Day& day : expected) asked += day.shifts;
  EXPECT_GT(asked, 0);
  EXPECT_LT(asked, kSome.size() * kCustomers / 2);
}

TEST(Days, WithDetoursKnowTheSame) {
  Days knowing(dvrp_type(), cheap(dvrp_type(), {"advice.types=learnt"}), kNumbers, kSeed, 1);
  knowing.memory()->set_knowledge(the_truth());
  expect_same(knowing.with_detours()->play(random_negotiator(7)),
              knowing.play(random_negotiator(7)));
}

bool is_refused(const Instance& day) { return day.requests[0].trip % 2 == 0; }

// Finds no routes for the last two requests of some days.
class RefusingRouter final : public Router {
 public:
  explicit RefusingRouter(std::unique_ptr<Router> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return "refusing"; }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    inner_->route(instances, tours);
    for (size_t i = 0; i < instances.size(); ++i) {
      if (instances[i]->requests.size() + 2 <= kCustomers || !is_refused(*instances[i])) continue;
      tours[i] = {.routes = {}, .cost = std::numeric_limits<double>::infinity()};
    }
  }

 private:
  std::unique_ptr<Router> inner_;
};

class Refusing : public Negotiation {
 public:
  using Negotiation::Negotiation;
  std::unique_ptr<Stage<State>> make_stage(ThreadPool& pool) const {
    return make_pricing(*this, std::make_unique<RefusingRouter>(make_router(pool)), pool);
  }
};

TEST(Days, OneWithoutRoutesEndsThemAll) {
  const EnvType type = env_type<Refusing>("refusing", "");
  int first = kNumbers.begin;
  while (!is_refused(asked_on(first))) ++first;
  ASSERT_LT(first, kNumbers.begin + 128);
  const std::string expected = "day " + std::to_string(first) + ": no routes were found";
  for (const char* failure : {"failure=freeze", "failure=penalty"}) {
    const Config config = cheap(type, {failure});
    for (const Span numbers : {kNumbers, Span{first, first + 1}}) {
      Days days(type, config, numbers, kSeed, 2);
      int steps = 0;
      const Player counting = [&](const ActRows& rows, uint64_t step) {
        ++steps;
        random_negotiator(7)(rows, step);
      };
      EXPECT_EQ(error_text(ErrorCode::kEnvironment, [&] { days.play(counting); }), expected);
      EXPECT_EQ(steps, kCustomers - 1) << "nobody goes on";
    }
  }
  int served = kNumbers.begin;
  while (is_refused(asked_on(served))) ++served;
  Days days(type, cheap(type), {served, served + 1}, kSeed, 1);
  expect_same(days.play(random_negotiator(7)), {random_day(served, 7)});
}

class NeverAsks final : public ActingPolicy {
 public:
  NeverAsks() : ActingPolicy(NetworkSpec{}) {}
  Implementation implementation() const override { return {.kind = "none", .name = "never asks"}; }
  void act(int, const ActRows& rows, const Draw&) const override {
    std::fill_n(reinterpret_cast<int32_t*>(rows.action), rows.count, kNoShift);
  }
  void value(int, const std::byte*, int count, float* out) const override {
    std::fill_n(out, count, 0.0F);
  }
};

TEST(Days, OfOtherRequestsAreNotJudgedTogether) {
  const NeverAsks policy;
  ThreadPool pool(1);
  const Referee referee = make_solver_referee(5, pool);
  const auto judged = [&](Days& first, Days& second) {
    const std::vector<Contender> contenders = {{&first, &policy}, {&second, &policy}};
    return judge(contenders, referee, {.ceiling = false, .search = {}}, pool,
                 [](const std::string&) {});
  };
  Days days(dvrp_type(), cheap(dvrp_type()), {0, 3}, kSeed, 1);
  Days same(dvrp_type(), cheap(dvrp_type(), {"kappa=0.5"}), {0, 3}, kSeed, 1);
  Days other(dvrp_type(), cheap(dvrp_type(), {"travellers=40"}), {0, 3}, kSeed, 1);
  EXPECT_EQ(judged(days, same).size(), 2u);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { judged(days, other); }),
            "day 0 has other requests for one policy than for another");
}

}  // namespace
}  // namespace flotilla::dvrp::test
