// The training loop: the same parameters for any layout, first ratios of one, limits, and numbers
// that are none.
#include "flotilla/train/trainer.h"

#include <gtest/gtest.h>

#include "flotilla/core/system.h"
#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

std::vector<std::string> small(std::vector<std::string> more = {}) {
  std::vector<std::string> all = {"num_envs=12",      "horizon=16",        "steps=960",
                                  "net.hidden=16,16", "ppo.minibatches=2", "ppo.epochs=2"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Trainer, ParametersDoNotDependOnTheLayout) {
  for (const char* env : {"cartpole", "pendulum", "catch", "corners"}) {
    auto normalised = small({"net.normalise_obs=true", "normalise_reward=true"});
    if (env == std::string("corners")) normalised.emplace_back("explore.bonus=0.5");
    const std::string expected = trained(env, normalised);
    for (const std::vector<std::string>& layout : std::vector<std::vector<std::string>>{
             {"backend=serial", "threads=1"},
             {"backend=serial", "threads=3"},
             {"backend=threads", "threads=2"},
             {"backend=threads", "threads=3", "groups=2"},
             {"backend=processes", "workers=2", "threads=1"},
             {"backend=processes", "workers=3", "threads=2", "start_method=fork"}}) {
      if (!kCanFork && layout.size() == 4) continue;
      auto all = normalised;
      all.insert(all.end(), layout.begin(), layout.end());
      EXPECT_EQ(trained(env, all), expected) << env << ": " << layout[0] << " " << layout[1];
    }
    EXPECT_NE(trained(env, small({"seed=1"})), trained(env, small())) << env;
  }
}

TEST(Trainer, EvaluationsHaveNoReplicas) {
  const auto evaluated = [](const std::vector<std::string>& overrides) {
    const RunConfig run = run_config("cartpole", small(overrides));
    return Evaluator(run.type, run.env_config, run.eval).play(Trainer(run).policy(), false);
  };
  const Evaluation expected = evaluated({}), found = evaluated({"replicas=4"});
  EXPECT_GT(expected.std, 0);
  EXPECT_EQ(found.mean, expected.mean);
  EXPECT_EQ(found.std, expected.std);
}

// Its episodes never end.
class Endless {
 public:
  struct State {
    int32_t steps;
  };

  static Schema schema() { return {}; }
  explicit Endless(const Config&) {
    spec_.name = "endless";
    spec_.obs = ObsSpace::float32({0}, {1});
    spec_.action = ActionSpace::discrete(2);
  }

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng&) const { s = {}; }
  Outcome step(State& s, ActionRow, Rng&) const {
    ++s.steps;
    return {.reward = 1};
  }
  void observe(const State&, ObsRow row) const { row.f32()[0] = 0; }

 private:
  EnvSpec spec_;
};

TEST(Trainer, EvaluationsOfEndlessEpisodesEnd) {
  Registry registry;
  registry.add(env_type<Endless>("endless", "never ends"));
  const Config config = load_run_config(registry, "endless", true, small({"eval.episodes=2"}));
  const RunConfig run(env_of(registry, config), config);
  testing::internal::CaptureStderr();
  const Evaluation found =
      Evaluator(run.type, run.env_config, run.eval).play(Trainer(run).policy(), false);
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_EQ(found.episodes, 2);
  EXPECT_EQ(found.mean_length, kLongestEvaluated);
  EXPECT_EQ(found.mean, kLongestEvaluated);
  EXPECT_NE(warning.find("episodes were cut env=endless cut=\"2 of 2\" steps=100000"),
            std::string::npos)
      << warning;
}

