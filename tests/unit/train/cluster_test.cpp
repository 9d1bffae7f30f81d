// Several processes that train one run: parameters, metrics and checkpoints are those of one
// process with the same blocks, whatever their number, and a run can change its number on the way.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/train/follower.h"
#include "flotilla/train/run.h"
#include "support/error_text.h"
#include "support/thread_team.h"
#include "unit/train/runs.h"

namespace flotilla::test {
namespace {

const Overrides kSmall = {"num_envs=12",      "horizon=32",          "steps=1536",
                          "net.hidden=16,16", "ppo.minibatches=3",   "ppo.epochs=2",
                          "ppo.blocks=12",    "backend=serial",      "eval.episodes=4",
                          "eval.every=2",     "checkpoint.every=768"};

class Cluster : public testing::Test {
 protected:
  ~Cluster() override { std::filesystem::remove_all(root_); }

  std::string folder(const std::string& name) const { return root_ + "/" + name; }

  // The parameters that a run in `name` ends with; every rank must have the same.
  std::string train(int ranks, const std::string& env, const Overrides& overrides,
                    const std::string& name) const {
    return together(ranks, [&](Collective& collective) {
      RunConfig config = run_config(env, overrides);
      config.cluster.collective = &collective;
      return std::make_unique<flotilla::Run>(config, folder(name));
    });
  }

  std::string resume(int ranks, const std::string& name, int64_t from_step,
                     const flotilla::Run::Adjust& adjust = {}) const {
    return together(ranks, [&](Collective& collective) {
      return flotilla::Run::resume(registry(), folder(name), adjust, from_step,
                                   built_in_algorithms(), {}, collective);
    });
  }

 private:
  template <class Open>
  static std::string together(int ranks, const Open& open) {
    std::vector<std::string> hashes(static_cast<size_t>(ranks));
    ThreadTeam(ranks).run([&](Collective& collective) {
      std::string& hash = hashes[static_cast<size_t>(collective.rank())];
      if (collective.rank() > 0) {
        Follower follower(registry(), built_in_algorithms(), collective);
        follower.follow();
        hash = follower.trainer()->params_sha256();
        return;
      }
      const std::unique_ptr<flotilla::Run> run = open(collective);
      run->train();
      run->finish();
      run->end();
      hash = run->trainer().params_sha256();
    });
    for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
    return hashes[0];
  }

