// Evaluations by episode: which env plays which, who acts, and what an observer sees. How a run
// evaluates is told in trainer_test.cpp.
#include "flotilla/train/evaluator.h"

#include <gtest/gtest.h>

#include <map>

#include "flotilla/nn/make_policy.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
constexpr int kEpisodes = 150, kFirstEnv = 7;  // more than play at once
constexpr uint64_t kSeed = 21;

// Episodes of different lengths, by the number of the env.
int32_t act_of(int env, uint64_t step) {
  return step == static_cast<uint64_t>(env % 4) ? kEnd : kGo;
}

EvalOptions one_each(int episodes = kEpisodes) {
  EvalOptions options;
  options.episodes = episodes;
  options.seed = kSeed;
  options.first_env = kFirstEnv;
  options.one_each = true;
  return options;
}

Player script() {
  return [](const ActRows& rows, uint64_t step) {
    auto* actions = reinterpret_cast<int32_t*>(rows.action);
    for (int i = 0; i < rows.count; ++i) actions[i] = act_of(rows.first_env + i, step);
  };
}

// One episode, without any engine.
Script::State played_alone(const Script& env, int number) {
  Rng rng(kSeed, stream_of(Purpose::kEnv, static_cast<uint64_t>(number)));
  Script::State state{};
  env.reset(state, rng);
  for (uint64_t step = 0;; ++step) {
    const int32_t act = act_of(number, step);
    if (env.step(state, ActionRow(&act), rng).terminated) return state;
  }
}

TEST(Evaluator, PlaysOneEpisodeOfEachEnv) {
  const EnvType& type = registry().find("test_script");
  const Config config(type.schema);
  Evaluator evaluator(type, config, one_each());
  for (int round = 0; round < 2; ++round) {  // always the same episodes
    std::map<int, Script::State> seen;
    evaluator.set_episode_observer(episode_observer<Script>([&](int env, const Script::State& s) {
      EXPECT_TRUE(seen.emplace(env, s).second) << "env " << env << " was seen twice";
    }));
    const Evaluation found = evaluator.play(script(), false);
    EXPECT_EQ(found.episodes, kEpisodes);
    ASSERT_EQ(seen.size(), size_t{kEpisodes});
    double lengths = 0;
    for (const auto& [episode, state] : seen) {
      const Script::State expected = played_alone(Script(config), kFirstEnv + episode);
      EXPECT_EQ(state.start, expected.start) << "episode " << episode;
      EXPECT_EQ(state.noise, expected.noise);
      EXPECT_EQ(state.count, expected.count);
      lengths += expected.count;
    }
    EXPECT_DOUBLE_EQ(found.mean_length, lengths / kEpisodes);
  }
}

TEST(Evaluator, EnvsThatShareTheEpisodesShowThoseThatCount) {
  const EnvType& type = registry().find("test_script");
  EvalOptions options = one_each();
  options.one_each = false;
  Evaluator evaluator(type, Config(type.schema), options);
  std::map<int, int> seen;
  evaluator.set_episode_observer([&](int env, const void*) { ++seen[env]; });
  EXPECT_EQ(evaluator.play(script(), false).episodes, kEpisodes);
  int episodes = 0;
  for (const auto& [env, count] : seen) {
    EXPECT_LE(count, 2) << "env " << env;
    episodes += count;
  }
  EXPECT_EQ(episodes, kEpisodes);

  seen.clear();
  evaluator.set_episode_observer(nullptr);
  EXPECT_EQ(evaluator.play(script(), false).episodes, kEpisodes);
  EXPECT_TRUE(seen.empty()) << "nobody looks any more";
}

TEST(Evaluator, APolicyActsByTheNumbersOfTheEnvs) {
  const EnvType& type = registry().find("cartpole");
  const Config config(type.schema);
  NetworkSpec network;
  network.inputs = 4;
  network.hidden = {8};
  network.action = ActionSpace::discrete(2);
  const auto policy = make_fused_policy(network, 1, 5);
  EvalOptions options = one_each();
  options.deterministic = false;
  const Evaluation all = Evaluator(type, config, options).play(*policy, false);
  // The same envs, in two evaluations.
  options.episodes = 60;
  const Evaluation first = Evaluator(type, config, options).play(*policy, false);
  options.first_env += 60;
  options.episodes = kEpisodes - 60;
  const Evaluation rest = Evaluator(type, config, options).play(*policy, false);
  EXPECT_GT(all.std, 0);
  EXPECT_EQ(all.mean * kEpisodes, first.mean * 60 + rest.mean * (kEpisodes - 60));

  const Draw draw{.seed = kSeed, .step = 0, .epsilon = 0, .greedy = false};
  const Player player = [&](const ActRows& rows, uint64_t step) {
    Draw now = draw;
    now.step = step;
    policy->act(0, rows, now);
  };
  EXPECT_EQ(Evaluator(type, config, one_each()).play(player, false).mean, all.mean);
}