TEST(Trainer, AStoppedRunGoesOnAsIfItHadNot) {
  for (const char* env : {"cartpole", "pendulum", "corners"}) {
    for (const char* backend : {"serial", "threads", "processes"}) {
      SCOPED_TRACE(std::string(env) + ", " + backend);
      const RunConfig run = run_config(
          env,
          small({"net.normalise_obs=true", "normalise_reward=true", "ppo.lr_schedule=linear",
                 "threads=2", "workers=2", std::string("backend=") + backend,
                 std::string("explore.bonus=") + (env == std::string("corners") ? "1" : "0")}));
      Trainer whole(run);
      whole.train(nullptr);

      Writer writer;
      Tensors parameters, optimiser;
      {
        Trainer first(run);
        first.iterate();
        first.iterate();
        first.save(writer);
        parameters = first.policy().parameters();
        optimiser = first.policy().optimiser();
      }
      Trainer second(run);
      second.iterate();  // whatever it was before is forgotten
      Reader reader(writer.buffer(), "saved");
      second.policy().set_parameters(parameters);
      second.policy().set_optimiser(optimiser);
      second.load(reader);
      EXPECT_TRUE(reader.at_end());
      second.train(nullptr);
      EXPECT_EQ(second.params_sha256(), whole.params_sha256());
      EXPECT_EQ(second.progress().steps, whole.progress().steps);
      EXPECT_EQ(second.progress().episodes, whole.progress().episodes);
      EXPECT_EQ(second.progress().return_mean, whole.progress().return_mean);
      EXPECT_EQ(second.progress().return_best, whole.progress().return_best);
    }
  }
}

TEST(Trainer, ABonusIsLearntFromAndNotReported) {
  Trainer plain(run_config("cartpole", small({"horizon=64"})));
  Trainer exploring(run_config("cartpole", small({"horizon=64", "explore.bonus=0.5"})));
  plain.iterate();
  exploring.iterate();
  ASSERT_GT(plain.progress().ended.count, 0);
  EXPECT_EQ(exploring.progress().ended.return_mean, plain.progress().ended.return_mean);
  EXPECT_NE(exploring.params_sha256(), plain.params_sha256());
}

TEST(Trainer, StepsAreRoundedUpToWholeUpdates) {
  Trainer trainer(run_config("cartpole", small({"steps=1000"})));
  int calls = 0;
  trainer.train([&](const Progress& progress) { EXPECT_EQ(progress.steps, 192 * ++calls); });
  EXPECT_EQ(trainer.progress().steps, 1152);
  EXPECT_EQ(trainer.progress().updates, 6);
}

TEST(Trainer, EpisodesEndARun) {
  Trainer trainer(run_config("cartpole", small({"steps=0", "episodes=50"})));
  trainer.train(nullptr);
  EXPECT_GE(trainer.progress().episodes, 50);
  EXPECT_LT(trainer.progress().episodes, 50 + 192);
}

TEST(Trainer, ADurationEndsARun) {
  Trainer trainer(run_config("cartpole", small({"steps=0", "duration_s=0.05"})));
  std::vector<double> walls;
  trainer.train([&](const Progress& progress) { walls.push_back(progress.wall_s); });
  EXPECT_GE(trainer.progress().wall_s, 0.05);
  for (size_t i = 0; i + 1 < walls.size(); ++i) EXPECT_LT(walls[i], 0.05) << "one more began";
}

TEST(Trainer, ADurationCountsWhatIsNoUpdate) {
  for (double s = 0.5;; s *= 4) {  // more where one update took as long
    ASSERT_LT(s, 100);
    Trainer trainer(run_config("cartpole", small({"steps=0", "duration_s=" + std::to_string(s)})));
    trainer.iterate();
    if (trainer.finished()) continue;
    while (trainer.timing().total_s() < s) trainer.evaluate();
    EXPECT_TRUE(trainer.finished());
    return;
  }
}

TEST(Trainer, TruncatedEpisodesBootstrap) {
  // Every episode is cut after 5 steps with reward 1 each: the value of a cart that never falls
  // is 1 / (1 - gamma) = 10 only if the cut is not taken for an end.
  Trainer trainer(
      run_config("cartpole", {"env.time_limit=5", "num_envs=32", "horizon=20", "steps=200000",
                              "ppo.gamma=0.9", "ppo.lr=0.003", "net.hidden=16", "backend=serial"}));
  trainer.train(nullptr);
  float upright[4] = {0, 0, 0, 0}, value = 0;
  trainer.policy().value(0, reinterpret_cast<const std::byte*>(upright), 1, &value);
  EXPECT_NEAR(value, 10, 0.5);
}

