#include "flotilla/algo/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;
using Shape = Schedule::Shape;

Config sample_config() {
  Schema schema, all;
  Schedule::add_to(schema, "lr", 3e-4, {0, 1}, "learning rate");
  Schedule::add_to(schema, "clip", 0.2, {0.01, 1}, "clip range");
  all.include("ppo", schema);
  return Config(all);
}

TEST(Schedule, Constant) {
  const Schedule schedule{Shape::kConstant, 0.3, 0.3};
  for (const double progress : {-1.0, 0.0, 0.37, 1.0, 2.0}) EXPECT_EQ(schedule.at(progress), 0.3);
}

TEST(Schedule, LinearMeetsBothEndsExactly) {
  const Schedule schedule{Shape::kLinear, 0.3, 0.1};
  EXPECT_EQ(schedule.at(0), 0.3);
  EXPECT_DOUBLE_EQ(schedule.at(0.25), 0.25);
  EXPECT_DOUBLE_EQ(schedule.at(0.5), 0.2);
  EXPECT_EQ(schedule.at(1), 0.1);
  EXPECT_EQ(schedule.at(1.5), 0.1);
  EXPECT_EQ(schedule.at(-1), 0.3);
}

TEST(Schedule, CosineMeetsBothEndsExactly) {
  const Schedule schedule{Shape::kCosine, 0.3, 0.1};
  EXPECT_EQ(schedule.at(0), 0.3);
  EXPECT_DOUBLE_EQ(schedule.at(0.25), 0.1 + 0.2 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(schedule.at(0.5), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(2.0 / 3), 0.15);
  EXPECT_EQ(schedule.at(1), 0.1);
  EXPECT_EQ(schedule.at(7), 0.1);
}

TEST(Schedule, FromConfig) {
  Config config = sample_config();
  EXPECT_EQ(Schedule::from(config, "ppo.lr").shape, Shape::kConstant);
  EXPECT_EQ(Schedule::from(config, "ppo.lr").at(1), 3e-4);

  config.apply_override("ppo.lr=0.01");
  config.apply_override("ppo.lr_schedule=linear");
  EXPECT_EQ(Schedule::from(config, "ppo.lr").shape, Shape::kLinear);
  EXPECT_EQ(Schedule::from(config, "ppo.lr").at(0), 0.01);
  EXPECT_EQ(Schedule::from(config, "ppo.lr").at(1), 0);

  config.apply_override("ppo.lr_schedule=cosine");
  config.apply_override("ppo.lr_last=0.001");
  EXPECT_EQ(Schedule::from(config, "ppo.lr").shape, Shape::kCosine);
  EXPECT_EQ(Schedule::from(config, "ppo.lr").at(1), 0.001);
}

TEST(Schedule, AConstantOneHasNoLastValue) {
  Config config = sample_config();
  config.apply_override("ppo.lr_last=0.5");
  EXPECT_EQ(Schedule::from(config, "ppo.lr").at(1), 3e-4);
}

TEST(Schedule, LastValuesHaveTheSameRange) {
  Config config = sample_config();
  EXPECT_EQ(config.get_number("ppo.clip_last"), 0.01);  // 0 is outside
  EXPECT_NE(error_text(ErrorCode::kUsage, [&] { config.apply_override("ppo.clip_last=2"); })
                .find("ppo.clip_last: expected a number from 0.01 to 1"),
            std::string::npos);
  EXPECT_NE(error_text(ErrorCode::kUsage, [&] { config.apply_override("ppo.lr_schedule=linaer"); })
                .find("did you mean 'linear'"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
