// Actors that run ahead of the learner: the same parameters for any layout where the schedule is
// fixed, those of a slow twin, going on from a checkpoint to the bit, and failures.
#include "flotilla/train/actors.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <thread>

#include "flotilla/core/alloc_count.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/train/collector.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"
#include "support/batch.h"
#include "support/build.h"
#include "support/error_text.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

const Overrides kImpala = {"algo=impala",       "num_envs=12",        "n_steps=16",
                           "steps=1920",        "net.hidden=16,16",   "impala.minibatches=2",
                           "impala.n_epochs=2", "normalize_obs=true", "normalize_reward=true"};
const Overrides kAppo = {"algo=appo",       "num_envs=12",        "n_steps=16",
                         "steps=1920",      "net.hidden=16,16",   "appo.minibatches=2",
                         "appo.n_epochs=2", "normalize_obs=true", "normalize_reward=true"};

Overrides fixed(const Overrides& algorithm, int lag, const Overrides& more = {}) {
  return with(with(algorithm,
                   {"backend=actors", "async.schedule=fixed", "async.lag=" + std::to_string(lag)}),
              more);
}

// Without a lag actors wait for the learner, as collecting in turn does.
TEST(Actors, WithoutLagTheyAreTheOtherBackEnds) {
  for (const char* env : {"cartpole", "pendulum", "corners"}) {
    for (const Overrides& algorithm : {kImpala, kAppo}) {
      const std::string expected = trained(env, with(algorithm, {"backend=serial", "threads=1"}));
      EXPECT_EQ(trained(env, fixed(algorithm, 0, {"threads=2", "actors=3"})), expected) << env;
      EXPECT_NE(trained(env, fixed(algorithm, 1, {"threads=2", "actors=3"})), expected) << env;
    }
  }
}

TEST(Actors, OfAFixedScheduleDependOnNoLayout) {
  for (const int lag : {1, 3}) {
    for (const Overrides& algorithm : {kImpala, kAppo}) {
      const std::string expected =
          trained("catch", fixed(algorithm, lag, {"threads=1", "actors=1"}));
      for (const Overrides& layout : std::vector<Overrides>{{"threads=1", "actors=5"},
                                                            {"threads=2", "actors=2"},
                                                            {"threads=2", "actors=12"},
                                                            {"threads=3", "actors=4"}}) {
        EXPECT_EQ(trained("catch", fixed(algorithm, lag, layout)), expected)
            << layout[0] << ", " << layout[1];
      }
    }
  }
}

TEST(Actors, WhoseEnvsAreInWorkersCollectTheSame) {
  for (const Overrides& algorithm : {kImpala, kAppo}) {
    const std::string expected = trained("catch", fixed(algorithm, 1, {"threads=1", "actors=1"}));
    for (const Overrides& layout :
         std::vector<Overrides>{{"threads=1", "actors=1", "workers=1"},
                                {"threads=2", "actors=4", "workers=2"},
                                {"threads=3", "actors=5", "workers=3", "start_method=fork"}}) {
      EXPECT_EQ(trained("catch", fixed(algorithm, 1, layout)), expected) << layout[1];
    }
  }
}

// Acts with the policy of so many updates ago.
class Delayed final : public ActingPolicy {
 public:
  explicit Delayed(const Policy& policy) : ActingPolicy(policy.spec()) {}
  Implementation implementation() const override { return now->implementation(); }
  void act(int part, const ActRows& rows, const Draw& draw) const override {
    now->act(part, rows, draw);
  }
  void value(int part, const std::byte* obs, int count, float* out) const override {
    now->value(part, obs, count, out);
  }
  std::shared_ptr<const ActingPolicy> now;
};

