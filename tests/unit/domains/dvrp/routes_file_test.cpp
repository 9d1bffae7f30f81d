// What goes to other solvers and comes back from them: instances with everything in them, routes,
// and a checker that is exact to the second.
#include "flotilla/domains/dvrp/routing/routes_file.h"

#include <gtest/gtest.h>

#include "flotilla/core/json.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/data/instance_file.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "support/error_text.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

Instance drawn(int customers, int which) {
  Rng rng(12, stream_of(Purpose::kTest, static_cast<uint64_t>(which)));
  return draw_instance(data(), customers, rng);
}

TEST(FullInstances, HaveAllThatAnotherSolverNeeds) {
  const Instance instance = drawn(5, 0);
  const std::string text = encode_full_instance(instance);
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line, so that many make a file";
  const Json json = Json::parse(text);
  using Minutes = std::vector<float>;
  EXPECT_EQ(json["capacity"].get<int>(), 8);
  ASSERT_EQ(json["windows"].size(), 11u);
  ASSERT_EQ(json["seconds"].size(), 11u);
  EXPECT_EQ(json["windows"][0].get<Minutes>(), (Minutes{0, 1440}));
  const Request& second = instance.requests[1];
  EXPECT_EQ(json["windows"][3].get<Minutes>(), (Minutes{second.pickup.early, second.pickup.late}));
  EXPECT_EQ(json["windows"][4].get<Minutes>(),
            (Minutes{second.dropoff.early, second.dropoff.late}));
  EXPECT_EQ(json["seconds"][0][3].get<double>(),
            data().city.seconds(data().city.depot(), second.origin));
  EXPECT_EQ(json["seconds"][4][1].get<double>(),
            data().city.seconds(second.destination, instance.requests[0].origin));
  EXPECT_EQ(decode_instance(text, "file", data()).requests, instance.requests);
}

TEST(RouteFiles, AreRoutesOfAnySolver) {
  EXPECT_EQ(decode_routes(R"({"cost": 3, "routes": [[1, 3, 2, 4], [], [5, 6]]})", "file"),
            (Routes{{1, 3, 2, 4}, {}, {5, 6}}));
  const auto refusal = [](const std::string& text) {
    return test::error_text(ErrorCode::kData, [&] { decode_routes(text, "file"); });
  };
  EXPECT_EQ(refusal("[[1, 2]]"), "file: is no object");
  EXPECT_EQ(refusal("{}"), "file: 'routes' is missing or wrong");
  EXPECT_EQ(refusal(R"({"routes": [[1, 2], 3]})"), "file: route 2: expected a list of nodes");
  EXPECT_EQ(refusal(R"({"routes": [[1, -2]]})"), "file: route 1: expected a list of nodes");
  EXPECT_EQ(refusal(R"({"routes": [[1, 2.5]]})"), "file: route 1: expected a list of nodes");
  EXPECT_EQ(refusal(R"({"routes": [[4294967297]]})"), "file: route 1: expected a list of nodes");
}

// 41 / 60 is not exact in floats, and their sums are less so: this checker must not mind.
TEST(RouteChecker, IsExactToTheSecond) {
  const City city({"depot", "a", "b"}, {0, 37, 37, 37, 0, 41, 37, 41, 0}, "test");
  ASSERT_EQ(city.depot(), 0);
  Instance instance{.city = &city, .requests = {}};
  Route route;
  for (int i = 0; i < 100; ++i) {
    instance.requests.push_back(
        {.trip = 0, .origin = 1, .destination = 2, .pickup = {0, 1400}, .dropoff = {0, 1400}});
    route.push_back(Instance::pickup_of(i));
    route.push_back(Instance::pickup_of(i) + 1);
  }
  constexpr int kArrival = 37 + 199 * 41;  // at the last node
  Window& last = instance.requests.back().dropoff;
  last.late = static_cast<float>(kArrival / 60.0);
  EXPECT_EQ(fault_of(instance, {route}), "");
  last.late = static_cast<float>((kArrival - 1) / 60.0);
  EXPECT_NE(fault_of(instance, {route}).find("node 200 is reached at 136.60"), std::string::npos)
      << fault_of(instance, {route});
  EXPECT_NEAR(cost_of(instance, {route}), (37 + 199 * 41 + 37) / 60.0, 1e-4);
}

}  // namespace
}  // namespace flotilla::dvrp
