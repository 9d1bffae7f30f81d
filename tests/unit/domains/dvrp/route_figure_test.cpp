// Pictures of routes have everything that is in the routes, inside of the canvas; maps show cells
// where they are, or as far apart as they are.
#include "flotilla/domains/dvrp/figures/route_figure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <set>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/figures/city_map.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

Instance drawn(const Data& of, int customers) {
  Rng rng(13, stream_of(Purpose::kTest, static_cast<uint64_t>(customers)));
  return draw_instance(of, customers, rng);
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// All x and y of shapes, and the canvas.
struct Extent {
  double width = 0, height = 0, left = 1e9, right = -1e9, top = 1e9, bottom = -1e9;
};
Extent extent_of(const std::string& svg) {
  Extent extent;
  std::smatch canvas;
  EXPECT_TRUE(std::regex_search(svg, canvas, std::regex(R"re(viewBox="0 0 (\S+) (\S+)")re")));
  extent.width = std::stod(canvas[1]);
  extent.height = std::stod(canvas[2]);
  const auto x = [&extent](double at) {
    extent.left = std::min(extent.left, at);
    extent.right = std::max(extent.right, at);
  };
  const auto y = [&extent](double at) {
    extent.top = std::min(extent.top, at);
    extent.bottom = std::max(extent.bottom, at);
  };
  const std::regex one(R"re( (x|y|x1|x2|y1|y2|cx|cy)="(\S+?)")re"),
      pair(R"((-?[\d.]+),(-?[\d.]+))");
  for (std::sregex_iterator it(svg.begin(), svg.end(), one), end; it != end; ++it) {
    ((*it)[1].str().find('x') != std::string::npos ? static_cast<void>(x(std::stod((*it)[2])))
                                                   : y(std::stod((*it)[2])));
  }
  const std::regex points(R"re(points="([^"]*)")re");
  for (std::sregex_iterator it(svg.begin(), svg.end(), points), end; it != end; ++it) {
    const std::string list = (*it)[1];
    for (std::sregex_iterator at(list.begin(), list.end(), pair); at != end; ++at) {
      x(std::stod((*at)[1]));
      y(std::stod((*at)[2]));
    }
  }
  return extent;
}

void expect_inside(const std::string& svg) {
  const Extent extent = extent_of(svg);
  EXPECT_GE(extent.left, 0);
  EXPECT_GE(extent.top, 0);
  EXPECT_LE(extent.right, extent.width);
  EXPECT_LE(extent.bottom, extent.height);
}

TEST(Schedules, LeaveAsLateAsTheFirstStopAllows) {
  const City city({"depot", "a", "b"}, {0, 600, 900, 660, 0, 300, 960, 360, 0}, "test");
  ASSERT_EQ(city.depot(), 1) << "the nearest to all";
  City other = city;
  other.set_depot(0);
  const Instance instance{
      .city = &other,
      .requests = {
          {.trip = 0, .origin = 1, .destination = 2, .pickup = {100, 130}, .dropoff = {120, 150}}}};
  const std::vector<Stop> stops = schedule_of(instance, Route{1, 2});
  ASSERT_EQ(stops.size(), 4u);
  EXPECT_EQ(stops[0].service, 90);
  EXPECT_EQ(stops[1].arrival, 100);
  EXPECT_EQ(stops[2].arrival, 105);
  EXPECT_EQ(stops[2].service, 120) << "waits";
  EXPECT_EQ(stops[3].node, 0);
  EXPECT_EQ(stops[3].arrival, 136);
}

TEST(RouteFigures, HaveEveryRequestAndVehicle) {
  for (const int customers : {1, 8, 30}) {
    SCOPED_TRACE(customers);
    const Instance instance = drawn(data(), customers);
    const Solution solution = solve(instance, {.iterations = 100, .seed = 1});
    const std::string svg = routes_svg(data(), instance, solution.routes);
    const auto requests = static_cast<size_t>(customers);
    EXPECT_EQ(count(svg, "<title>request "), requests);
    EXPECT_EQ(count(svg, "<title>pickup of request "), requests);
    EXPECT_EQ(count(svg, "<title>drop-off of request "), requests);
    EXPECT_EQ(count(svg, "<title>vehicle "), solution.routes.size());
    std::set<int> visited = {data().city.depot()};
    for (int node = 1; node < instance.nodes(); ++node) visited.insert(instance.cell(node));
    EXPECT_GE(count(svg, "<title>cell0"), visited.size());
    for (const int cell : visited) EXPECT_EQ(count(svg, "<title>" + data().city.name(cell)), 1u);
    EXPECT_EQ(count(svg, ", the depot</title>"), 1u);
    EXPECT_EQ(count(svg, "km</text>"), 1u);
    expect_inside(svg);
    EXPECT_EQ(routes_svg(data(), instance, solution.routes), svg);
  }
}

TEST(RouteFigures, OfExtremes) {
  const Instance none{.city = &data().city, .requests = {}};
  expect_inside(routes_svg(data(), none, {}));
  const int depot = data().city.depot();
  Instance instance{.city = &data().city, .requests = {}};
  Routes routes;
  for (int i = 0; i < 700; ++i) {  // all in one cell, which is larger than the map
    instance.requests.push_back({.trip = i,
                                 .origin = depot,
                                 .destination = depot,
                                 .pickup = {600, 630},
                                 .dropoff = {610, 640}});
    routes.add(Route{Instance::pickup_of(i), Instance::pickup_of(i) + 1});
    if (i != 0 && i != 699) continue;
    ASSERT_EQ(fault_of(instance, routes), "");
    const std::string svg = routes_svg(data(), instance, routes);
    EXPECT_EQ(count(svg, "<title>request "), routes.size());
    EXPECT_EQ(count(svg, i == 0 ? "0.2 km</text>" : "km</text>"), 1u);
    expect_inside(svg);
  }
}

TEST(RouteFigures, EscapeTextsOfTables) {
  Data odd = data();
  Instance instance = drawn(data(), 2);
  instance.city = &odd.city;
  Trip& trip = odd.travellers.trips[static_cast<size_t>(instance.requests[0].trip)];
  trip.arrival = "<b> & \"co\"";
  trip.departure = "a";
  const std::string svg = routes_svg(odd, instance, {{1, 2}, {3, 4}});
  EXPECT_EQ(count(svg, "<b>"), 0u);
  EXPECT_GE(count(svg, "&lt;b&gt; &amp; "), 2u) << "in the label and in the tool tip";
}

TEST(CityMaps, AreOfPositionsInKilometres) {
  City city({"a", "b", "c"}, {0, 60, 60, 60, 0, 60, 60, 60, 0}, "test");
  city.set_position(0, {60, 10});
  city.set_position(1, {60, 11});
  const std::vector<int> two = {0, 1}, three = {0, 1, 2};
  const CityMap map = map_of(city, two);
  EXPECT_TRUE(map.of_positions);
  EXPECT_FALSE(map.places[2]) << "nobody knows where it is";
  EXPECT_NEAR(map.places[1]->x - map.places[0]->x, 111.2 / 2, 1e-6)
      << "at 60 degrees, half as long";
  EXPECT_NEAR(map.places[1]->y, map.places[0]->y, 1e-9);
  EXPECT_FALSE(map_of(city, three).of_positions);
}

// Cells in a plane come out as far apart as they are.
TEST(CityMaps, WithoutPositionsAreOfTravelTimes) {
  const std::vector<MapPoint> truth = {{0, 0}, {30, 0}, {30, 10}, {0, 10}, {12, 5}, {44, 3}};
  std::vector<std::string> names;
  std::vector<int64_t> seconds;
  std::vector<int> all;
  for (const MapPoint& from : truth) {
    all.push_back(static_cast<int>(names.size()));
    names.push_back(std::string(1, static_cast<char>('a' + names.size())));
    for (const MapPoint& to : truth) {
      seconds.push_back(std::llround(60 * std::hypot(from.x - to.x, from.y - to.y)));
    }
  }
  const CityMap map = map_of(City(names, seconds, "test"), all);
  EXPECT_FALSE(map.of_positions);
  for (size_t i = 0; i < truth.size(); ++i) {
    for (size_t j = 0; j < truth.size(); ++j) {
      EXPECT_NEAR(
          std::hypot(map.places[i]->x - map.places[j]->x, map.places[i]->y - map.places[j]->y),
          std::hypot(truth[i].x - truth[j].x, truth[i].y - truth[j].y), 0.05)
          << i << " " << j;
    }
  }
}

TEST(RouteFigures, OfACityWithoutPositions) {
  Data plain = data();
  std::vector<std::string> names;
  std::vector<int64_t> seconds;
  for (int i = 0; i < data().city.size(); ++i) {
    names.push_back(data().city.name(i));
    for (int j = 0; j < data().city.size(); ++j) seconds.push_back(data().city.seconds(i, j));
  }
  plain.city = City(names, seconds, "test");
  const Instance instance = drawn(plain, 12);
  const std::string svg =
      routes_svg(plain, instance, solve(instance, {.iterations = 50, .seed = 1}).routes);
  EXPECT_EQ(count(svg, "minutes (cells placed by travel times)"), 1u);
  EXPECT_EQ(count(svg, "<title>request "), 12u);
  expect_inside(svg);
}

}  // namespace
}  // namespace flotilla::dvrp