TEST(Actors, CollectWithThePolicyOfTheirLag) {
  constexpr int kLag = 2, kUpdates = 6;
  const RunConfig run =
      run_config("cartpole", fixed({"algo=impala", "num_envs=12", "n_steps=16",
                                    "normalize_reward=true", "total_timesteps=0", "iterations=6"},
                                   kLag, {"threads=2"}));
  Trainer trainer(run);
  trainer.train(nullptr);

  ArenaLayout layout;
  Rollout rollout(layout, run.spec, run.vec.num_envs, run.n_steps);
  const auto policy = make_policy(run.network, {.kind = run.policy, .seed = run.seed});
  policy->reward_normaliser() =
      RewardNormaliser(static_cast<size_t>(run.vec.num_envs), run.algo_config.get_number("gamma"));
  ThreadPool pool(1);
  const auto learner = run.algorithm.make(run.algo_config, *policy, pool, run.seed);
  const auto vec = make_vec_env(run.type, run.env_config, serial(run.vec.num_envs), layout);
  rollout.attach(vec->arena());
  Delayed delayed(*policy);
  Collector collector(*vec, rollout, delayed, run.algorithm.needs, run.seed);
  collector.reset(run.env_seed);
  std::vector<std::shared_ptr<const ActingPolicy>> snapshots;
  const auto rows = static_cast<size_t>(rollout.rows());
  std::vector<uint8_t> ended(rows);
  std::vector<float> scaled(rows);
  for (int u = 0; u < kUpdates; ++u) {
    snapshots.push_back(policy->snapshot());
    delayed.now = snapshots[static_cast<size_t>(std::max(0, u - kLag))];
    collector.collect(0);
    for (size_t i = 0; i < rows; ++i) ended[i] = rollout.terminated[i] | rollout.truncated[i];
    RewardNormaliser& normaliser = policy->reward_normaliser();
    normaliser.update(run.n_steps, rollout.reward, ended.data(), rollout.valid);
    for (size_t i = 0; i < rows; ++i) {
      scaled[i] = std::clamp(rollout.reward[i] * normaliser.scale(), -RewardNormaliser::kClip,
                             RewardNormaliser::kClip);
    }
    learner->learn(
        rollout.batch(run.algorithm.needs, scaled.data(), 0),
        {.fraction = static_cast<double>(u) / kUpdates, .updates = static_cast<uint64_t>(u)});
    rollout.carry_over();
  }
  EXPECT_EQ(sha256(policy->parameters()), trainer.params_sha256());
}

TEST(Actors, AStoppedRunGoesOnAsIfItHadNot) {
  for (const int lag : {0, 1, 2}) {
    for (const char* env : {"cartpole", "pendulum", "corners"}) {
      SCOPED_TRACE(std::string(env) + ", lag " + std::to_string(lag));
      const RunConfig run = run_config(env, fixed(kAppo, lag, {"threads=2", "actors=4"}));
      Trainer whole(run);
      whole.train(nullptr);
      Writer writer;
      Tensors parameters, optimiser;
      {
        Trainer first(run);
        for (int i = 0; i < 3; ++i) first.iterate();
        first.save(writer);
        parameters = first.policy().parameters();
        optimiser = first.policy().optimiser();
        first.iterate();  // it can go on, too
      }
      // Another number of actors and threads makes no difference.
      Trainer second(run_config(env, fixed(kAppo, lag, {"threads=3", "actors=3"})));
      second.iterate();
      Reader reader(writer.buffer(), "saved");
      second.policy().set_parameters(parameters);
      second.policy().set_optimiser(optimiser);
      second.load(reader);
      EXPECT_TRUE(reader.at_end());
      second.train(nullptr);
      EXPECT_EQ(second.params_sha256(), whole.params_sha256());
      EXPECT_EQ(second.progress().steps, whole.progress().steps);
      EXPECT_EQ(second.progress().episodes, whole.progress().episodes);
      EXPECT_EQ(second.progress().return_best, whole.progress().return_best);
    }
  }
}

