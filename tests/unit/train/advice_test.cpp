// Masks and advice: a policy acts and learns among the choices that are both legal and advised.
#include <gtest/gtest.h>

#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

RunConfig advised_run(std::vector<std::string> overrides) {
  for (const char* each : {"num_envs=12", "horizon=16", "steps=960", "net.hidden=16",
                           "ppo.minibatches=2", "ppo.epochs=2", "eval.episodes=30"}) {
    overrides.emplace_back(each);
  }
  return run_config("test_advised", overrides);
}

TEST(Advice, ThePolicyKeepsToItAndLearns) {
  std::string expected;
  for (const std::vector<std::string>& layout :
       std::vector<std::vector<std::string>>{{"backend=serial"},
                                             {"backend=threads", "threads=3", "groups=2"},
                                             {"backend=processes", "workers=2", "groups=2"}}) {
    SCOPED_TRACE(layout[0]);
    Trainer trainer(advised_run(layout));
    trainer.train([&](const Progress& progress) {
      EXPECT_EQ(progress.update.first_ratio_error, 0);
      if (progress.ended.count == 0) return;
      EXPECT_EQ(progress.ended.metrics[0], 0) << "unadvised choices";
    });
    if (expected.empty()) expected = trainer.params_sha256();
    EXPECT_EQ(trainer.params_sha256(), expected);
    const Evaluation found = trainer.evaluate(false);
    EXPECT_EQ(found.metrics[0], 0);
    EXPECT_EQ(found.episodes, 30);
  }
}

TEST(Advice, WithoutALegalChoiceIsRefused) {
  Trainer trainer(advised_run({"env.defect=clash"}));
  EXPECT_EQ(error_text(ErrorCode::kEnvironment, [&] { trainer.iterate(); }),
            "env 0 of 'test_advised': no choice is legal at step 0");
}

// The one array of an env that has advice alone is what the policy reads: nothing is copied.
TEST(Advice, AloneIsWrittenWhereThePolicyReads) {
  EnvSpec spec = registry().find("test_advised").spec(Config(Advised::schema()));
  spec.has_mask = false;
  ArenaLayout layout;
  Rollout rollout(layout, spec, 2, 3);
  const Arena arena(layout, Arena::Backing::kPrivate);
  rollout.attach(arena);
  EXPECT_EQ(rollout.first_view().mask, nullptr);
  EXPECT_EQ(rollout.first_view().advice, rollout.mask);
  EXPECT_EQ(rollout.view(1).mask, nullptr);
  EXPECT_EQ(rollout.view(1).advice, rollout.mask + rollout.row(2, 0) * Advised::kChoices);
}

}  // namespace
}  // namespace flotilla::test
