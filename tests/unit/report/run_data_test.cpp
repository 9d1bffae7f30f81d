#include "flotilla/report/run_data.h"

#include <gtest/gtest.h>

#include <string>

#include "flotilla/report/run_facts.h"
#include "support/error_text.h"
#include "unit/report/run_folder.h"

namespace flotilla::test {
namespace {

constexpr const char* kConfig =
    "env:\n  name: nowhere\n  size: 3\nbackend: threads\nthreads: 2\nworkers: 2\n"
    "num_envs: 8\nseed: 4\n"
    "steps: 1000\nalgo: ppo\nppo:\n  lr: 0.001\nlist: [1, 2]\nempty:\n";
constexpr const char* kSummary =
    R"({"domain": "nowhere", "algo": "ppo", "backend": "serial", "threads": 1, "steps": 300,
        "wall_s": 3.5, "steps_per_s": 100, "return_mean_100": 7, "peak_rss_mb": 20,
        "eval": {"episodes": 10, "mean": 8, "ci95": 0.5}, "config_sha256": "c", "version": "v",
        "machine": {"cpu": "X", "cores": 2, "gpu": null}})";

TEST(Settings, MapsAreDottedKeys) {
  const Settings settings = parse_settings(kConfig, "c.yaml");
  EXPECT_EQ(settings.at("env.name"), "nowhere");
  EXPECT_EQ(settings.at("ppo.lr"), "0.001");
  EXPECT_EQ(settings.at("list"), "1,2");
  EXPECT_EQ(settings.at("empty"), "");
  EXPECT_EQ(settings.size(), 12u);
  EXPECT_TRUE(parse_settings("", "c.yaml").empty());
}