// An actor that has just ended its last rollout, and is still in a thread's hands, is at its end.
TEST(Actors, PauseAtAnyMoment) {
  for (const Overrides& schedule :
       {fixed(kAppo, 0), fixed(kAppo, 2), with(kAppo, {"backend=actors", "async.ring=1"})}) {
    Trainer trainer(
        run_config("cartpole", with(schedule, {"threads=3", "num_envs=4", "actors=4", "n_steps=2",
                                               "net.hidden=4", "appo.n_epochs=1"})));
    for (int i = 0; i < (kSanitized ? 100 : 400); ++i) {
      trainer.iterate();
      Writer writer;
      trainer.save(writer);
    }
  }
}

double metric(const Progress& progress, const std::string& name) {
  for (const auto& [each, value] : progress.update.metrics) {
    if (each == name) return value;
  }
  ADD_FAILURE() << name;
  return 0;
}

TEST(Actors, OfAFreeScheduleStayWithinTheRing) {
  Trainer trainer(
      run_config("cartpole", with(kImpala, {"backend=actors", "threads=3", "async.ring=3"})));
  int64_t updates = 0;
  while (!trainer.finished()) {
    trainer.iterate();
    EXPECT_EQ(trainer.progress().steps, 12 * 16 * ++updates);
    EXPECT_LE(metric(trainer.progress(), "async/lag_max"), 3);
    EXPECT_LE(metric(trainer.progress(), "async/lag"), metric(trainer.progress(), "async/lag_max"));
    if (updates == 4) {
      Writer writer;
      trainer.save(writer);
      Reader reader(writer.buffer(), "saved");
      trainer.load(reader);
    }
  }
}

size_t saved_bytes(const Trainer& trainer) {
  Writer writer;
  trainer.save(writer);
  return writer.buffer().size();
}

// What a resumed run can collect anew, with a later policy, is not worth its room in a checkpoint.
TEST(Actors, OfAFreeScheduleSaveNoRollouts) {
  // The observations alone of a row of 12 envs.
  constexpr size_t kLeast = size_t{12} * 3 * sizeof(float);
  const Overrides ahead = {"async.ring=3", "n_steps=256", "steps=30720", "threads=2"};
  Trainer free(run_config("pendulum", with(kAppo, with(ahead, {"backend=actors"}))));
  Trainer kept(run_config("pendulum", fixed(kAppo, 2, ahead)));
  for (int i = 0; i < 3; ++i) {
    free.iterate();
    kept.iterate();
    EXPECT_LT(saved_bytes(free) + 3 * 256 * kLeast, saved_bytes(kept));
  }
}

// The step after the last one would throw.
TEST(Actors, OfAFreeScheduleCollectNothingBehindTheLastUpdate) {
  for (const Overrides& limit : {Overrides{"steps=2048"}, Overrides{"steps=0", "iterations=16"}}) {
    Trainer trainer(run_config(
        "faulty", with(limit, {"algo=appo", "backend=actors", "threads=3", "num_envs=8",
                               "n_steps=16", "actors=4", "async.ring=3", "net.hidden=16,16",
                               "appo.n_epochs=5", "env.fault=throw", "env.fault_step=257",
                               "env.time_limit=1000", "crash_dir="})));
    trainer.train(nullptr);
    EXPECT_EQ(trainer.progress().steps, 2048) << limit.back();
    Writer writer;
    trainer.save(writer);
  }
}

TEST(Actors, LearnCartPole) {
  for (const char* algorithm : {"impala", "appo"}) {
    const RunConfig run = run_config(
        "cartpole",
        {"algo=" + std::string(algorithm), "backend=actors", "threads=2", "num_envs=32",
         "n_steps=32", kSanitized ? "steps=8000" : "steps=200000", "normalize_reward=true",
         "eval.episodes=20", std::string(algorithm) + ".learning_rate=0.001",
         std::string(algorithm) + ".learning_rate_schedule=linear",
         std::string(algorithm) + ".n_epochs=4", std::string(algorithm) + ".minibatches=4",
         std::string(algorithm) + ".max_grad_norm=0.5"});
    Trainer trainer(run);
    trainer.train(nullptr);
    if (kSanitized) continue;  // too short to learn: it is there for the sanitizers
    EXPECT_GT(trainer.evaluate().mean, 300) << algorithm;
  }
}

