#include "flotilla/report/run_figures.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/report/run_folder.h"

namespace flotilla::test {
namespace {

RunData run_of(const std::string& lines) {
  RunData run;
  run.path = "some/run";
  run.metrics = parse_metrics(lines, "metrics.jsonl");
  return run;
}

std::vector<std::string> titles(const Figure& figure) {
  std::vector<std::string> result;
  for (const Panel& panel : figure.panels) result.push_back(panel.title);
  return result;
}

TEST(RunFigures, HaveThePanelsThatHaveNumbers) {
  const RunData run =
      run_of(R"({"step": 1, "wall_s": 1, "charts/episodic_return": 1, "charts/episodic_length": 2,)"
             R"( "env/laps": 3, "env/failures": 0, "losses/entropy": 1, "losses/value_loss": null,)"
             R"( "charts/SPS": 5, "memory/rss_mb": 6, "time/step_s": 0.25, "time/update_s": 0.5})"
             "\n");
  using Titles = std::vector<std::string>;
  EXPECT_EQ(titles(learning_figure(run)), (Titles{"return", "episode length", "laps"}));
  EXPECT_EQ(titles(losses_figure(run)), (Titles{"entropy"}));
  EXPECT_EQ(titles(timing_figure(run)),
            (Titles{"steps per second", "share of time (%)", "resident memory (MB)"}));
  EXPECT_EQ(learning_figure(run).title, "run (not finished)");
  const RunData bare = run_of("{\"step\": 1}\n");
  EXPECT_TRUE(learning_figure(bare).panels.empty());
  EXPECT_TRUE(timing_figure(bare).panels.empty());
}

TEST(RunFigures, FailuresAreShownWhenThereAreSome) {
  EXPECT_EQ(titles(learning_figure(run_of("{\"step\": 1, \"env/failures\": 2}\n"))),
            (std::vector<std::string>{"failures"}));
}

// 0.25 and 0.5 of one second are parts, and so is the rest.
TEST(RunFigures, SharesOfTimeAddUpToAll) {
  const RunData run = run_of(
      "{\"step\": 1, \"wall_s\": 1, \"time/step_s\": 0.25, \"time/update_s\": 0.5}\n"
      "{\"step\": 2, \"wall_s\": 3, \"time/step_s\": 0.25, \"time/update_s\": 1.75}\n");
  const Panel panel = timing_figure(run).panels.at(0);
  ASSERT_EQ(panel.series.size(), 3u);
  EXPECT_EQ(panel.series[0].name, "step 16.7 %");
  EXPECT_EQ(panel.series[1].name, "update 75.0 %");
  EXPECT_EQ(panel.series[2].name, "other 8.3 %");
  EXPECT_EQ(panel.series[0].curve.x, (std::vector<double>{0, 1, 1, 3}));
  EXPECT_EQ(panel.series[0].high, (std::vector<double>{25, 25, 12.5, 12.5}));
  EXPECT_EQ(panel.series[1].low, panel.series[0].high);
  EXPECT_EQ(panel.series[1].high, (std::vector<double>{75, 75, 100, 100}));
  EXPECT_EQ(panel.series[2].high, (std::vector<double>{100, 100, 100, 100}));
}

TEST(RunFigures, EvaluationsHaveTheirInterval) {
  const RunData run = run_of(
      "{\"step\": 10, \"eval/episodic_return\": 5, \"eval/ci95\": 2}\n{\"step\": 20}\n"
      "{\"step\": 30, \"eval/episodic_return\": 7, \"eval/ci95\": 1}\n");
  const Series series = learning_figure(run).panels.at(0).series.at(0);
  EXPECT_EQ(series.kind, Series::Kind::kPoints);
  EXPECT_EQ(series.curve.x, (std::vector<double>{10, 30}));
  EXPECT_EQ(series.low, (std::vector<double>{3, 6}));
  EXPECT_EQ(series.high, (std::vector<double>{7, 8}));
}

TEST(RunFigures, HalfWidthsOfAMetricAreItsInterval) {
  const RunData run = run_of(
      R"({"step": 10, "env/laps": 1, "env/laps_ci95": 0.5, "eval/laps": 4, "eval/laps_ci95": 1,)"
      R"( "env/odd_ci95": 1})"
      "\n");
  const Figure figure = learning_figure(run);
  EXPECT_EQ(titles(figure), (std::vector<std::string>{"laps", "odd_ci95"}));
  const Series evaluation = figure.panels.at(0).series.at(1);
  EXPECT_EQ(evaluation.low, (std::vector<double>{3}));
  EXPECT_EQ(evaluation.high, (std::vector<double>{5}));
}

TEST(RunFigures, LongRunsAreSmoothedOverAFiftieth) {
  std::string lines;
  for (int i = 0; i < 1000; ++i)
    lines += fmt::format("{{\"step\": {}, \"losses/entropy\": 1, \"charts/learning_rate\": {}}}\n",
                         i, i < 500);
  const Figure figure = losses_figure(run_of(lines));
  const Panel panel = figure.panels.at(0);
  ASSERT_EQ(panel.series.size(), 2u);
  EXPECT_EQ(panel.series[0].kind, Series::Kind::kFaint);
  EXPECT_EQ(panel.series[1].name, "mean of 21");
  EXPECT_EQ(figure.panels.at(1).series.size(), 1u) << "a schedule is shown as it was";
  EXPECT_EQ(losses_figure(run_of("{\"step\": 1, \"losses/entropy\": 1}\n")).panels[0].series.size(),
            1u);
}

TEST(RunFigures, TimeHasAUnitThatFits) {
  EXPECT_EQ(TimeAxis(90).label, "wall time (s)");
  EXPECT_EQ(TimeAxis(900).label, "wall time (min)");
  EXPECT_EQ(TimeAxis(90'000).label, "wall time (h)");
}

}  // namespace
}  // namespace flotilla::test
