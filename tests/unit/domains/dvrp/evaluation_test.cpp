// Grades of routers: known ones come out as they must.
#include "flotilla/domains/dvrp/oracle/evaluation.h"

#include <gtest/gtest.h>

#include <numeric>

#include "flotilla/core/system.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/oracle_support.h"

namespace flotilla::dvrp {
namespace {

TEST(Correlation, OfKnownNumbers) {
  const std::vector<double> x = {1, 2, 3, 4}, twice = {2, 4, 6, 8}, down = {4, 3, 2, 1};
  EXPECT_DOUBLE_EQ(correlation(x, twice), 1);
  EXPECT_DOUBLE_EQ(correlation(x, down), -1);
  EXPECT_NEAR(correlation(x, std::vector<double>{1, 3, 2, 4}), 0.8, 1e-12);
}

// Each request in a vehicle of its own.
class OneByOne final : public Router {
 public:
  std::string name() const override { return "one by one"; }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    for (size_t i = 0; i < instances.size(); ++i) {
      tours[i] = {};
      const int served = static_cast<int>(instances[i]->requests.size()) - (forgets_ ? 1 : 0);
      for (int k = 0; k < served; ++k) {
        tours[i].routes.add(Route{Instance::pickup_of(k), Instance::pickup_of(k) + 1});
      }
      tours[i].cost = cost_of(*instances[i], tours[i].routes);
    }
  }
  bool forgets_ = false;
};

std::vector<double> one_by_one_costs(std::span<const Instance> instances, double factor) {
  std::vector<double> costs;
  for (const Instance& instance : instances) {
    const Instance* const one = &instance;
    Tour tour;
    OneByOne().route({&one, 1}, {&tour, 1});
    costs.push_back(tour.cost * factor);
  }
  return costs;
}

// What a referee gives; only the costs matter here.
std::vector<Tour> tours_of(const std::vector<double>& costs) {
  std::vector<Tour> tours;
  for (const double cost : costs) tours.push_back({.routes = {}, .cost = cost});
  return tours;
}

Exam small_exam(const Referee& referee) {
  return make_exam(data(), {.instances = 6, .shifted = 1, .shifts = 5}, referee,
                   [](const auto&) {});
}

TEST(Grades, MeasureAgainstTheReferee) {
  const Exam exam = small_exam([](std::span<const Instance> instances, uint64_t seed) {
    // Windows do not matter to it: under shifts its costs would be all the same.
    std::vector<double> costs = one_by_one_costs(instances, 0.8);
    for (size_t i = 0; i < costs.size(); ++i) costs[i] += static_cast<double>(i * (seed + 1) % 5);
    return tours_of(costs);
  });
  ASSERT_EQ(exam.groups.size(), 3u);
  EXPECT_EQ(exam.groups[1].instances[0].requests.size(), 20u);
  ASSERT_EQ(exam.shifts.size(), 1u);
  EXPECT_EQ(exam.shifts[0].instances.size(), 5u);
  OneByOne router;
  const Grade result = grade(router, exam);
  for (size_t i = 0; i < 3; ++i) {
    const Exam::Group& group = exam.groups[i];
    const std::vector<double> own = one_by_one_costs(group.instances, 1);
    const double sum = std::accumulate(own.begin(), own.end(), 0.0);
    const double best = std::accumulate(group.referee.begin(), group.referee.end(), 0.0);
    EXPECT_NEAR(result.gaps[i], 100 * (sum / best - 1), 1e-9);
    EXPECT_GT(result.gaps[i], 20);
  }
  EXPECT_GT(result.corr_across, 0.9);
  EXPECT_NEAR(result.r0, correlation(exam.shifts[0].referee, exam.shifts[0].again), 1e-12);
  EXPECT_GT(result.samples_per_s, 0);
}

TEST(Grades, AreNotGivenToToursThatBreakARule) {
  const Exam exam = small_exam([](std::span<const Instance> instances, uint64_t) {
    return tours_of(one_by_one_costs(instances, 1));
  });
  OneByOne router;
  router.forgets_ = true;
  EXPECT_EQ(flotilla::test::error_text(ErrorCode::kCheckFailed, [&] { grade(router, exam); }),
            "a tour breaks a rule: request 10 is not served");
}

TEST(Assets, TheOracleComesWithTheProgram) {
  const std::string path = find_asset("dvrp/oracle/oracle.safetensors");
  ASSERT_NE(path, "");
  EXPECT_EQ(read_oracle(path, data().city).city, city_hash(data().city));
  EXPECT_EQ(find_asset("dvrp/oracle/none"), "");
}

}  // namespace
}  // namespace flotilla::dvrp