TEST(Actors, SayWhereTheirTimeGoes) {
  Trainer trainer(run_config("cartpole", with(kAppo, {"backend=actors", "threads=2"})));
  std::map<std::string, double> total;  // actors may be ready long before the last update
  while (!trainer.finished()) {
    trainer.iterate();
    for (const char* part : {"actor_act_s", "actor_step_s", "gradient_s", "apply_s"}) {
      total[part] += metric(trainer.progress(), "time/" + std::string(part));
    }
  }
  for (const auto& [part, seconds] : total) EXPECT_GT(seconds, 0) << part;
  const Progress& progress = trainer.progress();
  double shares = 0;
  for (const char* share : {"0", "1", "2", "3", "4_or_more"}) {
    shares += metric(progress, "async/lag_" + std::string(share));
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  for (const char* part : {"slot", "weights", "thread"}) {
    EXPECT_GE(metric(progress, "time/actor_wait_" + std::string(part) + "_s"), 0) << part;
  }
  EXPECT_LT(metric(progress, "time/actor_hand_over_s"), 1);
}

// A learner that is slow leaves actors without a rollout to write to, or without a policy.
TEST(Actors, WaitForWhatIsMissing) {
  const Overrides slow_learner = {"algo=appo",  "num_envs=2",     "n_steps=64", "appo.n_epochs=20",
                                  "steps=2560", "backend=actors", "actors=2",   "threads=1"};
  for (const auto& [schedule, waits] :
       {std::pair<Overrides, const char*>{{"async.ring=1"}, "time/actor_wait_slot_s"},
        {{"async.schedule=fixed", "async.lag=0"}, "time/actor_wait_weights_s"}}) {
    Trainer trainer(run_config("cartpole", with(slow_learner, schedule)));
    trainer.train(nullptr);
    EXPECT_GT(metric(trainer.progress(), waits), 0) << waits;
  }
}

// Workers step on while the learner is busy with something that calls no other thread.
TEST(Actors, HearWorkersWhileTheLearnerIsBusy) {
  Trainer trainer(run_config(
      "faulty", {"algo=impala", "env.sleep_ms=10", "num_envs=4", "n_steps=8", "total_timesteps=0",
                 "iterations=13", "backend=actors", "actors=2", "workers=2", "threads=2"}));
  trainer.iterate();
  int found_complete = 0;
  constexpr int kUpdates = 12;
  for (int u = 0; u < kUpdates; ++u) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));  // a rollout of it takes 160
    const double before = trainer.timing().wait_s;
    trainer.iterate();
    found_complete += trainer.timing().wait_s - before < 0.02 ? 1 : 0;
  }
  EXPECT_GT(found_complete, kUpdates / 2);  // another program may have had the cores
}

const Overrides kA3c = {"algo=a3c",   "backend=actors",   "num_envs=12",     "n_steps=16",
                        "steps=3840", "net.hidden=16,16", "a3c.lambda=0.95", "crash_dir="};

// One thread that has all envs: the gradient of IMPALA's first pass, and its RMSprop.
TEST(A3c, OfOneThreadIsImpala) {
  for (const char* env : {"cartpole", "pendulum", "corners"}) {
    Trainer alone(run_config(env, with(kA3c, {"threads=1", "actors=1", "async.ring=1"})));
    Trainer twin(run_config(
        env, {"algo=impala", "backend=serial", "num_envs=12", "n_steps=16", "steps=3840",
              "threads=1", "net.hidden=16,16", "impala.lambda=0.95", "impala.learning_rate=7e-4"}));
    alone.train(nullptr);
    twin.train(nullptr);
    EXPECT_EQ(alone.progress().episodes, twin.progress().episodes) << env;
    const Tensors found = alone.policy().parameters(), expected = twin.policy().parameters();
    for (size_t i = 0; i < found.size(); ++i) {
      for (size_t k = 0; k < found[i].elements(); ++k) {
        ASSERT_NEAR(found[i].data[k], expected[i].data[k], 1e-4) << env << " " << found[i].name;
      }
    }
  }
}

