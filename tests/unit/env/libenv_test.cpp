#include "flotilla/env/libenv/libenv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "flotilla/env/libenv/options.h"
#include "libenv/counter_world.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using counter::World;

// The libraries lie beside this program.
std::string path_of(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / (name + ".so");
}

std::vector<std::string> settings(const std::string& library,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"library=" + path_of(library)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

VecOptions workers(int num_envs, int count, int groups = 1) {
  VecOptions options = serial(num_envs);
  options.backend = Backend::kProcesses;
  options.workers = count;
  options.groups = groups;
  options.crash_dir = {};
  return options;
}

int32_t seed_of(uint64_t seed, int env) {
  Rng rng = env_rng(seed, env);
  return static_cast<int32_t>(rng.next_u64() % INT32_MAX);
}

std::vector<uint8_t> row_of(const std::byte* rows, int env, size_t bytes) {
  const auto* row = reinterpret_cast<const uint8_t*>(rows) + static_cast<size_t>(env) * bytes;
  return {row, row + bytes};
}

std::vector<uint8_t> bytes_of(const counter::Picture& picture) {
  return {picture.begin(), picture.end()};
}

EnvSpec spec_with(const std::vector<std::string>& all) {
  const EnvType& type = registry().find("libenv");
  return type.spec(config_of(type, all));
}

TEST(Libenv, HasTheSpacesOfTheLibrary) {
  const EnvSpec spec = spec_with(settings("counter_libenv"));
  EXPECT_EQ(spec.name, "libenv");
  EXPECT_EQ(spec.obs.type, ObsType::kUint8);
  EXPECT_EQ(spec.obs.shape, (std::vector{4, 5, 3}));
  EXPECT_EQ(spec.action.describe(), "Discrete(3)");
  EXPECT_EQ(spec.metrics, (std::vector<std::string>{"episode", "won", "mean"}));
  EXPECT_EQ(spec.time_limit, 0);
  EXPECT_EQ(spec_with(settings("counter_libenv", {"frame_stack=4"})).obs.shape,
            (std::vector{4, 5, 12}));
}

// The library against its own world, stepped here.
TEST(Libenv, StepsAsTheLibraryDoesForAnyNumberOfWorkers) {
  constexpr int kEnvs = 5, kSteps = 40;
  const std::vector<std::string> more = {"env_name=abc", "options=length=4, shiny=true"};
  for (const VecOptions& options : {workers(kEnvs, 1), workers(kEnvs, 2), workers(kEnvs, 3, 2)}) {
    SCOPED_TRACE(options.workers);
    counter::Options given{.length = 4, .shiny = true, .name = "abc"};
    std::vector<World> worlds;
    for (int i = 0; i < kEnvs; ++i) {
      given.rand_seed = seed_of(21, i);
      worlds.emplace_back(given);
    }
    Batch batch("libenv", settings("counter_libenv", more), options);
    EXPECT_TRUE(batch.vec().keeps_states());
    batch.reset(21);
    const size_t bytes = batch.spec().obs.row_bytes();
    int ended = 0;
    for (int t = 0; t < kSteps; ++t) {
      std::vector<counter::Picture> before;
      for (const World& world : worlds) before.push_back(world.picture(given));
      batch.step_randomly(21, static_cast<uint64_t>(t));
      const StepView v = batch.view();
      for (int i = 0; i < kEnvs; ++i) {
        World& world = worlds[static_cast<size_t>(i)];
        world.act(batch.actions().ints()[i] - 1);
        SCOPED_TRACE("env " + std::to_string(i) + ", step " + std::to_string(t));
        ASSERT_EQ(row_of(v.obs, i, bytes), bytes_of(world.picture(given)));
        ASSERT_EQ(v.reward[i], world.reward);
        ASSERT_EQ(v.terminated[i], world.first);
        ASSERT_EQ(v.truncated[i], 0);
        ASSERT_EQ(v.valid[i], 1);
        if (world.first == 0) continue;
        ++ended;
        // There is no last observation: the one before it stands for it.
        EXPECT_EQ(row_of(v.final_obs, i, bytes), bytes_of(before[static_cast<size_t>(i)]));
        const float* metrics = v.metrics + 3 * i;
        EXPECT_EQ(metrics[0], static_cast<float>(world.episode));
        EXPECT_EQ(metrics[1], static_cast<float>(world.won));
        EXPECT_EQ(metrics[2], world.mean());
      }
    }
    EXPECT_GT(ended, 10);
  }
}

TEST(Libenv, GamesTakeTurns) {
  Batch batch("libenv", settings("counter_libenv", {"env_name=a, bcd"}), workers(3, 2));
  batch.reset(4);
  for (const int env : {0, 1, 2}) {
    const counter::Options given{.rand_seed = seed_of(4, env), .name = env % 2 == 0 ? "a" : "bcd"};
    EXPECT_EQ(row_of(batch.view().obs, env, 60), bytes_of(World(given).picture(given)));
  }
}

TEST(Libenv, ASecondResetIsTheFirst) {
  Batch batch("libenv", settings("counter_libenv"), workers(3, 1));
  std::vector<std::vector<std::string>> seen;
  for (int round = 0; round < 2; ++round) {
    batch.reset(4);
    std::vector<std::string>& all = seen.emplace_back();
    for (uint64_t t = 0; t < 7; ++t) {
      batch.step_randomly(4, t);
      for (const std::string& row : batch.rows()) all.push_back(row);
    }
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(Libenv, ATimeLimitOfTheEngineBeginsAnew) {
  VecOptions options = workers(2, 1);
  options.time_limit = 2;
  Batch batch("libenv", settings("counter_libenv", {"options=length=50"}), options);
  batch.reset(4);
  batch.step({1, 1});
  EXPECT_EQ(batch.view().truncated[0], 0);
  batch.step({1, 1});
  for (const int env : {0, 1}) {
    EXPECT_EQ(batch.view().truncated[env], 1);
    EXPECT_EQ(batch.view().terminated[env], 0);
    const counter::Options given;
    EXPECT_EQ(row_of(batch.view().obs, env, 60), bytes_of(World(given).picture(given)));
    EXPECT_NE(row_of(batch.view().final_obs, env, 60), row_of(batch.view().obs, env, 60));
  }
}

TEST(Libenv, StatesAreSavedWhereTheLibraryCan) {
  constexpr int kEnvs = 4;
  for (const char* frames : {"frame_stack=1", "frame_stack=3"}) {
    Batch original("libenv", settings("counter_libenv", {frames}), workers(kEnvs, 2));
    original.reset(21);
    for (uint64_t t = 0; t < 9; ++t) original.step_randomly(21, t);
    const std::vector<std::byte> saved = original.saved();
    const size_t bytes = original.spec().obs.row_bytes() * kEnvs;
    const auto shown = row_of(original.view().obs, 0, bytes);
    std::vector<std::vector<std::string>> expected;
    for (uint64_t t = 9; t < 30; ++t) {
      original.step_randomly(21, t);
      expected.push_back(original.rows());
    }
    for (const int count : {1, 3}) {
      Batch restored("libenv", settings("counter_libenv", {frames}), workers(kEnvs, count));
      restored.reset(3);
      restored.load(saved);
      EXPECT_EQ(row_of(restored.view().obs, 0, bytes), shown);
      EXPECT_EQ(restored.saved(), saved);
      for (uint64_t t = 9; t < 30; ++t) {
        restored.step_randomly(21, t);
        ASSERT_EQ(restored.rows(), expected[t - 9]) << frames << ", step " << t;
      }
    }
  }
}

TEST(Libenv, WithoutStatesNewEpisodesBegin) {
  for (const auto& [library, more] :
       {std::pair<const char*, const char*>{"stateless_libenv", "save_state=true"},
        {"counter_libenv", "save_state=false"}}) {
    Batch original("libenv", settings(library, {more, "options=length=50"}), workers(2, 1));
    EXPECT_FALSE(original.vec().keeps_states());
    original.reset(21);
    for (uint64_t t = 0; t < 5; ++t) original.step_randomly(21, t);
    const std::vector<std::byte> saved = original.saved();
    Batch restored("libenv", settings(library, {more, "options=length=50"}), workers(2, 1));
    restored.load(saved);
    const counter::Options given;
    EXPECT_EQ(row_of(restored.view().obs, 1, 60), bytes_of(World(given).picture(given)));
    restored.step_randomly(21, 5);
  }
}

TEST(Libenv, AWorkerThatIsKilledLosesNothingWhereStatesAreSaved) {
  for (const bool saved : {true, false}) {
    const std::string library = saved ? "counter_libenv" : "stateless_libenv";
    Batch reference("libenv", settings(library), workers(4, 2));
    VecOptions options = workers(4, 2);
    options.on_failure = OnFailure::kRestart;
    Batch batch("libenv", settings(library), options);
    reference.reset(21);
    batch.reset(21);
    int invalid = 0;
    for (uint64_t t = 0; t < 10; ++t) {
      if (t == 6) kill(batch.vec().worker_pids()[0], SIGKILL);
      reference.step_randomly(21, t);
      batch.step_randomly(21, t);
      for (int i = 0; i < 4; ++i) invalid += batch.view().valid[i] == 0;
      if (!saved && t >= 6) continue;
      ASSERT_EQ(batch.rows(), reference.rows()) << "step " << t;
    }
    EXPECT_EQ(invalid, saved ? 0 : 2);
  }
}

// Between two states of the library there are the actions: it plays them again.
TEST(Libenv, TheStateIsThatOfAnyStep) {
  const auto more = {std::string("options=length=500")};
  VecOptions options = workers(2, 1);
  options.on_failure = OnFailure::kRestart;
  Batch original("libenv", settings("counter_libenv", more), options);
  original.reset(21);
  for (uint64_t t = 0; t < 150; ++t) {
    original.step_randomly(21, t);
    if (t % 13 != 0 && (t < 60 || t > 66)) continue;
    Batch restored("libenv", settings("counter_libenv", more), workers(2, 1));
    restored.load(original.saved());
    EXPECT_EQ(restored.saved(), original.saved()) << "step " << t;
    EXPECT_EQ(row_of(restored.view().obs, 0, 120), row_of(original.view().obs, 0, 120))
        << "step " << t;
    kill(original.vec().worker_pids()[0], SIGKILL);
    original.step_randomly(21, ++t);
    restored.step_randomly(21, t);
    EXPECT_EQ(restored.rows(), original.rows()) << "step " << t;
  }
}

TEST(Libenv, ALibraryThatDoesNotRepeatItselfBeginsNewEpisodes) {
  const auto more = {std::string("options=length=500, hasty=1")};
  Batch original("libenv", settings("counter_libenv", more), workers(2, 1));
  original.reset(21);
  for (uint64_t t = 0; t < 5; ++t) original.step_randomly(21, t);
  Batch restored("libenv", settings("counter_libenv", more), workers(2, 1));
  restored.load(original.saved());
  const counter::Options given;
  EXPECT_EQ(row_of(restored.view().obs, 1, 60), bytes_of(World(given).picture(given)));
  VecOptions options = workers(2, 1);
  options.on_failure = OnFailure::kRestart;
  Batch killed("libenv", settings("counter_libenv", more), options);
  killed.reset(21);
  killed.step({1, 1});
  kill(killed.vec().worker_pids()[0], SIGKILL);
  killed.step({1, 1});
  EXPECT_EQ(killed.view().valid[0] + killed.view().valid[1], 0);
  killed.step({1, 1});
  EXPECT_EQ(killed.view().valid[0] + killed.view().valid[1], 2);
}

TEST(Libenv, AStateThatOutgrowsItsRoomIsAnError) {
  const auto play = [](const char* growth) {
    Batch batch("libenv",
                settings("counter_libenv", {std::string("options=length=500, growth=") + growth}),
                workers(2, 1));
    batch.reset(21);
    for (uint64_t t = 0; t < 70; ++t) batch.step_randomly(21, t);
  };
  play("1000");
  const std::string text = error_text(ErrorCode::kEnvironment, [&] { play("1010"); });
  EXPECT_NE(text.find("bytes, there is room for 65536"), std::string::npos) << text;
}

TEST(Libenv, AnAbortCostsARow) {
  VecOptions options = workers(4, 2);
  options.on_failure = OnFailure::kRestart;
  const std::string seed = std::to_string(seed_of(21, 2));
  Batch batch("libenv",
              settings("counter_libenv", {"options=length=50, abort_at=3, abort_seed=" + seed}),
              options);
  batch.reset(21);
  batch.step({2, 2, 2, 2});
  batch.step({2, 2, 2, 2});
  batch.step({2, 2, 2, 2});
  EXPECT_EQ(std::vector<uint8_t>(batch.view().valid, batch.view().valid + 4),
            (std::vector<uint8_t>{1, 1, 0, 1}));
  const auto failures = batch.vec().take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].env, 2);
  EXPECT_EQ(failures[0].step, 2u);
  EXPECT_EQ(failures[0].cause, "worker killed by signal 6 (SIGABRT)");
  batch.step({2, 2, 2, 2});  // goes on
  EXPECT_EQ(batch.view().valid[2], 1);
}

TEST(Libenv, AnAbortEndsTheRunAndNamesTheLibrary) {
  Batch batch("libenv", settings("counter_libenv", {"options=abort_at=1"}), workers(2, 1));
  batch.reset(21);
  EXPECT_EQ(error_text(ErrorCode::kEnvironment,
                       [&] {
                         batch.step({1, 1});
                       }),
            "env 0 of 'libenv " + path_of("counter_libenv") +
                "' failed in step: worker killed by signal 6 (SIGABRT) (env=0, seed=21, episode=0, "
                "step=0, action=1, phase=step)");
}

TEST(Libenv, ARewardMustBeANumber) {
  Batch batch("libenv", settings("counter_libenv", {"options=bad_reward=1, length=50"}),
              workers(2, 1));
  batch.reset(21);
  EXPECT_NE(error_text(ErrorCode::kEnvironment,
                       [&] {
                         batch.step({1, 1});
                       })
                .find("failed in step: threw: the reward is -inf"),
            std::string::npos);
}

TEST(Libenv, WhatIsNoLibenvIsRefusedByName) {
  const auto refusal = [](const std::string& library, ErrorCode code,
                          const std::vector<std::string>& more = {}) {
    return error_text(code, [&] { spec_with(settings(library, more)); });
  };
  const auto named = [](const std::string& library) {
    return "library '" + path_of(library) + "'";
  };
  EXPECT_EQ(error_text(ErrorCode::kUsage, [] { spec_with({}); }),
            "library: expected the path of a shared library, got ''");
  EXPECT_TRUE(
      refusal("nothing", ErrorCode::kData).starts_with(named("nothing") + " cannot be opened: "));
  const std::string text = path_of("text_libenv");
  std::ofstream(text) << "not a library\n";
  EXPECT_TRUE(refusal("text_libenv", ErrorCode::kData)
                  .starts_with(named("text_libenv") + " cannot be opened: "));
  std::filesystem::remove(text);
  EXPECT_EQ(refusal("later_libenv", ErrorCode::kData),
            named("later_libenv") + " has version 2 of libenv, expected 1");
  EXPECT_EQ(refusal("lazy_libenv", ErrorCode::kData),
            named("lazy_libenv") + " is no libenv: it has no function libenv_act");
  EXPECT_EQ(refusal("twofold_libenv", ErrorCode::kData),
            named("twofold_libenv") + ": expected one observation, it has 2: 'rgb', 'position'");
  EXPECT_EQ(refusal("counter_libenv", ErrorCode::kEnvironment, {"env_name=missing"}),
            named("counter_libenv") + ": libenv_make threw: map::at");
  const std::string killed =
      named("counter_libenv") + ": the process that looked at it was killed by signal 6 (SIGABRT)";
  EXPECT_EQ(refusal("counter_libenv", ErrorCode::kEnvironment, {"env_name=broken"}), killed);
  EXPECT_EQ(refusal("counter_libenv", ErrorCode::kEnvironment, {"num_levels=3"}), killed);
  EXPECT_EQ(refusal("counter_libenv", ErrorCode::kEnvironment, {"seed_option=seed"}), killed);
}

TEST(Libenv, IsForWorkersAlone) {
  const std::string where = ": the environments of 'libenv' are in worker processes alone";
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [] { Batch("libenv", settings("counter_libenv"), serial(1)); }),
      "backend: expected processes or actors" + where);
  VecOptions forked = workers(1, 1);
  forked.start_method = StartMethod::kFork;
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [&] { Batch("libenv", settings("counter_libenv"), forked); }),
      "start_method: expected spawn" + where);
}

