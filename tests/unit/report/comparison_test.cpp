#include "flotilla/report/comparison.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "flotilla/report/comparison_text.h"
#include "unit/report/run_folder.h"

namespace flotilla::test {
namespace {

struct RunPlan {
  std::vector<double> returns;
  std::string env = "cartpole";
  int seed = 0, threads = 1;
  double lr = 0.001, steps_per_s = 100;
  std::string machine = "X", version = "v1";
};

class Compared : public testing::Test {
 protected:
  RunData make(const std::string& name, const RunPlan& plan) const {
    folder_.write(name + "/config.yaml",
                  fmt::format("env:\n  name: {}\nbackend: threads\nthreads: {}\nseed: {}\nppo:\n  "
                              "lr: {}\n  gamma: 0.98\n",
                              plan.env, plan.threads, plan.seed, plan.lr));
    folder_.write(
        name + "/summary.json",
        fmt::format(R"({{"domain": "{}", "steps_per_s": {}, "version": "{}", "config_sha256":
                        "{}{}{}", "machine": {{"cpu": "{}", "cores": 2}}}})",
                    plan.env, plan.steps_per_s, plan.version, plan.env, plan.seed, plan.lr,
                    plan.machine));
    return read_run(folder_.write(name + "/metrics.jsonl", lines_of(plan.returns)));
  }

  RunFolder folder_;
};

TEST_F(Compared, TimeToScore) {
  const RunData run = make("a", {.returns = {0, 40, 60, 50, 90}});
  EXPECT_EQ(row_of_score(run, 50), 2u);  // the first time, whatever comes after it
  EXPECT_EQ(row_of_score(run, 60), 2u);
  EXPECT_EQ(row_of_score(run, -5), 0u);
  EXPECT_EQ(row_of_score(run, 90.5), std::nullopt);
  const Comparison comparison = compare({run, make("b", {.returns = {0, 100}})}, 60);
  EXPECT_EQ(comparison.runs[0].steps_to_score, 300);
  EXPECT_EQ(comparison.runs[0].time_to_score_s, 3);
  EXPECT_EQ(comparison.runs[1].steps_to_score, 200);
  EXPECT_EQ(comparison.runs[1].time_to_score_s, 2);
  ASSERT_TRUE(comparison.score);
  EXPECT_EQ(comparison.score->value, 60);
}

// Starts 10 and 20, ends 110 and 210: 10 + 0.9 * 100, and the second run is above from row 1 on.
TEST_F(Compared, TheScoreIsOneThatAllReached) {
  const std::vector<RunData> runs = {make("a", {.returns = {10, 50, 100, 110}}),
                                     make("b", {.returns = {20, 150, 210}, .seed = 1})};
  const auto score = common_score(runs);
  ASSERT_TRUE(score);
  EXPECT_DOUBLE_EQ(score->value, 100);
  EXPECT_EQ(score->origin,
            "90 % of the way from the lowest start, 10, to the lowest final return, 110");
  const Comparison comparison = compare(runs, std::nullopt);
  EXPECT_EQ(comparison.runs[0].steps_to_score, 300);
  EXPECT_EQ(comparison.runs[1].steps_to_score, 200);
}

TEST_F(Compared, TheScoreIsRoundedDownwards) {
  const auto score = common_score({make("a", {.returns = {-1203.7, -151.3}})});
  // 1052.4 of way: digits of 10, and -1203.7 + 947.16 = -256.54.
  ASSERT_TRUE(score);
  EXPECT_DOUBLE_EQ(score->value, -260);
}

TEST_F(Compared, WithoutALevelThatAllRoseToThereIsNoScore) {
  EXPECT_FALSE(common_score({make("a", {.returns = {10, 100}}), make("b", {.returns = {10, 5}})}));
  EXPECT_FALSE(common_score({make("c", {.returns = {7}})}));
  EXPECT_FALSE(common_score({}));
  const Comparison other =
      compare({make("d", {.returns = {0, 1}}), make("e", {.returns = {0, 1}, .env = "pendulum"})},
              std::nullopt);
  EXPECT_FALSE(other.score);
  EXPECT_FALSE(other.runs[0].steps_to_score);
}

TEST_F(Compared, SpeedUpIsAgainstTheFirst) {
  const Comparison comparison =
      compare({make("a", {.returns = {1}, .steps_per_s = 100}),
               make("b", {.returns = {1}, .threads = 2, .steps_per_s = 250})},
              std::nullopt);
  EXPECT_DOUBLE_EQ(*comparison.runs[0].speed_up, 1);
  EXPECT_DOUBLE_EQ(*comparison.runs[1].speed_up, 2.5);
}

