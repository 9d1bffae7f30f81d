#include "flotilla/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

namespace flotilla::test {
namespace {

Figure one_panel(std::vector<Series> series, Axis y = {}) {
  return {.title = "t", .panels = {{.x = {.label = "steps"}, .y = y, .series = std::move(series)}}};
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

Curve line(std::vector<double> y) {
  Curve curve;
  for (size_t i = 0; i < y.size(); ++i) curve.add(static_cast<double>(i), y[i]);
  return curve;
}

// The points of the first polyline.
std::vector<std::pair<double, double>> first_line(const std::string& svg) {
  std::smatch match;
  std::vector<std::pair<double, double>> points;
  if (!std::regex_search(svg, match, std::regex("<polyline points=\"([^\"]*)\""))) return points;
  const std::string text = match[1];
  const std::regex pair("([-0-9.]+),([-0-9.]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), pair), end; at != end; ++at) {
    points.emplace_back(std::stod((*at)[1]), std::stod((*at)[2]));
  }
  return points;
}

TEST(Chart, ALineIsWhereItsNumbersAre) {
  const auto points = first_line(render_svg(one_panel({{.curve = line({0, 10, 5})}})));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(points[1].first - points[0].first, points[2].first - points[1].first, 0.02);
  EXPECT_LT(points[1].second, points[0].second);  // y grows downwards
  EXPECT_NEAR(points[2].second, (points[0].second + points[1].second) / 2, 0.02);
}

TEST(Chart, ALogAxisIsOne) {
  const Axis log{.kind = Axis::Kind::kLog};
  const auto points = first_line(render_svg(one_panel({{.curve = line({1, 10, 1000})}}, log)));
  ASSERT_EQ(points.size(), 3u);
  EXPECT_NEAR(2 * (points[0].second - points[1].second), points[1].second - points[2].second, 0.03);
}

TEST(Chart, AutoIsLogForLargeRatiosOnly) {
  const Axis automatic{.kind = Axis::Kind::kAuto}, log{.kind = Axis::Kind::kLog}, linear;
  const auto drawn = [](std::vector<double> y, const Axis& axis) {
    return render_svg(one_panel({{.curve = line(std::move(y))}}, axis));
  };
  EXPECT_EQ(drawn({1, 10, 100}, automatic), drawn({1, 10, 100}, log));
  EXPECT_EQ(drawn({1, 10, 99}, automatic), drawn({1, 10, 99}, linear));
  EXPECT_EQ(drawn({0, 10, 1000}, automatic), drawn({0, 10, 1000}, linear));
}

TEST(Chart, GapsBreakTheLine) {
  const std::string svg = render_svg(one_panel({{.curve = line({1, 2, kNaN, 3, 4, kNaN, 5})}}));
  EXPECT_EQ(count(svg, "<polyline"), 2u);
  EXPECT_EQ(count(svg, "<circle"), 1u);  // a point alone is a dot
}

TEST(Chart, ABandFollowsItsLine) {
  const Series series{.curve = line({1, 2, 3}), .low = {0, 1, 2}, .high = {2, 3, 4}};
  const std::string svg = render_svg(one_panel({series}));
  EXPECT_EQ(count(svg, "<polygon"), 1u);
  EXPECT_LT(svg.find("<polygon"), svg.find("<polyline"));  // behind it
}

TEST(Chart, ABandBelowALogAxisEndsThere) {
  const Series series{.curve = line({1, 10, 100}), .low = {0.5, -5, 50}, .high = {2, 20, 200}};
  const std::string svg = render_svg(one_panel({series}, {.kind = Axis::Kind::kLog}));
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, std::regex("<polygon points=\"([^\"]*)\"")));
  const std::string text = match[1];
  EXPECT_EQ(std::ranges::count(text, ','), 6);
}

TEST(Chart, FewEvaluationsHaveWhiskersManyABand) {
  Series few{.curve = line({1, 2}), .low = {0, 1}, .high = {2, 3}, .kind = Series::Kind::kPoints};
  EXPECT_EQ(count(render_svg(one_panel({few})), "<polygon"), 0u);
  EXPECT_EQ(count(render_svg(one_panel({few})), "<circle"), 2u);
  Series many = few;
  many.curve = line(std::vector<double>(500, 1));
  many.low.assign(500, 0);
  many.high.assign(500, 2);
  EXPECT_EQ(count(render_svg(one_panel({many})), "<polygon"), 1u);
}

TEST(Chart, NoDataIsSaid) {
  for (const Curve& curve : {Curve{}, line({kNaN, kNaN}), line({HUGE_VAL})}) {
    EXPECT_EQ(count(render_svg(one_panel({{.curve = curve}})), ">no data<"), 1u);
  }
  EXPECT_EQ(count(render_svg(one_panel({})), ">no data<"), 1u);
  EXPECT_EQ(count(render_svg(one_panel({{.curve = line({-1, 0})}}, {.kind = Axis::Kind::kLog})),
                  ">no data<"),
            1u);
  EXPECT_EQ(count(render_svg({}), "<svg"), 1u);
}

TEST(Chart, NumbersOfAnySizeStayOnThePaper) {
  const std::vector<std::vector<double>> cases = {{1e308, -1e308, 0},
                                                  {HUGE_VAL, 1, -HUGE_VAL},
                                                  {5e-324, 0, 1e-310},
                                                  {-1e9, -1e9 - 1e-4},
                                                  {1e15, 1e15 + 1, 0.5},
                                                  {0, 0, 0},
                                                  {-7},
                                                  {1e300, 1e300}};
  for (const auto& values : cases) {
    for (const auto kind : {Axis::Kind::kLinear, Axis::Kind::kLog, Axis::Kind::kAuto}) {
      const std::string svg = render_svg(one_panel({{.curve = line(values)}}, {.kind = kind}));
      EXPECT_EQ(svg.find("nan"), svg.npos);
      EXPECT_EQ(svg.find("inf"), svg.npos);
      for (const auto& [x, y] : first_line(svg)) {
        EXPECT_TRUE(x >= 0 && x <= 246 && y >= 0 && y <= 250) << x << " " << y;
      }
    }
  }
}

TEST(Chart, PlacesThatGoBackAreLeftOut) {
  const Curve curve = {{0, kNaN, 2, 1, 3}, {1, 1, 1, 1, 1}};
  EXPECT_EQ(first_line(render_svg(one_panel({{.curve = curve}}))).size(), 3u);
}

TEST(Chart, LongSeriesGiveSmallFiles) {
  Curve curve;
  for (int i = 0; i < 100'000; ++i) curve.add(i, std::sin(i * 12.9898) * std::cos(i * 78.233));
  EXPECT_LT(render_svg(one_panel({{.curve = curve}})).size(), 30'000u);
  for (size_t i = 0; i < curve.size(); i += 2) curve.y[i] = kNaN;
  EXPECT_LT(render_svg(one_panel({{.curve = curve}})).size(), 30'000u);
  Series points{.curve = curve, .low = curve.y, .high = curve.y, .kind = Series::Kind::kPoints};
  EXPECT_LT(render_svg(one_panel({points})).size(), 100'000u);
}

TEST(Chart, ALegendIsForTwoOrMoreAndBelowTheData) {
  const Series a{.name = "alpha", .curve = line({1, 2})};
  const Series b{.name = "beta", .curve = line({2, 1}), .look = 1};
  EXPECT_EQ(count(render_svg(one_panel({a})), ">alpha<"), 0u);
  const std::string svg = render_svg(one_panel({a, b}));
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, std::regex("y=\"([0-9.]+)\"[^>]*>beta<")));
  for (const auto& [x, y] : first_line(svg)) EXPECT_LT(y, std::stod(match[1]) - 20);
}

TEST(Chart, OneLegendForAllPanels) {
  Figure figure = one_panel({{.name = "a", .curve = line({1, 2})}, {.name = "b"}});
  figure.panels.push_back(figure.panels[0]);
  EXPECT_EQ(count(render_svg(figure), ">a<"), 2u);
  figure.one_legend = true;
  EXPECT_EQ(count(render_svg(figure), ">a<"), 1u);
}

TEST(Chart, LooksDiffer) {
  std::vector<Series> all;
  for (int look = 0; look < 24; ++look) all.push_back({.curve = line({1, 2}), .look = look});
  const std::string svg = render_svg(one_panel(all));
  const std::regex paint("<polyline points=\"[^\"]*\" (.*)/>");
  std::vector<std::string> paints;
  for (std::sregex_iterator at(svg.begin(), svg.end(), paint), end; at != end; ++at) {
    paints.push_back((*at)[1]);
  }
  ASSERT_EQ(paints.size(), 24u);
  std::ranges::sort(paints);
  EXPECT_EQ(std::ranges::unique(paints).size(), 0u);
}

TEST(Chart, NamesAreEscaped) {
  Figure figure = one_panel({{.name = "<b>", .curve = line({1})}, {.name = "&"}});
  figure.title = "\"t\" \x01";
  figure.panels[0].x.label = "</text>";
  const std::string svg = render_svg(figure);
  EXPECT_NE(svg.find(">&lt;b&gt;<"), svg.npos);
  EXPECT_NE(svg.find(">&lt;/text&gt;<"), svg.npos);
  EXPECT_EQ(svg.find('\x01'), svg.npos);
}

TEST(Chart, IsDeterministic) {
  const Figure figure = one_panel({{.name = "a", .curve = line({1, 5, 2})}});
  EXPECT_EQ(render_svg(figure), render_svg(figure));
}

}  // namespace
}  // namespace flotilla::test