TEST(Libenv, AFileCannotChooseTheLibrary) {
  const EnvType& type = registry().find("libenv");
  Config config(type.schema);
  config.load_yaml_text("library: " + path_of("counter_libenv"), "run.yaml");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { type.spec(config); }),
            "library: '" + path_of("counter_libenv") +
                "' is code that a file names: to run it, name it on the command line as well: "
                "library=" +
                path_of("counter_libenv"));
  config.apply_override("library=" + path_of("counter_libenv"));
  EXPECT_EQ(type.spec(config).obs.elements(), 60u);
}

libenv::OptionList options_with(std::vector<std::string> all) {
  all.insert(all.begin(), "library=/nowhere/at/all/lib.so");
  return libenv::Settings::from(config_of(registry().find("libenv"), all)).options;
}

TEST(LibenvOptions, HaveTheirTypes) {
  using libenv::OptionList;
  EXPECT_EQ(options_with({}), OptionList{});
  EXPECT_EQ(
      options_with({"env_name=a", "num_levels=-5", "center_agent=false", "distribution_mode=memory",
                    "options=x=3, y=true, z=caf\u00e9, t:text=4"}),
      (OptionList{{"env_name", std::string("a")},
                  {"num_levels", -5},
                  {"distribution_mode", 10},
                  {"center_agent", false},
                  {"x", 3},
                  {"y", true},
                  {"z", std::string("caf\u00e9")},
                  {"t", std::string("4")}}));
  EXPECT_EQ(options_with({"distribution_mode=7"}), (OptionList{{"distribution_mode", 7}}));
}