void expect_equal(const Evaluation& got, const Evaluation& expected) {
  EXPECT_EQ(got.episodes, expected.episodes);
  EXPECT_EQ(got.mean, expected.mean);
  EXPECT_EQ(got.std, expected.std);
  EXPECT_EQ(got.ci95, expected.ci95);
  EXPECT_EQ(got.mean_length, expected.mean_length);
  EXPECT_EQ(got.metrics, expected.metrics);
  EXPECT_EQ(got.metrics_ci95, expected.metrics_ci95);
}

TEST(Evaluator, EnvsThatPlayAloneGiveTheSame) {
  for (const char* env : {"cartpole", "maze", "catch"}) {
    const EnvType& type = registry().find(env);
    const Config config(type.schema);
    const EnvSpec spec = type.spec(config, 0);
    NetworkSpec network = NetworkSpec::from(Config(NetworkSpec::schema()), "", spec);
    network.hidden = {8};
    const auto policy = make_fused_policy(network, 5, 5);
    EvalOptions options = one_each();
    options.deterministic = false;
    for (const bool one : {true, false}) {
      options.one_each = one;
      const Player together = [&](const ActRows& rows, uint64_t step) {
        policy->act(0, rows, {.seed = kSeed, .step = step, .epsilon = 0, .greedy = false});
      };
      const Evaluation expected = Evaluator(type, config, options).play(together, false);
      for (const int threads : {1, 2, 3, 5, 16}) {
        SCOPED_TRACE(testing::Message() << env << ", " << threads << " threads");
        options.vec.backend = Backend::kThreads;
        options.vec.threads = threads;
        Evaluator evaluator(type, config, options);
        for (int round = 0; round < 2; ++round) {
          expect_equal(evaluator.play(*policy, false), expected);
        }
        expect_equal(evaluator.play(together, false), expected);
      }
    }
  }
}

// Without end, were it not for the failures.
TEST(Evaluator, EnvsThatFailEndItAsTheyWouldTogether) {
  const EnvType& type = registry().find("faulty");
  const Config config = config_of(type, {"fault=throw", "fault_step=5"});
  NetworkSpec network = NetworkSpec::from(Config(NetworkSpec::schema()), "", type.spec(config, 0));
  const auto policy = make_fused_policy(network, 2, 5);
  EvalOptions options = one_each();
  options.vec.crash_dir = {};
  for (const OnFailure failure : {OnFailure::kStop, OnFailure::kRestart}) {
    options.vec.on_failure = failure;
    options.vec.restart_budget = 400;
    options.vec.backend = Backend::kThreads;
    options.vec.threads = 2;
    Evaluator evaluator(type, config, options);
    const auto text = [&](auto&& actor) {
      return error_text(ErrorCode::kEnvironment, [&] { evaluator.play(actor, false); });
    };
    const std::string alone = text(*policy);
    EXPECT_EQ(alone, text(Player([&](const ActRows& rows, uint64_t step) {
                policy->act(0, rows, {.seed = kSeed, .step = step, .epsilon = 0, .greedy = true});
              })));
  }
}

TEST(Evaluator, ObservingNeedsStatesInThisProcess) {
  const EnvType& type = registry().find("test_script");
  EvalOptions options = one_each(2);
  options.vec.backend = Backend::kProcesses;
  Evaluator evaluator(type, Config(type.schema), options);
  EXPECT_EQ(evaluator.play(script(), false).episodes, 2);
  evaluator.set_episode_observer([](int, const void*) {});
  error_text(ErrorCode::kUsage, [&] { evaluator.play(script(), false); });
}

}  // namespace
}  // namespace flotilla::test
