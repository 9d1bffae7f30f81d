#include "flotilla/core/activity.h"

#include <gtest/gtest.h>

#include <string>

namespace flotilla {
namespace {

TEST(StatusLine, IsNoWiderThanItMay) {
  const Status status{
      .fraction = 0.5, .left_s = 12.4, .facts = {"return -", "0.37 steps/s", "1,234,560 steps"}};
  EXPECT_EQ(status_line("", status, 3, 80),
            "[######......]  50.0 %  12 s left  return -  0.37 steps/s  1,234,560 steps");
  EXPECT_EQ(status_line("", status, 3, 60),
            "[######......]  50.0 %  12 s left  return -  0.37 steps/s");
  EXPECT_EQ(status_line("", status, 3, 40), "50.0 %  12 s left  return -");
  EXPECT_EQ(status_line("", status, 3, 0),
            "50.0 %  12 s left  return -  0.37 steps/s  1,234,560 steps");
}

TEST(StatusLine, WithoutAnEndSaysHowLongItLasts) {
  EXPECT_EQ(status_line("starting", {}, 12, 80), "starting  12 s");
}

TEST(StatusLine, TheBarIsFullAtTheEnd) {
  EXPECT_EQ(status_line("", {.fraction = 0, .left_s = 0}, 0, 80),
            "[............]  0.0 %  0 s left");
  EXPECT_EQ(status_line("", {.fraction = 1.5, .left_s = -1}, 0, 80),
            "[############]  100.0 %  0 s left");
}

TEST(RoughTime, HasTheUnitThatFits) {
  EXPECT_EQ(rough_time(0.4), "0 s");
  EXPECT_EQ(rough_time(99), "99 s");
  EXPECT_EQ(rough_time(150), "2 min");
  EXPECT_EQ(rough_time(3.4 * 3600), "3.4 h");
}

TEST(Activity, IsSilentUnlessAProgramShowsThem) {
  testing::internal::CaptureStderr();
  {
    Activity outer("working");
    Activity inner("counting", "thing", 2);
    inner.done(1);
    outer.tell([]() -> Status {
      ADD_FAILURE() << "nobody asked";
      return {};
    });
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace flotilla