TEST_F(Compared, SettingsThatDiffer) {
  const std::vector<RunData> runs = {make("a", {.returns = {1}}),
                                     make("b", {.returns = {1}, .threads = 4, .lr = 0.5}),
                                     make("c", {.returns = {1}, .threads = 4})};
  const SettingsReport report = compare_settings(runs);
  EXPECT_EQ(report.equal, 4u);  // env.name, backend, seed, ppo.gamma
  ASSERT_EQ(report.semantic.size(), 1u);
  EXPECT_EQ(report.semantic[0].key, "ppo.learning_rate");
  using Values = std::vector<std::pair<std::string, std::vector<size_t>>>;
  EXPECT_EQ(report.semantic[0].values, (Values{{"0.001", {0, 2}}, {"0.5", {1}}}));
  ASSERT_EQ(report.execution.size(), 1u);
  EXPECT_EQ(report.execution[0].key, "threads");
  EXPECT_EQ(report.execution[0].values, (Values{{"1", {0}}, {"4", {1, 2}}}));
}

TEST_F(Compared, AKeyThatOneRunDoesNotHaveDiffers) {
  const RunData a = make("a", {.returns = {1}});
  folder_.write("b/config.yaml", "seed: 0\nnew: 1\n");
  const RunData b = read_run(folder_.write("b/metrics.jsonl", lines_of({1})));
  folder_.write("c.csv", "step,charts/episodic_return\n1,1\n");
  const SettingsReport report = compare_settings({a, b, read_run(folder_.path("c.csv"))});
  EXPECT_EQ(report.equal, 2u);  // seed, and threads, whose default it is
  EXPECT_EQ(report.unknown, (std::vector<size_t>{2}));
  ASSERT_EQ(report.semantic.size(), 4u);  // env.name, new, ppo.gamma, ppo.learning_rate
  EXPECT_EQ(report.semantic[1].key, "new");
  EXPECT_EQ(report.semantic[1].values[0].first, "(not set)");
}