TEST(Trainer, AFailureLeavesNobodyAtWork) {
  // One group fails while the other still steps and the policy acts in it.
  for (int round = 0; round < 30; ++round) {
    Trainer trainer(run_config(
        "faulty",
        {"env.fault=throw", "env.fault_probability=0.002", "num_envs=64", "horizon=64", "threads=2",
         "groups=2", "backend=threads", "crash_dir=", "seed=" + std::to_string(round)}));
    EXPECT_THROW(trainer.train(nullptr), EnvFailure);
  }
}

TEST(Trainer, WhatIsNotANumberIsNamed) {
  const auto refusal = [](const std::vector<std::string>& overrides) {
    Trainer trainer(run_config("test_broken", overrides));
    return error_text(ErrorCode::kNumeric, [&] { trainer.train(nullptr); });
  };
  EXPECT_EQ(refusal(small({"horizon=32", "env.defect=nan_obs"})),
            "env 0 of 'test_broken': observation is nan at step 20 of the rollout");
  EXPECT_EQ(refusal(small({"horizon=32", "env.defect=nan_reward"})),
            "env 0 of 'test_broken': reward is nan at step 19 of the rollout");
  const std::vector<std::string> many = {"horizon=600", "num_envs=64", "threads=2"};
  for (const auto& [defect, text] : {std::pair("obs", "observation is nan at step 20"),
                                     std::pair("reward", "reward is nan at step 19")}) {
    std::vector<std::string> overrides = many;
    overrides.push_back(std::string("env.defect=nan_") + defect);
    EXPECT_EQ(refusal(small(overrides)),
              std::string("env 0 of 'test_broken': ") + text + " of the rollout");
  }
}

TEST(Trainer, RefusesWhatContradictsItself) {
  const auto refusal = [](const std::vector<std::string>& overrides) {
    return error_text(ErrorCode::kUsage,
                      [&] { Trainer trainer(run_config("cartpole", overrides)); });
  };
  EXPECT_NE(refusal(small({"ppo.minibatch_size=193"})).find("ppo.batch_size"), std::string::npos);
  EXPECT_NE(refusal(small({"ppo.epochs=0"})).find("ppo.n_epochs"), std::string::npos);
  EXPECT_NE(refusal(small({"net.hidden=16,0"})).find("net.hidden"), std::string::npos);
  EXPECT_NE(
      refusal(small({"steps=0"})).find("total_timesteps, episodes, iterations and duration_s"),
      std::string::npos);
  EXPECT_NE(refusal(small({"policy=fused", "net.hidden=512"})).find("hidden width 512"),
            std::string::npos);
  EXPECT_NE(refusal(small({"horizon=1000000", "num_envs=1000000"})).find("n_steps"),
            std::string::npos);
}

TEST(Trainer, AMaskOfAllZerosIsNamed) {
  Trainer trainer(run_config("test_broken", small({"env.defect=no_choice"})));
  const std::string text = error_text(ErrorCode::kEnvironment, [&] { trainer.train(nullptr); });
  EXPECT_EQ(text, "env 0 of 'test_broken': no choice is legal at step 20");
}

TEST(Timing, NamesTheBottleneck) {
  RunShape shape{.backend = "serial",
                 .policy = {.kind = "fused", .name = "fused avx2"},
                 .faster_updates = "lower ppo.epochs",
                 .num_envs = 8,
                 .threads = 1,
                 .workers = 0,
                 .cores = 4};
  Timing timing;
  timing.step_s = 8;
  timing.update_s = 2;
  EXPECT_EQ(bottleneck(timing, shape),
            "80 % of the time is stepping environments: to go faster, use backend=threads.");
  timing.update_s = 72;
  EXPECT_EQ(bottleneck(timing, shape),
            "90 % of the time is gradient descent: to go faster, raise threads from 1 towards the "
            "4 cores.");
  shape.policy = {.kind = "torch", .name = "torch", .memory = Memory::kCuda};
  EXPECT_EQ(bottleneck(timing, shape),
            "90 % of the time is gradient descent: to go faster, lower ppo.epochs or make the "
            "network smaller, if learning allows it.")
      << "neither threads nor kernels for CPUs help a GPU";
  timing = {.step_s = 1, .infer_s = 1, .wait_s = 1, .advantage_s = 1, .update_s = 1};
  EXPECT_EQ(bottleneck(timing, shape), "No single part takes more than a third of the time.");
}

