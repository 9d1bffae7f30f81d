#include "flotilla/report/metrics_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/error_text.h"
#include "unit/report/run_folder.h"

namespace flotilla::test {
namespace {

using Names = std::vector<std::string>;

MetricsTable parse(const std::string& text) { return parse_metrics(text, "m.jsonl"); }
std::string refusal(const std::string& text) {
  return error_text(ErrorCode::kData, [&] { parse(text); });
}

constexpr const char* kGood =
    "{\"step\": 1, \"a\": 2.5}\n{\"step\": 2, \"b\": null, \"c\": true}\n";

TEST(MetricsTable, ColumnsInTheOrderTheyAppear) {
  const MetricsTable table = parse(kGood);
  EXPECT_EQ(table.rows(), 2u);
  EXPECT_EQ(table.names(), (Names{"step", "a", "b", "c"}));
  EXPECT_EQ(*table.find("step"), (std::vector<double>{1, 2}));
  EXPECT_EQ(table.find("a")->at(0), 2.5);
  EXPECT_TRUE(std::isnan(table.find("a")->at(1)));
  EXPECT_TRUE(std::isnan(table.find("c")->at(0)));
  EXPECT_EQ(table.find("c")->at(1), 1);
  EXPECT_EQ(table.find("d"), nullptr);
  EXPECT_TRUE(table.has("a"));
  EXPECT_FALSE(table.has("b"));  // null in every line
}

TEST(MetricsTable, ATornLastLineIsLeftOut) {
  const std::string last = "{\"step\": 3, \"a\": 1}";
  for (size_t kept = 0; kept < last.size(); ++kept) {
    EXPECT_EQ(parse(kGood + last.substr(0, kept)).rows(), 2u) << kept;
  }
  EXPECT_EQ(parse(kGood + last).rows(), 3u);  // all there but the line end
  EXPECT_EQ(parse(kGood + std::string(100, '\0')).rows(), 2u);
  EXPECT_EQ(parse("").rows(), 0u);
  EXPECT_EQ(parse("{\"st").rows(), 0u);
}

TEST(MetricsTable, ABadLineIsNamed) {
  EXPECT_EQ(refusal("{\"step\": 1}\n{\"step\": 2\n{\"step\": 3}\n"), "m.jsonl:2: not valid JSON");
  EXPECT_EQ(refusal("{\"step\": 1}\n\n"), "m.jsonl:2: not valid JSON");
  EXPECT_EQ(refusal("{\"step\": NaN}\n"), "m.jsonl:1: not valid JSON");
  EXPECT_EQ(refusal("{\"step\": 1e999}\n"), "m.jsonl:1: not valid JSON");
  EXPECT_EQ(refusal("[1]\n"), "m.jsonl:1: expected a JSON object");
  EXPECT_EQ(refusal("7\n"), "m.jsonl:1: expected a JSON object");
  EXPECT_EQ(refusal("{\"step\": 1, \"a\": \"x\"}\n"), "m.jsonl:1: 'a' is not a number");
  EXPECT_EQ(refusal("{\"step\": 1, \"a\": {\"b\": 1}}\n"), "m.jsonl:1: 'a' is not a number");
  EXPECT_EQ(refusal("{\"step\": 1, \"a\": [1]}\n"), "m.jsonl:1: 'a' is not a number");
  EXPECT_EQ(refusal("{\"a\": 1}\n"), "m.jsonl:1: there is no \"step\"");
  EXPECT_EQ(refusal("{\"step\": 1}\n{\"step\": null}\n"), "m.jsonl:2: there is no \"step\"");
  EXPECT_EQ(refusal("{\"step\": 5}\n{\"step\": 4}\n"), "m.jsonl:2: step 4 comes after step 5");
  EXPECT_EQ(refusal("{\"step\": 5}\n{\"step\": 5}\n"), "m.jsonl:2: step 5 comes after step 5");
  EXPECT_EQ(refusal("{\"step\": 1}\n" + std::string(100'000, '[') + "\n"),
            "m.jsonl:2: expected a JSON object");
}

TEST(MetricsTable, NamesAndValuesAreLimited) {
  std::string line = "{\"step\": 1";
  for (int i = 0; i < 2000; ++i) line += fmt::format(", \"n{}\": 1", i);
  EXPECT_EQ(refusal(line + "}\n"), "m.jsonl:1: more than 2000 names");
  // One long line and then many short ones would be a table of 3 GB.
  line.clear();
  for (int i = 0; i < 1900; ++i) line += fmt::format(", \"n{}\": 1", i);
  line = "{\"step\": 1" + line + "}\n";
  for (int i = 2; i < 200'000; ++i) line += fmt::format("{{\"step\": {}}}\n", i);
  EXPECT_EQ(refusal(line).substr(0, 8), "m.jsonl:");
  EXPECT_NE(refusal(line).find("more than 134217728 values"), std::string::npos);
}

TEST(MetricsTable, ANameThatComesLateCountsInEveryRow) {
  std::string text = "{\"step\": 1";
  for (int i = 0; i < 1998; ++i) text += fmt::format(", \"n{}\": 1", i);
  text += "}\n";
  for (int i = 2; i < 67'142; ++i) text += fmt::format("{{\"step\": {}}}\n", i);
  const std::string last = "{\"step\": 67142";  // in which 1999 names are still few enough
  EXPECT_EQ(refusal(text + last + ", \"late\": 1}\n"), "m.jsonl:67142: more than 134217728 values");
}

TEST(MetricsTable, ToCsv) {
  EXPECT_EQ(to_csv(parse(kGood)), "step,a,b,c\n1,2.5,,\n2,,,1\n");
  EXPECT_EQ(to_csv(parse("{\"step\": 1, \"a,\\\"b\\\"\": 0.1}\n")),
            "step,\"a,\"\"b\"\"\"\n1,0.1\n");
}

TEST(MetricsCsv, OwnNames) {
  const RunFolder folder;
  folder.write("a.csv",
               "step,wall_s,charts/episodic_return,note\n10,1.5,3,first\n20,3,,\n20,3,-4,\n");
  const MetricsTable table = read_metrics_csv(folder.path("a.csv"));
  EXPECT_EQ(table.names(), (Names{"step", "wall_s", "charts/episodic_return"}));
  EXPECT_EQ(*table.find("step"), (std::vector<double>{10, 20, 20}));
  EXPECT_TRUE(std::isnan(table.find("charts/episodic_return")->at(1)));
}

// As Stable-Baselines3 writes it, columns in its order.
TEST(MetricsCsv, ProgressOfStableBaselines) {
  const RunFolder folder;
  folder.write("progress.csv",
               "time/fps,rollout/ep_rew_mean,time/iterations,time/total_timesteps,"
               "time/time_elapsed,train/value_loss\n"
               "900,21.5,1,2048,2,\n800,30,2,4096,5,7.25\n");
  const MetricsTable table = read_metrics_csv(folder.path("progress.csv"));
  EXPECT_EQ(*table.find("step"), (std::vector<double>{2048, 4096}));
  EXPECT_EQ(*table.find("wall_s"), (std::vector<double>{2, 5}));
  EXPECT_EQ(*table.find("charts/return_mean_100"), (std::vector<double>{21.5, 30}));
  EXPECT_EQ(*table.find("charts/SPS"), (std::vector<double>{900, 800}));
  EXPECT_EQ(table.find("losses/value_loss")->at(1), 7.25);
  EXPECT_EQ(table.find("time/iterations"), nullptr);
}

TEST(MetricsCsv, WhatIsMissingIsNamed) {
  const RunFolder folder;
  const auto refused = [&](const char* text) {
    folder.write("x.csv", text);
    std::string message =
        error_text(ErrorCode::kData, [&] { read_metrics_csv(folder.path("x.csv")); });
    return message.substr(message.find("x.csv"));
  };
  EXPECT_EQ(refused("a,b\n1,2\n"), "x.csv: no column 'step' or 'time/total_timesteps'");
  EXPECT_EQ(refused("step,b\n1,2\n"),
            "x.csv: no column 'charts/episodic_return', 'charts/return_mean_100' or "
            "'rollout/ep_rew_mean'");
  EXPECT_EQ(refused("step,charts/episodic_return\n2,1\n1,1\n"),
            "x.csv:3: step 1 comes after step 2");
  EXPECT_EQ(refused("step,charts/episodic_return\n,1\n"), "x.csv:2: there is no \"step\"");
  EXPECT_NE(refused("step,charts/episodic_return\n1,high\n").find("line 2"), std::string::npos);
}

}  // namespace
}  // namespace flotilla::test