TEST(Settings, DamageIsNamed) {
  const auto refused = [](const std::string& yaml) {
    return error_text(ErrorCode::kData, [&] { parse_settings(yaml, "c.yaml"); });
  };
  EXPECT_EQ(refused("a: 1\nb: [\n").substr(0, 7), "c.yaml:");
  EXPECT_EQ(refused("- 1\n"), "c.yaml:1: not valid YAML: expected lines 'key: value'");
  EXPECT_EQ(refused("a: &x 1\nb: *x\n"), "c.yaml:2: not valid YAML: aliases (*name) are not read");
  std::string deep = "a: ";
  for (int i = 0; i < 10'000; ++i) deep += "{a: ";
  EXPECT_EQ(refused(deep), "c.yaml:1: not valid YAML: nested too deeply");
}

TEST(RunData, AFinishedRun) {
  const RunFolder folder;
  folder.write("run/config.yaml", kConfig);
  folder.write("run/summary.json", kSummary);
  const RunData run = read_run(folder.write("run/metrics.jsonl", lines_of({1, 5, 6})));
  EXPECT_TRUE(run.finished());
  EXPECT_EQ(run.name(), "run");
  const RunFacts facts = facts_of(run);
  EXPECT_EQ(facts.state, "finished");
  EXPECT_EQ(facts.env, "nowhere");
  EXPECT_EQ(facts.backend, "serial");  // what ran, not what was asked for
  EXPECT_EQ(facts.threads, 1);
  EXPECT_EQ(facts.num_envs, 8);
  EXPECT_EQ(facts.seed, 4);
  EXPECT_EQ(facts.steps, 300);
  EXPECT_EQ(facts.wall_s, 3.5);
  EXPECT_EQ(facts.steps_per_s, 100);
  EXPECT_EQ(facts.return_mean_100, 7);
  EXPECT_EQ(facts.eval_mean, 8);
  EXPECT_EQ(facts.eval_ci95, 0.5);
  EXPECT_EQ(facts.peak_rss_mb, 20);
  EXPECT_EQ(facts.machine, "X, 2 cores");
}

TEST(RunData, ARunThatIsNotFinished) {
  const RunFolder folder;
  folder.write("run/config.yaml", kConfig);
  const RunData run = read_run(folder.write(
      "run/metrics.jsonl", lines_of({1, 5, 6}) +
                               "{\"step\": 400, \"wall_s\": 5, \"memory/rss_mb\": 30, "
                               "\"eval/episodic_return\": 2, \"eval/ci95\": 0.25}\n"
                               "{\"step\": 500, \"wall_s\": 6, \"memory/rss_mb\": 29}\n{\"ste"));
  const RunFacts facts = facts_of(run);
  EXPECT_EQ(facts.state, "not finished");
  EXPECT_EQ(facts.backend, "threads");
  EXPECT_EQ(facts.threads, 2);
  EXPECT_EQ(facts.workers, 0) << "threads have none, whatever the settings say";
  EXPECT_EQ(facts.steps, 500);  // done, not asked for
  EXPECT_EQ(facts.wall_s, 6);
  EXPECT_DOUBLE_EQ(*facts.steps_per_s, 500.0 / 6);
  EXPECT_EQ(facts.return_mean_100, 6);
  EXPECT_EQ(facts.eval_mean, 2);
  EXPECT_EQ(facts.eval_ci95, 0.25);
  EXPECT_EQ(facts.peak_rss_mb, 30);
  EXPECT_EQ(facts.machine, "");
}

TEST(RunData, TheScoreOfSingleReturnsIsTheirMean) {
  const RunFolder folder;
  std::string csv = "step,charts/episodic_return\n";
  for (int i = 1; i <= 150; ++i) csv += fmt::format("{},{}\n", i, i);
  folder.write("peer.csv", csv);
  const RunData run = read_run(folder.path("peer.csv"));
  EXPECT_TRUE(run.from_csv);
  EXPECT_EQ(run.name(), "peer.csv");
  EXPECT_EQ(run.score()[1], 1.5);
  EXPECT_EQ(run.score()[149], 100.5);  // of 51 to 150
  EXPECT_EQ(facts_of(run).state, "table");
}

TEST(RunData, WhatIsNoRunIsSaid) {
  const RunFolder folder;
  const auto refused = [&](ErrorCode code, const std::string& name) {
    const std::string message = error_text(code, [&] { read_run(folder.path(name)); });
    const size_t at = message.find(folder.path());
    return at == message.npos ? message
                              : message.substr(0, at) + message.substr(at + folder.path().size());
  };
  EXPECT_EQ(refused(ErrorCode::kUsage, "none"), "there is no 'none'");
  folder.write("empty/other.txt", "");
  EXPECT_EQ(refused(ErrorCode::kUsage, "empty"),
            "'empty' is no run: it has no config.yaml, metrics.jsonl or summary.json");
  folder.write("note.txt", "");
  EXPECT_EQ(refused(ErrorCode::kUsage, "note.txt"),
            "'note.txt' is no run: expected a run directory or a .csv file");
  folder.write("bad/summary.json", "{\"steps\": ");
  EXPECT_EQ(refused(ErrorCode::kData, "bad"), "bad/summary.json: expected a JSON object");
  folder.write("list/summary.json", "[]");
  EXPECT_EQ(refused(ErrorCode::kData, "list"), "list/summary.json: expected a JSON object");
  folder.write("folder/metrics.jsonl/x", "");
  EXPECT_EQ(refused(ErrorCode::kData, "folder"),
            "cannot read folder/metrics.jsonl: not a regular file");
}

TEST(RunData, RequireMetrics) {
  const RunFolder folder;
  const RunData none = read_run(folder.write("a/config.yaml", kConfig));
  EXPECT_TRUE(error_text(ErrorCode::kData, [&] {
                require_metrics(none);
              }).ends_with("a/metrics.jsonl is missing"));
  const RunData empty = read_run(folder.write("b/metrics.jsonl", ""));
  EXPECT_TRUE(error_text(ErrorCode::kData, [&] {
                require_metrics(empty);
              }).ends_with("b/metrics.jsonl has no line yet"));
}

TEST(RunData, FieldsOfAnotherTypeAreNotKnown) {
  const RunFolder folder;
  const RunData run = read_run(folder.write(
      "run/summary.json", R"({"steps": "many", "algo": 7, "eval": [1], "machine": null})"));
  const RunFacts facts = facts_of(run);
  EXPECT_FALSE(facts.steps);
  EXPECT_FALSE(facts.eval_mean);
  EXPECT_EQ(facts.algo, "");
  EXPECT_EQ(facts.machine, "");
}

TEST(DistinctNames, AreAsShortAsTheyCanBe) {
  EXPECT_EQ(distinct_names({"runs/a", "runs/b/", "/x/c.csv"}),
            (std::vector<std::string>{"a", "b", "c.csv"}));
  EXPECT_EQ(distinct_names({"t1/seed0", "t2/seed0", "t2/seed1"}),
            (std::vector<std::string>{"t1/seed0", "t2/seed0", "seed1"}));
  EXPECT_EQ(distinct_names({"a", "./a", "b"}), (std::vector<std::string>{"a", "a (2)", "b"}));
}

}  // namespace
}  // namespace flotilla::test
