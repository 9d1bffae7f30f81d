// Compliance and the reward for it, on recorded games, against numbers of the earlier system.
#include "flotilla/domains/cage2/compliance.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/recording.h"
#include "flotilla/domains/workflow/orders.h"
#include "support/golden.h"
#include "unit/domains/cage2/files.h"

namespace flotilla::cage2 {
namespace {

namespace fs = std::filesystem;

std::vector<RecordedEpisode> episodes_of(const std::string& name) {
  Recording recording(golden_folder() / (name + ".jsonl.gz"));
  std::vector<RecordedEpisode> episodes;
  while (auto episode = recording.next()) episodes.push_back(std::move(*episode));
  return episodes;
}

std::string digits(const workflow::Order& order) {
  std::string text;
  for (const int type : order) text += static_cast<char>('0' + type);
  return text;
}

struct Judged {
  int fixes, compliant;
  std::vector<double> alignment;  // of every step
};

Judged judge(const RecordedEpisode& episode, const std::string& workflow, const char* rule) {
  Config config(Cage2::schema());
  config.set("workflow", workflow);
  config.set("compliance", rule);
  const Cage2 env(config);
  State state{};
  RecordedSource source;
  const Rules rules;
  Simulator(state, rules, source).reset(episode.red);
  Judged judged{};
  for (const RecordedStep& step : episode.steps) {
    source.set(step.choices);
    const int cost_before = state.cost;
    const Outcome outcome = env.play(state, step.blue_action, source);
    const double own = -(state.cost - cost_before) / 10.0;
    judged.alignment.push_back(static_cast<double>(outcome.reward) - own);
  }
  judged.fixes = state.fixes;
  judged.compliant = state.compliant;
  return judged;
}

TEST(Compliance, OfRecordedGames) {
  const Json vectors = test::golden_json("cage2/compliance_vectors.json");
  ASSERT_EQ(vectors.size(), 270u);
  const workflow::Orders orders(kUnitTypes);
  std::map<std::string, std::vector<RecordedEpisode>> games;
  for (const Json& vector : vectors) {
    const auto file = vector[0].get<std::string>();
    if (!games.contains(file)) games[file] = episodes_of(file);
    const RecordedEpisode& episode = games[file].at(vector[1].get<size_t>());
    const std::string workflow = digits(orders[vector[2].get<int>()]);
    for (const size_t rule : {0, 1}) {
      const Judged judged = judge(episode, workflow, rule == 0 ? "history" : "state");
      EXPECT_EQ(judged.fixes, vector[3].get<int>()) << vector.dump();
      EXPECT_EQ(judged.compliant, vector[4 + rule].get<int>()) << vector.dump();
      std::vector<double> expected(40);
      for (const Json& each : vector[6 + rule]) {
        expected[each[0].get<size_t>()] = each[1].get<double>();
      }
      for (size_t t = 0; t < 40; ++t) {
        EXPECT_NEAR(judged.alignment[t], expected[t], 2e-5) << vector.dump() << " step " << t;
      }
    }
  }
}

TEST(Compliance, UnderTheStateRuleThereAreSixteenWorkflows) {
  const workflow::Orders orders(kUnitTypes);
  std::set<std::vector<bool>> functions;
  for (int i = 0; i < orders.size(); ++i) {
    Workflow workflow{};
    std::ranges::copy(orders[i], workflow.begin());
    std::vector<bool> judgements;
    // A user is always compromised, the Defender never.
    for (unsigned compromised = 0; compromised < 32; ++compromised) {
      if ((compromised & (1u << kUserUnit)) == 0 || (compromised & (1u << kDefenderUnit)) != 0)
        continue;
      for (int type = 0; type < kUnitTypes; ++type) {
        judgements.push_back(keeps_state(workflow, type, compromised));
      }
    }
    functions.insert(judgements);
  }
  EXPECT_EQ(functions.size(), 16u);
}

TEST(Compliance, WithoutAFixThereIsNone) {
  EXPECT_EQ(compliance(0, 0), 0.5);
  EXPECT_EQ(compliance(4, 3), 0.75);
}

}  // namespace
}  // namespace flotilla::cage2