TEST_F(Compared, RunsThatDifferBySeedAloneAreAGroup) {
  const Comparison comparison =
      compare({make("one/seed0", {.returns = {1}, .seed = 0, .steps_per_s = 100}),
               make("two/seed0", {.returns = {1}, .seed = 0, .threads = 2}),
               make("one/seed1", {.returns = {1}, .seed = 1, .steps_per_s = 110}),
               make("one/other", {.returns = {1}, .seed = 2, .machine = "Y"}),
               make("two/seed1", {.returns = {1}, .seed = 1, .threads = 2}),
               make("lr", {.returns = {1}, .seed = 0, .lr = 0.5})},
              std::nullopt);
  ASSERT_EQ(comparison.groups.size(), 2u);
  EXPECT_EQ(comparison.groups[0].runs, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(comparison.groups[0].name, "one");
  EXPECT_EQ(comparison.groups[0].members(), "2 seeds");
  EXPECT_EQ(comparison.groups[1].runs, (std::vector<size_t>{1, 4}));
  // 105 +- 7.07, and 1.05 +- 0.0707 of speed-up.
  EXPECT_NE(to_text(comparison).find("105 +- 7.07  1.05x +- 0.07x"), std::string::npos)
      << to_text(comparison);
  const Json group = to_json(comparison)["groups"][0];
  EXPECT_DOUBLE_EQ(group["steps_per_s"]["mean"].get<double>(), 105);
  EXPECT_NEAR(group["steps_per_s"]["std"].get<double>(), 7.0710678, 1e-6);
}

TEST_F(Compared, TheSameSeedTwiceIsNotTwoSeeds) {
  const RunPlan plan{.returns = {1}};
  const Comparison comparison = compare({make("a1", plan), make("a2", plan)}, std::nullopt);
  ASSERT_EQ(comparison.groups.size(), 1u);
  EXPECT_EQ(comparison.groups[0].members(), "2 runs");
  EXPECT_EQ(comparison.same_config_sha256, true);
  EXPECT_NE(to_text(comparison).find("config: equal, 6 keys; config_sha256 equal\n"),
            std::string::npos);
}

TEST_F(Compared, WarnsOfWhatCannotBeCompared) {
  folder_.write("d/config.yaml", "env:\n  name: cartpole\n");
  const RunData unfinished = read_run(folder_.write("d/metrics.jsonl", lines_of({1})));
  const Comparison comparison =
      compare({make("a", {.returns = {1}}), make("b", {.returns = {1}, .env = "pendulum"}),
               make("c", {.returns = {1}, .machine = "Y", .version = "v2"}), unfinished},
              std::nullopt);
  const std::vector<std::string> expected = {
      "the environments differ: cartpole (a, c, d); pendulum (b); their returns cannot be compared",
      "the machines differ: X, 2 cores (a, b); Y, 2 cores (c); a speed-up across machines is not "
      "one",
      "the versions of the program differ: v1 (a, b); v2 (c)",
      "the machine is not known of d; speeds compare only if it is the same",
      "not finished: d; shown as far as the metrics go"};
  EXPECT_EQ(comparison.warnings, expected);
  EXPECT_TRUE(compare({make("x", {.returns = {1}}), make("y", {.returns = {1}})}, std::nullopt)
                  .warnings.empty());
}

TEST_F(Compared, SaysWhetherTheyAreComparable) {
  const RunPlan plan{.returns = {1, 2}, .seed = 0};
  RunPlan other = plan;
  other.seed = 1;
  const Comparison same = compare({make("a", plan), make("b", other)}, std::nullopt);
  EXPECT_EQ(same.incomparable, std::vector<std::string>());
  EXPECT_NE(to_text(same).find("\ncomparable: yes\n"), std::string::npos);
  EXPECT_TRUE(to_json(same)["comparable"].get<bool>());

  other.returns = {1, 2, 3};  // one update more
  other.lr = 0.5;
  const Comparison unlike = compare({make("c", plan), make("d", other)}, std::nullopt);
  ASSERT_EQ(unlike.incomparable.size(), 2u) << to_text(unlike);
  EXPECT_EQ(unlike.incomparable[0].find("settings differ ("), 0u) << unlike.incomparable[0];
  EXPECT_EQ(unlike.incomparable[1], "steps differ (200, 300)");
  EXPECT_FALSE(to_json(unlike)["comparable"].get<bool>());
}

TEST_F(Compared, TheFigureHasACurvePerGroupAndRun) {
  const std::vector<RunData> runs = {make("g/seed0", {.returns = {0, 10, 20}, .seed = 0}),
                                     make("g/seed1", {.returns = {2, 14, 30}, .seed = 1}),
                                     make("single", {.returns = {5, 6}, .lr = 0.5})};
  const Figure figure = comparison_figure(runs, compare(runs, std::nullopt));
  ASSERT_EQ(figure.panels.size(), 2u);
  for (const Panel& panel : figure.panels) {
    ASSERT_EQ(panel.series.size(), 2u);
    EXPECT_EQ(panel.series[0].name, "g (mean and range of 2 seeds)");
    EXPECT_EQ(panel.series[1].name, "single");
    EXPECT_EQ(panel.series[0].curve.y.front(), 1);
    EXPECT_EQ(panel.series[0].low.front(), 0);
    EXPECT_EQ(panel.series[0].high.back(), 30);
  }
  EXPECT_EQ(figure.panels[0].series[0].curve.x.back(), 300);
  EXPECT_EQ(figure.panels[1].series[0].curve.x.back(), 3);
}

TEST(ShortNumbers, AreShort) {
  EXPECT_EQ(short_number(47.3), "47.3");
  EXPECT_EQ(short_number(312'345), "312 k");
  EXPECT_EQ(short_number(999'600), "1 M");
  EXPECT_EQ(short_number(-1.05e6), "-1.05 M");
  EXPECT_EQ(short_number(1e20), "1e+20");
  EXPECT_EQ(short_time(0.523), "0.52 s");
  EXPECT_EQ(short_time(744), "12.4 min");
  EXPECT_EQ(short_time(3.2 * 3600), "3.20 h");
}

TEST(TextTable, ColumnsAreInLine) {
  EXPECT_EQ(text_table({{"run", "x"}, {"a", "100"}, {"long", "-"}}),
            "run     x\na     100\nlong    -\n");
}

TEST(TextTable, ColumnsWithoutRoomFollowBelow) {
  const std::vector<std::vector<std::string>> rows = {{"run", "first", "second", "x"},
                                                      {"a", "1", "22", "3"}};
  EXPECT_EQ(text_table(rows, 22), "run  first  second  x\na        1      22  3\n");
  EXPECT_EQ(text_table(rows, 18), "run  first  second\na        1      22\n\nrun  x\na    3\n");
  EXPECT_EQ(text_table(rows, 10), "a\n  first: 1\n  second:\n    22\n  x: 3\n") << "a list";
}

}  // namespace
}  // namespace flotilla::test