// What follows advice must not be slower for it.
TEST(Timing, AdvisesNoThreadsWithoutCores) {
  RunShape shape{.backend = "threads",
                 .policy = {.kind = "fused", .name = "fused avx2"},
                 .faster_updates = "lower the epochs",
                 .num_envs = 8,
                 .threads = 2,
                 .workers = 0,
                 .cores = 4};
  const Timing timing{.step_s = 1, .update_s = 9};
  const auto said = [&](const CoreUse& use) { return bottleneck(timing, shape, use); };
  const std::string descent = "90 % of the time is gradient descent: to go faster, ";
  EXPECT_EQ(said({.wall_s = 10, .own_s = 19, .others_s = 0.5}),
            descent + "raise threads from 2 towards the 4 cores.");
  EXPECT_EQ(said({.wall_s = 10, .own_s = 19, .others_s = 10}),
            descent + "raise threads from 2 to 3: other programs hold the rest of the 4 cores.");
  EXPECT_EQ(said({.wall_s = 10, .own_s = 19, .others_s = 20}),
            descent + "lower the epochs or make the network smaller, if learning allows it.")
      << "there is no core for a third";
  EXPECT_EQ(said({.wall_s = 10, .own_s = 11, .others_s = 0}),
            descent + "lower the epochs or make the network smaller, if learning allows it.")
      << "two threads do the work of one";
  EXPECT_EQ(
      said({.wall_s = 10, .own_s = 12, .others_s = 28}),
      "Other programs held 2.8 of the 4 cores; this run had 1.2 where it could use 2: it goes "
      "faster without them.");
  EXPECT_EQ(said({.wall_s = 0.1, .own_s = 0.1, .others_s = 0.4}),
            descent + "raise threads from 2 towards the 4 cores.")
      << "too short to know";
}

TEST(Timing, AdvisesNoThreadsForShortSteps) {
  RunShape shape{.backend = "serial",
                 .policy = {.kind = "fused", .name = "fused avx2"},
                 .faster_updates = "",
                 .num_envs = 8,
                 .threads = 1,
                 .workers = 0,
                 .cores = 4,
                 .env_step_s = 5e-6};
  EXPECT_EQ(bottleneck({.step_s = 1}, shape),
            "100 % of the time is stepping environments: to go faster, use more envs per step "
            "(num_envs): there is little to do in each.");
  shape.env_step_s = 1e-3;
  EXPECT_EQ(bottleneck({.step_s = 1}, shape),
            "100 % of the time is stepping environments: to go faster, use backend=threads.");
  EXPECT_EQ(bottleneck({.step_s = 1}, shape, {.wall_s = 10, .own_s = 9, .others_s = 30}),
            "100 % of the time is stepping environments: to go faster, make the environment "
            "itself faster.");
}

TEST(Trainer, TheNumberOfThreadsThatLearnChangesNothing) {
  std::string expected;
  for (const char* threads : {"1", "2", "3", "0"}) {
    Trainer trainer(
        run_config("cartpole", small({"threads=2", std::string("learner_threads=") + threads})));
    trainer.train(nullptr);
    if (expected.empty()) expected = trainer.params_sha256();
    EXPECT_EQ(trainer.params_sha256(), expected) << threads;
    const int learning = trainer.shape().learner_threads;
    if (threads[0] != '0') {
      EXPECT_EQ(learning, threads[0] - '0');
    }
    EXPECT_GE(learning, 1);
    EXPECT_LE(learning, 3);
  }
}

TEST(Trainer, NoMoreThreadsLearnThanThereAreCpus) {
  const Trainer trainer(run_config("cartpole", small({"threads=64", "num_envs=64"})));
  EXPECT_EQ(trainer.shape().threads, 64);
  EXPECT_LE(trainer.shape().learner_threads, cpu_count());
}

}  // namespace
}  // namespace flotilla::test
