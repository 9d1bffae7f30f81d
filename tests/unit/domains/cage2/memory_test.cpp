// What blue remembers (obs=memory), and episodes whose version is drawn.
#include <gtest/gtest.h>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/observation.h"

namespace flotilla::cage2 {
namespace {

Cage2 env_with(const std::vector<std::pair<std::string, std::string>>& settings) {
  Config config(Cage2::schema());
  for (const auto& [key, value] : settings) config.set(key, value);
  return Cage2(config);
}

void set_activity(State& s, int host, unsigned activity) {
  s.table = uint64_t{activity} << (4 * static_cast<unsigned>(host) + 2);
}

// The numbers of the first host in the order of decoys, Enterprise0.
std::vector<float> remembered(const State& s) {
  std::vector<float> obs(kMemoryObs);
  write_memory(s, obs);
  return {obs.begin() + kFullObs, obs.begin() + kFullObs + 5};
}

TEST(Memory, TellsWhenAndWhatRedSaw) {
  State s{};
  EXPECT_EQ(remembered(s), (std::vector<float>{0, 0, 0, 0, 0}));
  note_memory(kSleep, s);
  EXPECT_EQ(remembered(s), (std::vector<float>{0, 0, 0, 0, 0}));

  s.hosts[kEnterprise0].decoys = 0b101;
  set_activity(s, kEnterprise0, kScan);
  note_memory(kSleep, s);
  EXPECT_EQ(remembered(s), (std::vector<float>{1, 0, 0, 0.5F, 0.5F}));

  s.hosts[kEnterprise0].decoys = 0;  // red is not told
  set_activity(s, kEnterprise0, kExploitActivity);
  note_memory(blue_index(kRestore, kEnterprise0), s);
  EXPECT_EQ(remembered(s), (std::vector<float>{0.8F, 1, 1, 0.5F, 0.5F}));

  set_activity(s, kEnterprise0, kNoActivity);
  note_memory(blue_index(kRemove, kEnterprise1), s);
  EXPECT_EQ(remembered(s), (std::vector<float>{0.8F * 0.8F, 0.8F, 0.8F, 0.5F, 0.5F}));

  s.hosts[kEnterprise0].decoys = 0b1;
  set_activity(s, kEnterprise0, kScan);
  note_memory(blue_index(kAnalyse, kEnterprise0), s);  // fixes nothing
  EXPECT_EQ(remembered(s), (std::vector<float>{1, 0.8F * 0.8F, 0.8F * 0.8F, 0.5F, 0.25F}));
}

TEST(Memory, AnOldEventIsNotForgotten) {
  State s{};
  set_activity(s, kEnterprise0, kScan);
  note_memory(kSleep, s);
  set_activity(s, kEnterprise0, kNoActivity);
  for (int i = 0; i < 1000; ++i) note_memory(kSleep, s);
  EXPECT_GT(remembered(s)[0], 0);
  EXPECT_LT(remembered(s)[0], 1e-20F);
}

TEST(Version, OfAnEpisodeIsDrawnAndPlayed) {
  const Cage2 both = env_with({{"version", "both"}, {"red", "attackers"}});
  const Cage2 head = env_with({{"version", "head"}}), legacy = env_with({{"version", "legacy"}});
  Rng rng(3, 0);
  int of_legacy = 0, of_meander = 0, differing = 0;
  for (int episode = 0; episode < 200; ++episode) {
    State s{};
    both.reset(s, rng);
    ASSERT_NE(s.red, RedAgent::kSleep);
    of_legacy += s.legacy;
    of_meander += s.red == RedAgent::kMeander;
    State same = s, other = s;
    same.legacy = other.legacy = false;  // these envs have one version
    Rng of_same = rng, of_other = rng;
    for (int i = 0; i < 60; ++i) {
      const int32_t action = 2 + static_cast<int32_t>(rng.below(143));
      of_same = of_other = rng;
      both.step(s, ActionRow(&action), rng);
      (s.legacy ? legacy : head).step(same, ActionRow(&action), of_same);
      (s.legacy ? head : legacy).step(other, ActionRow(&action), of_other);
      ASSERT_EQ(same.table, s.table);
      ASSERT_EQ(same.cost, s.cost);
    }
    differing += other.table != s.table || other.cost != s.cost;
  }
  EXPECT_NEAR(of_legacy, 100, 30);
  EXPECT_NEAR(of_meander, 100, 30);
  EXPECT_GT(differing, 5);  // the versions do differ
}

}  // namespace
}  // namespace flotilla::cage2