TEST(A3c, ThreadsLearnFromAllSteps) {
  Trainer trainer(run_config("cartpole", with(kA3c, {"threads=3", "actors=6"})));
  double updates = 0;
  while (!trainer.finished()) {
    trainer.iterate();
    updates += metric(trainer.progress(), "async/updates");
    EXPECT_GE(metric(trainer.progress(), "async/lag_max"), metric(trainer.progress(), "async/lag"));
  }
  Writer writer;
  trainer.save(writer);  // all actors come to the end of the same rollout
  EXPECT_EQ(trainer.progress().steps, 3840);
  EXPECT_GE(updates, 6 * 3840 / (12 * 16));
}

// Gradients that were applied are not computed again for rollouts that a checkpoint left out.
TEST(A3c, KeepsWhatActorsHaveLearntFrom) {
  Trainer trainer(run_config("cartpole", with(kA3c, {"threads=3", "actors=6", "async.ring=3"})));
  double updates = 0;
  while (!trainer.finished()) {
    trainer.iterate();
    updates += metric(trainer.progress(), "async/updates");
    Writer writer;
    trainer.save(writer);
    Reader reader(writer.buffer(), "saved");
    trainer.load(reader);
  }
  EXPECT_EQ(updates, 6 * 3840 / (12 * 16));
}

TEST(A3c, AStoppedRunGoesOnAsIfItHadNot) {
  const RunConfig run =
      run_config("cartpole", with(kA3c, {"threads=1", "actors=1", "async.ring=1"}));
  Trainer whole(run);
  whole.train(nullptr);
  Writer writer;
  Trainer first(run);
  for (int i = 0; i < 5; ++i) first.iterate();
  first.save(writer);
  Trainer second(run);
  Reader reader(writer.buffer(), "saved");
  second.policy().set_parameters(first.policy().parameters());
  second.load(reader);
  EXPECT_TRUE(reader.at_end());
  second.train(nullptr);
  Writer rest;
  whole.save(rest);
  second.save(rest);
  EXPECT_EQ(second.params_sha256(), whole.params_sha256());
}

TEST(A3c, LearnsCartPole) {
  Trainer trainer(run_config("cartpole-a3c", {kSanitized ? "steps=8000" : "steps=200000"}));
  trainer.train(nullptr);
  if (kSanitized) return;  // too short to learn: it is there for the sanitizers
  EXPECT_GT(trainer.evaluate().mean, 150);
}

TEST(A3c, Refuses) {
  const auto refusal = [](const Overrides& more) {
    return error_text(ErrorCode::kUsage, [&] { run_config("cartpole", with(kA3c, more)); });
  };
  EXPECT_EQ(refusal({"device=cuda"}),
            "device: expected cpu: the threads of a3c share parameters in the memory of the CPU "
            "(appo and impala learn on a GPU)");
  EXPECT_EQ(refusal({"backend=threads"}), "backend: expected actors: a3c learns in them");
  EXPECT_EQ(refusal({"workers=2"}), "workers: expected 0: the threads of a3c step their own envs");
  EXPECT_EQ(refusal({"async.schedule=fixed"}),
            "async.schedule: expected free: a3c depends on timing by design");
  EXPECT_EQ(refusal({"normalize_reward=true"}),
            "normalize_reward: expected false: the threads of a3c learn before the rewards of all "
            "are known (appo scales them)");
  EXPECT_EQ(
      refusal({"normalize_obs=true"}),
      "normalize_obs: expected false: the threads of a3c share parameters, not the moments of "
      "observations (appo has both)");
}

