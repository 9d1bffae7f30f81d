// Pictures of a negotiated day show both days' routes and costs, and every request with its shift.
#include "flotilla/domains/dvrp/figures/day_figure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {
namespace {

struct FigureDays {
  Instance asked, granted;
  Solution before, after;
  std::string svg() const {
    return day_svg(data(), {asked, before.routes}, {granted, after.routes});
  }
};

// Every third request is shifted.
FigureDays drawn(int customers) {
  Rng rng(19, stream_of(Purpose::kTest, static_cast<uint64_t>(customers)));
  FigureDays days;
  days.asked = days.granted = draw_instance(data(), customers, rng);
  for (size_t i = 0; i < days.granted.requests.size(); i += 3) {
    Request& request = days.granted.requests[i];
    request = shifted(request, {.pickup = 20, .dropoff = 10});
  }
  days.before = solve(days.asked, {.iterations = 100, .seed = 1});
  days.after = solve(days.granted, {.iterations = 100, .seed = 1});
  return days;
}

size_t count(const std::string& text, const std::string& what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

// Every tag is closed, in the right order.
bool is_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-zA-Z]+)[^<>]*?(/?)>)");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if ((*it)[1].length() > 0) {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    } else if ((*it)[3].length() == 0) {
      open.push_back(name);
    }
  }
  return open.empty();
}

TEST(DayFigures, ShowBothDays) {
  for (const int customers : {1, 7, 30}) {
    SCOPED_TRACE(customers);
    const FigureDays days = drawn(customers);
    const std::string svg = days.svg();
    EXPECT_TRUE(is_well_formed(svg));
    EXPECT_EQ(count(svg, fmt::format("As asked: {:.1f} minutes", days.before.cost)), 1u);
    EXPECT_EQ(count(svg, fmt::format("After negotiation: {:.1f} minutes", days.after.cost)), 1u);
    const auto requests = static_cast<size_t>(customers);
    EXPECT_EQ(count(svg, "<title>pickup of request "), 2 * requests) << "one on each map";
    EXPECT_EQ(count(svg, "<title>request "), requests);
    const size_t shifts = (requests + 2) / 3;
    EXPECT_EQ(count(svg, "pickup -20, drop-off +10"), shifts);
    EXPECT_EQ(count(svg, " moved to "), 2 * shifts);
    EXPECT_GE(count(svg, fmt::format("{} of {} traveller", shifts, requests)), 1u);
    EXPECT_EQ(days.svg(), svg);
  }
}

TEST(DayFigures, WithoutAnyShift) {
  FigureDays days = drawn(7);
  days.granted = days.asked;
  days.after = days.before;
  const std::string svg = days.svg();
  EXPECT_TRUE(is_well_formed(svg));
  EXPECT_EQ(count(svg, " moved to "), 0u);
  EXPECT_GE(count(svg, "0.0 minutes, 0.0 %"), 1u);
}

TEST(DayFigures, ShiftsThatWidenAreNamedByTheEndThatIsLater) {
  FigureDays days = drawn(1);
  const Request& asked = days.asked.requests[0];
  Request& granted = days.granted.requests[0];
  const auto svg_of = [&](Shift shift) {
    granted = shifted(asked, shift, Granting::kWiden);
    days.after = solve(days.granted, {.iterations = 0});
    return days.svg();
  };
  const std::string both = svg_of({.pickup = 20, .dropoff = 10});
  EXPECT_EQ(count(both, "pickup -20, drop-off +10"), 1u);
  EXPECT_EQ(count(both, " widened to "), 2u);
  EXPECT_EQ(count(both, " moved to "), 0u);
  const std::string late = svg_of({.pickup = 0, .dropoff = 10});
  EXPECT_EQ(count(late, ">drop-off +10<"), 1u);
  EXPECT_EQ(count(late, " widened to "), 1u);
}

TEST(DayFigures, OfAnEmptyDay) {
  FigureDays days;
  days.asked.city = days.granted.city = &data().city;
  EXPECT_TRUE(is_well_formed(days.svg()));
}

}  // namespace
}  // namespace flotilla::dvrp