  const std::string root_ =
      std::filesystem::temp_directory_path() / ("flotilla-cluster-" + std::to_string(getpid()));
};

// Every line of metrics.jsonl without the fields that are times.
std::string numbers_of(const std::string& path) {
  std::string text;
  const std::string all = read_whole_file(path + "/metrics.jsonl", 1 << 22);
  for (size_t from = 0; from < all.size();) {
    const size_t end = all.find('\n', from);
    const Json line = Json::parse(all.substr(from, end - from));
    for (const char* field :
         {"episodes", "charts/episodic_return", "losses/policy_loss", "losses/approx_kl",
          "losses/explained_variance", "losses/grad_norm", "eval/episodic_return"}) {
      if (const Json* value = line.find(field)) text += std::string(field) + value->dump() + " ";
    }
    from = end + 1;
  }
  return text;
}

TEST_F(Cluster, EndsWithTheBitsOfOneProcess) {
  const std::map<std::string, Overrides> cases = {
      {"plain", {}},
      {"normalised", {"normalize_obs=true", "normalize_reward=true"}},
      {"batch", {"ppo.normalize_advantage=batch", "ppo.clip_range_vf=0.2"}},
      {"separate",
       {"ppo.phases=separate", "net.shared=false", "ppo.value_epochs=3", "ppo.policy_epochs=2"}},
      {"returns", {"ppo.returns=monte_carlo"}},
      {"kl", {"ppo.target_kl=0.0001", "ppo.learning_rate=0.01"}},
      {"size", {"ppo.batch_size=100"}},
      {"threads", {"backend=threads", "threads=2"}},
      {"uneven", {"ppo.blocks=4"}},
  };
  for (const auto& [name, more] : cases) {
    const Overrides overrides = with(kSmall, more);
    const std::string expected = train(1, "cartpole", overrides, name + "1");
    for (const int ranks : {2, 3, 4}) {
      const std::string run = name + std::to_string(ranks);
      EXPECT_EQ(train(ranks, "cartpole", overrides, run), expected) << run;
      EXPECT_EQ(numbers_of(folder(run)), numbers_of(folder(name + "1"))) << run;
    }
  }
}

TEST_F(Cluster, LearnsFromBlocksAsFromOneWhereOneIsAll) {
  const Overrides one = with(kSmall, {"ppo.blocks=1"});
  EXPECT_EQ(train(1, "cartpole", one, "one"), trained("cartpole", one));
  EXPECT_NE(train(1, "cartpole", kSmall, "twelve"), trained("cartpole", one));
}

TEST_F(Cluster, OfBoxActionsAndTruncatedEpisodes) {
  const Overrides overrides = with(kSmall, {"normalize_reward=true", "time_limit=20"});
  const std::string expected = train(1, "pendulum", overrides, "one");
  EXPECT_EQ(train(3, "pendulum", overrides, "three"), expected);
}

TEST_F(Cluster, WritesTheCheckpointsOfOneProcess) {
  const Overrides overrides = with(kSmall, {"normalize_obs=true", "normalize_reward=true"});
  const std::string expected = train(1, "cartpole", overrides, "one");
  train(3, "cartpole", overrides, "three");
  const auto state = [&](const std::string& name) {
    return Checkpoints(folder(name)).read_state(768).run;
  };
  // Seconds are in it: what follows them, the states of all envs, is the same.
  const std::vector<std::byte> one = state("one"), three = state("three");
  ASSERT_EQ(one.size(), three.size());
  const auto tail = static_cast<ptrdiff_t>(one.size() / 2);
  EXPECT_TRUE(std::equal(one.end() - tail, one.end(), three.end() - tail));
  for (const int ranks : {1, 2, 4}) {
    std::filesystem::copy(folder("three"), folder("again" + std::to_string(ranks)),
                          std::filesystem::copy_options::recursive);
    EXPECT_EQ(resume(ranks, "again" + std::to_string(ranks), 768), expected) << ranks;
  }
}

TEST_F(Cluster, GoesThroughACurriculumAndStartsWarm) {
  const Overrides first =
      with(kSmall, {"curriculum=env.gravity=9 until_steps=384; env.gravity=10"});
  const std::string expected = train(1, "cartpole", first, "one");
  EXPECT_EQ(train(3, "cartpole", first, "three"), expected);
  const Overrides warm = with(kSmall, {"init=" + folder("one"), "seed=5"});
  EXPECT_EQ(train(2, "cartpole", warm, "warm2"), train(1, "cartpole", warm, "warm1"));
}

TEST_F(Cluster, LeavesOutStepsThatFailedWhereverTheyAre) {
  const Overrides failing = with(kSmall, {"env.fault=throw", "env.fault_probability=0.02",
                                          "on_env_failure=restart", "restart_budget=1000"});
  const std::string expected = train(1, "faulty", failing, "one");
  EXPECT_EQ(train(3, "faulty", failing, "three"), expected);
}

// Workers and groups that suit the envs of one process may be more than a share of them.
TEST_F(Cluster, WorkersAndGroupsThatNobodyGaveFitTheShareOfAProcess) {
  const Overrides few = with(kSmall, {"num_envs=2", "ppo.blocks=2", "steps=256",
                                      "checkpoint.every=128", "backend=processes"});
  EXPECT_EQ(run_config("cartpole", few).vec.groups, 2);
  const std::string expected = train(1, "cartpole", few, "one");
  EXPECT_EQ(train(2, "cartpole", few, "two"), expected);
  // Of the run by one process, which chose for two envs.
  EXPECT_EQ(resume(2, "one", 128), expected);
}

TEST_F(Cluster, RefusesWhatCannotBeShared) {
  const auto refusal = [&](int ranks, const Overrides& more) {
    return error_text(ErrorCode::kUsage,
                      [&] { train(ranks, "cartpole", with(kSmall, more), "refused"); });
  };
  EXPECT_EQ(refusal(3, {"ppo.blocks=2"}), "ppo.blocks: expected 3 or more for 3 processes, not 2");
  EXPECT_EQ(refusal(1, {"ppo.blocks=5"}), "ppo.blocks 5 do not divide num_envs 12");
  EXPECT_EQ(refusal(1, {"replicas=2"}),
            "ppo.blocks 12: the 1 envs of a block are no multiple of replicas 2");
  EXPECT_EQ(refusal(1, {"ppo.minibatches=64"}),
            "ppo.minibatches 64 is more than the 32 rows of a block (ppo.blocks 12)");
  EXPECT_EQ(refusal(2, {"explore.bonus=1"}),
            "explore.bonus: expected 0 for 2 processes: each would count what it met alone");
  const Overrides few = {"num_envs=2", "ppo.blocks=2"};
  EXPECT_EQ(refusal(2, with(few, {"groups=2"})),
            "groups: expected an integer from 1 to 1 (num_envs 2 shared by 2 processes), got 2");
  EXPECT_EQ(refusal(2, with(few, {"backend=processes", "workers=2"})),
            "workers: expected an integer from 1 to 1 (num_envs 2 shared by 2 processes), got 2");
}

TEST_F(Cluster, SumsFastWithOtherBits) {
  const Overrides fast = with(kSmall, {"cluster.sum=fast"});
  EXPECT_NE(train(3, "cartpole", fast, "fast"), train(1, "cartpole", kSmall, "exact"));
}

}  // namespace
}  // namespace flotilla::test