// More steps cost no more allocations: what there is, is the learner's.
TEST(Actors, AllocateNothingPerStep) {
  if (!can_count_allocations()) GTEST_SKIP() << "not in this build";
  const auto allocations = [](int steps) {
    Trainer trainer(run_config(
        "pendulum", {"algo=appo", "backend=actors", "threads=2", "actors=4", "num_envs=8",
                     "n_steps=" + std::to_string(steps), "appo.minibatches=1", "appo.n_epochs=1"}));
    trainer.iterate();
    trainer.iterate();
    const uint64_t before = allocation_count();
    trainer.iterate();
    return static_cast<int64_t>(allocation_count() - before);
  };
  EXPECT_LT(std::abs(allocations(48) - allocations(16)), 32);  // one a step would be 128
}

TEST(Actors, ErrorsOfAnEnvComeOut) {
  const Overrides faulty = {"algo=impala",    "num_envs=8", "n_steps=8", "steps=8000",
                            "backend=actors", "threads=2",  "crash_dir="};
  Trainer stops(run_config("faulty", with(faulty, {"env.fault=throw"})));
  EXPECT_NE(error_text(ErrorCode::kEnvironment, [&] { stops.train(nullptr); }), "no error");
  Trainer goes_on(run_config(
      "faulty",
      with(faulty, {"env.fault=throw", "env.fault_probability=0.005", "on_env_failure=restart"})));
  goes_on.train(nullptr);
  EXPECT_GT(goes_on.progress().env_failures, 0);
}

TEST(Actors, ARingThatDoesNotFitIsRefusedWithOneThatDoes) {
  const RunConfig run = run_config("cartpole", {"algo=appo", "backend=actors", "num_envs=4096",
                                                "n_steps=200000", "async.ring=65"});
  const std::string why = error_text(ErrorCode::kUsage, [&] { Trainer trainer(run); });
  EXPECT_TRUE(why.starts_with("a ring of 65 rollouts, ")) << why;
  EXPECT_TRUE(why.find("available: async.ring=") != why.npos ||
              why.find("lower n_steps or num_envs") != why.npos)
      << why;
}

TEST(Actors, AreTwoOnAGpuWhereTheirEnvsAreInThisProcess) {
  const auto actors = [](const Overrides& more) {
    Overrides overrides = {"algo=appo", "backend=actors", "num_envs=64", "threads=2"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return run_config("cartpole", overrides).vec.groups;
  };
  EXPECT_EQ(actors({}), 4);
  EXPECT_EQ(actors({"device=cuda"}), 2);
  EXPECT_EQ(actors({"device=cuda", "num_envs=1"}), 1);
  EXPECT_EQ(actors({"device=cuda", "actors=3"}), 3);
  EXPECT_EQ(actors({"device=cuda", "workers=2"}), 4);
}

TEST(Actors, RefuseWhatCannotBe) {
  const auto refusal = [](const std::string& env, const Overrides& overrides) {
    return error_text(ErrorCode::kUsage, [&] { run_config(env, overrides); });
  };
  EXPECT_EQ(refusal("cartpole", {"backend=actors"}),
            "backend: expected serial, threads or processes, not actors: ppo learns from what the "
            "present policy did (algo=appo and algo=impala allow for others)");
  EXPECT_EQ(refusal("cartpole", {"algo=appo", "backend=actors", "num_envs=4", "actors=5"}),
            "actors: expected an integer from 1 to 4 (num_envs), got 5");
  EXPECT_EQ(refusal("cartpole", {"algo=appo", "backend=actors", "actors=4", "workers=5"}),
            "workers: expected an integer from 1 to 4 (actors), got 5");
}

}  // namespace
}  // namespace flotilla::test
