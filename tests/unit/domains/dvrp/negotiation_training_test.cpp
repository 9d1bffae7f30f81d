// Training in the negotiation: the same parameters for any number of threads, and a stopped run
// that goes on as if it had not been.
#include <gtest/gtest.h>

#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"

namespace flotilla::dvrp::test {
namespace {

// A rollout ends in the middle of the episodes.
RunConfig run_of(std::vector<std::string> more) {
  std::vector<std::string> overrides = {"num_envs=10",       "horizon=5",      "steps=400",
                                        "env.customers=8",   "net.hidden=16",  "ppo.epochs=2",
                                        "ppo.minibatches=2", "eval.episodes=0"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Config config = load_run_config(flotilla::test::shipped(), "dvrp", false, overrides);
  return RunConfig(env_of(flotilla::test::shipped(), config), config);
}

std::string trained(const std::vector<std::string>& layout) {
  Trainer trainer(run_of(layout));
  trainer.train(nullptr);
  return trainer.params_sha256();
}

TEST(NegotiationTraining, DoesNotDependOnTheThreads) {
  const std::string expected = trained({"backend=serial", "threads=1"});
  EXPECT_EQ(trained({"backend=serial", "threads=3"}), expected);
  for (const char* threads : {"threads=1", "threads=2", "threads=3"}) {
    EXPECT_EQ(trained({"backend=threads", threads}), expected) << threads;
  }
  EXPECT_NE(trained({"backend=serial", "threads=1", "seed=1"}), expected);
}

TEST(NegotiationTraining, GoesOnFromTheMiddleOfAnEpisode) {
  for (const char* reward : {"env.reward=marginal", "env.reward=temporal"}) {
    SCOPED_TRACE(reward);
    const RunConfig run = run_of({"backend=threads", "threads=2", reward});
    const std::string expected = trained({"backend=threads", "threads=2", reward});
    Trainer first(run);
    for (int i = 0; i < 3; ++i) first.iterate();
    Writer writer;
    first.save(writer);
    Trainer second(run);
    second.policy().set_parameters(first.policy().parameters());
    second.policy().set_optimiser(first.policy().optimiser());
    Reader reader(writer.buffer(), "saved");
    second.load(reader);
    second.train(nullptr);
    EXPECT_EQ(second.progress().steps, 400);
    EXPECT_EQ(second.params_sha256(), expected);
  }
}

}  // namespace
}  // namespace flotilla::dvrp::test