TEST(LibenvOptions, WhatProcgenRequiresIsGivenWhereItsPicturesAre) {
  using libenv::OptionList;
  const OptionList options = options_with({"env_name=a", "resource_root=/x/", "num_actions=4"});
  EXPECT_EQ(options, (OptionList{{"env_name", std::string("a")},
                                 {"num_actions", 4},
                                 {"resource_root", std::string("/x/")},
                                 {"num_levels", 0},
                                 {"start_level", 0},
                                 {"num_threads", 0},
                                 {"distribution_mode", 1},
                                 {"center_agent", true}}));
  const OptionList other = options_with(
      {"env_name=a", "resource_root=/x/", "distribution_mode=easy", "center_agent=false"});
  EXPECT_EQ(std::ranges::count(other, OptionList::value_type("distribution_mode", 0)), 1);
  EXPECT_EQ(std::ranges::count(other, OptionList::value_type("center_agent", false)), 1);
  EXPECT_EQ(other.size(), 8u);
}

TEST(LibenvOptions, AreCheckedBeforeTheLibrarySeesThem) {
  const auto refusal = [](const std::vector<std::string>& all) {
    return error_text(ErrorCode::kUsage, [&] { options_with(all); });
  };
  EXPECT_EQ(refusal({"num_levels=many"}), "num_levels: expected an integer of 32 bits, got 'many'");
  EXPECT_EQ(refusal({"start_level=3000000000"}),
            "start_level: expected an integer of 32 bits, got '3000000000'");
  EXPECT_EQ(refusal({"center_agent=1"}), "center_agent: expected true or false, got '1'");
  EXPECT_EQ(refusal({"distribution_mode=heavy"}),
            "distribution_mode: expected easy, hard, extreme, memory or an integer, got 'heavy'");
  EXPECT_EQ(refusal({"options=x"}), "options: expected name=value, ..., got 'x'");
  EXPECT_EQ(refusal({"options=x:int=y"}), "options: x: expected an integer of 32 bits, got 'y'");
  EXPECT_EQ(refusal({"options=x:real=1"}),
            "options: x: expected the type int, bool or text, got 'real'");
  EXPECT_EQ(refusal({"options==1"}), "options: expected a name of 1 to 127 bytes, got ''");
  EXPECT_EQ(refusal({"num_levels=1", "options=num_levels=2"}),
            "options: 'num_levels' is given twice");
  EXPECT_EQ(refusal({"options=rand_seed=2"}), "options: 'rand_seed' is given twice");
}

}  // namespace
}  // namespace flotilla::test
