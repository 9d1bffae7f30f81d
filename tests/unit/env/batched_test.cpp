// Environments that step together: who is called when and for whom, failures in each part of the
// step, and steps that an env itself calls invalid.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "flotilla/core/alloc_count.h"
#include "flotilla/env/conformance.h"
#include "flotilla/env/random_run.h"
#include "flotilla/env/replay.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

// Each env has a voice; the stage tells each one what it hears.
class Choir {
 public:
  enum Act : int32_t {
    kSing,
    kThrowBefore,  // in prepare()
    kThrowAfter,   // in step()
    kFalter,       // this step and the rest of the episode are invalid
    kDeafen,       // the stage throws
    kActs
  };
  static constexpr int kLength = 6;

  struct State {
    int32_t voice, count, act, heard, faltered;
  };

  struct Log {
    std::atomic<int> calls{0}, states{0}, farewells{0};
  };
  static Log& log() {
    static Log made;
    return made;
  }

  static Schema schema() { return {}; }
  explicit Choir(const Config&) {
    spec_.obs = ObsSpace::float32({2}, 0, 1000);
    spec_.action = ActionSpace::discrete(kActs);
    spec_.metrics = {"voice", "faltered"};
  }

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const { s.voice = static_cast<int32_t>(g.below(400)); }

  void prepare(State& s, ActionRow action, Rng&) const {
    if (action.discrete() == kThrowBefore) throw std::runtime_error("choir: told to throw before");
    s.act = action.discrete();
    s.heard = -1;
  }

  class Room final : public Stage<State> {
   public:
    explicit Room(ThreadPool& pool) : pool_(pool) {}
    ~Room() override {
      pool_.run([](int) { ++log().farewells; });
    }
    void run(std::span<State* const> states) override {
      ++log().calls;
      log().states += static_cast<int>(states.size());
      for (const State* s : states) {
        if (s->act == kDeafen) throw Error(ErrorCode::kInternal, "choir: told to be deaf");
      }
      // The threads are free for the stage.
      pool_.for_each(static_cast<int>(states.size()), [&](int, int i) {
        State& s = *states[static_cast<size_t>(i)];
        if (s.heard == -1) s.heard = 2 * s.voice + s.count;
      });
    }

   private:
    ThreadPool& pool_;
  };
  std::unique_ptr<Stage<State>> make_stage(ThreadPool& pool) const {
    return std::make_unique<Room>(pool);
  }

  Outcome step(State& s, ActionRow, Rng&) const {
    if (s.heard < 0) throw std::runtime_error("choir: there was no stage before this step");
    if (s.act == kThrowAfter) throw std::runtime_error("choir: told to throw after");
    if (s.act == kFalter) s.faltered = 1;
    ++s.count;
    return {.reward = static_cast<float>(s.heard),
            .terminated = s.count == kLength,
            .valid = s.faltered == 0};
  }

  void observe(const State& s, ObsRow row) const {
    row.f32()[0] = static_cast<float>(s.voice);
    row.f32()[1] = static_cast<float>(s.count);
  }
  void metrics(const State& s, MetricRow row) const {
    row[0] = s.faltered != 0 ? std::nanf("") : static_cast<float>(s.voice);
    row[1] = static_cast<float>(s.faltered);
  }

 private:
  EnvSpec spec_;
};

const EnvType& choir() {
  static const EnvType type = env_type<Choir>("choir", "sings together");
  return type;
}

// A VecEnv of the choir.
class Concert {
 public:
  explicit Concert(VecOptions options) {
    const Config config(choir().schema);
    ArenaLayout layout;
    fields_ = StepFields(layout, choir().spec(config), options.num_envs, 1);
    vec_ = make_vec_env(choir(), config, options, layout);
    vec_->reset(5, view());
    Choir::log().calls = Choir::log().states = 0;
  }
  VecEnv& vec() { return *vec_; }
  StepView view() const { return fields_.view(vec_->arena(), 0); }
  void step(const std::vector<int32_t>& acts) {
    std::byte* place = fields_.actions(vec_->arena(), 0);
    std::memcpy(place, acts.data(), acts.size() * sizeof(int32_t));
    vec_->begin(0, {place}, view());
    vec_->wait(0);
  }
  float voice(int env) const { return reinterpret_cast<const float*>(view().obs)[2 * env]; }
  std::string row(int env) const { return row_bytes(vec_->spec(), view(), env); }

 private:
  StepFields fields_;
  std::unique_ptr<VecEnv> vec_;
};

VecOptions options_of(int num_envs, int threads, OnFailure on_failure = OnFailure::kRestart) {
  VecOptions options;
  options.backend = threads > 1 ? Backend::kThreads : Backend::kSerial;
  options.num_envs = num_envs;
  options.threads = threads;
  options.on_failure = on_failure;
  return options;
}

TEST(Batched, OneStagePerStepBetweenTheTwoHalvesOfEveryEnv) {
  for (const int threads : {1, 2, 3}) {
    Concert concert(options_of(5, threads));
    for (int t = 0; t < 2 * Choir::kLength; ++t) {
      std::vector<float> voices;
      for (int i = 0; i < 5; ++i) voices.push_back(concert.voice(i));
      concert.step({0, 0, 0, 0, 0});
      for (int i = 0; i < 5; ++i) {
        const auto expected =
            2 * voices[static_cast<size_t>(i)] + static_cast<float>(t % Choir::kLength);
        EXPECT_EQ(concert.view().reward[i], expected) << threads << " threads, step " << t;
      }
      EXPECT_EQ(Choir::log().calls, t + 1);
      EXPECT_EQ(Choir::log().states, 5 * (t + 1));
    }
  }
}

TEST(Batched, AFailureInEitherHalfIsThatOfOneEnv) {
  for (const int threads : {1, 2}) {
    for (const int act : {Choir::kThrowBefore, Choir::kThrowAfter}) {
      SCOPED_TRACE(std::to_string(threads) + " threads, act " + std::to_string(act));
      Concert concert(options_of(3, threads)), calm(options_of(3, threads));
      for (int t = 0; t < 10; ++t) {
        const int calls = Choir::log().calls, states = Choir::log().states;
        concert.step({0, t == 3 ? act : 0, 0});
        const bool before = t == 3 && act == Choir::kThrowBefore;
        EXPECT_EQ(Choir::log().calls, calls + 1);
        EXPECT_EQ(Choir::log().states, states + (before ? 2 : 3)) << "who failed is not heard";
        calm.step({0, 0, 0});
        EXPECT_EQ(concert.row(0), calm.row(0)) << t;
        EXPECT_EQ(concert.row(2), calm.row(2)) << t;
        EXPECT_EQ(concert.view().valid[1], t == 3 ? 0 : 1);
        // A new episode was begun: it ends three steps later than those of the others.
        EXPECT_EQ(concert.view().terminated[1], t == 9);
      }
      const auto failures = concert.vec().take_failures();
      ASSERT_EQ(failures.size(), 1u);
      EXPECT_EQ(failures[0].env, 1);
      EXPECT_EQ(failures[0].cause, act == Choir::kThrowBefore
                                       ? "threw: choir: told to throw before"
                                       : "threw: choir: told to throw after");
    }
  }
}

TEST(Batched, ADroppedEnvTakesNoPart) {
  Concert concert(options_of(3, 1, OnFailure::kDrop));
  concert.step({0, Choir::kThrowBefore, 0});
  concert.step({0, 0, 0});
  EXPECT_EQ(concert.view().valid[1], 0);
  EXPECT_EQ(Choir::log().states, 4);
}

TEST(Batched, WhatTheStageThrowsEndsTheStep) {
  for (const int threads : {1, 2}) {
    Concert concert(options_of(3, threads));
    EXPECT_EQ(error_text(ErrorCode::kInternal,
                         [&] {
                           concert.step({0, 0, Choir::kDeafen});
                         }),
              "choir: told to be deaf");
    concert.vec().reset(5, concert.view());
    const float voice = concert.voice(0);
    concert.step({0, 0, 0});
    EXPECT_EQ(concert.view().reward[0], 2 * voice);
  }
}

TEST(Batched, TheStageHasItsThreadsToTheEnd) {
  for (const int threads : {1, 3}) {
    Choir::log().farewells = 0;
    { const Concert concert(options_of(3, threads)); }
    EXPECT_EQ(Choir::log().farewells, threads);
  }
}

TEST(Batched, AFailureCanBeReplayed) {
  const std::string folder = testing::TempDir() + "choir-" + std::to_string(getpid());
  VecOptions options = options_of(2, 1);
  options.crash_dir = folder;
  Concert concert(options);
  for (int t = 0; t < 4; ++t) concert.step({0, t == 3 ? Choir::kThrowAfter : Choir::kSing});
  const auto failures = concert.vec().take_failures();
  ASSERT_EQ(failures.size(), 1u);
  const ReplayResult result = replay(choir(), CrashBundle::read(failures[0].bundle));
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.steps, 3u);
  EXPECT_EQ(result.cause, "choir: told to throw after");
  std::filesystem::remove_all(folder);
}

TEST(Batched, OneGroupAndNoProcesses) {
  const auto refusal = [](const VecOptions& options) {
    return error_text(ErrorCode::kUsage, [&] { Concert concert(options); });
  };
  VecOptions processes = options_of(4, 1), groups = options_of(4, 2);
  processes.backend = Backend::kProcesses;
  groups.groups = 2;
  EXPECT_EQ(refusal(processes),
            "backend: expected serial or threads, not processes: the environments of 'choir' step "
            "all together");
  EXPECT_EQ(refusal(groups),
            "groups: expected 1, not 2: the environments of 'choir' step all together");
}

// Its stage makes something new in every step.
class Hoard {
 public:
  struct State {
    int32_t count;
  };
  static Schema schema() { return {}; }
  explicit Hoard(const Config&) {
    spec_.obs = ObsSpace::float32({1}, 0, 10);
    spec_.action = ActionSpace::discrete(2);
  }
  const EnvSpec& spec() const { return spec_; }
  void reset(State&, Rng&) const {}
  void prepare(State&, ActionRow, Rng&) const {}

  class Heap final : public Stage<State> {
   public:
    void run(std::span<State* const>) override { latest_ = std::make_unique<int>(1); }

   private:
    std::unique_ptr<int> latest_;
  };
  std::unique_ptr<Stage<State>> make_stage(ThreadPool&) const { return std::make_unique<Heap>(); }

  Outcome step(State& s, ActionRow, Rng&) const { return {.terminated = ++s.count == 10}; }
  void observe(const State& s, ObsRow row) const { row.f32()[0] = static_cast<float>(s.count); }

 private:
  EnvSpec spec_;
};

TEST(Batched, AStageThatAllocatesIsFound) {
  if (!can_count_allocations()) GTEST_SKIP();
  const EnvType type = env_type<Hoard>("hoard", "keeps nothing");
  for (const CheckResult& result : check_env(type, Config(type.schema), {})) {
    EXPECT_EQ(result.passed, result.name != "no allocation") << result.name;
    if (!result.passed) {
      EXPECT_EQ(result.detail, "300 allocations in 300 steps");
    }
  }
}

TEST(InvalidSteps, CountForNothingUntilTheEpisodeEnds) {
  Concert concert(options_of(2, 1));
  for (int t = 0; t < 2 * Choir::kLength; ++t) {
    const float voice = concert.voice(1);
    concert.step({0, t == 2 ? Choir::kFalter : Choir::kSing});
    const StepView v = concert.view();
    const bool faltered = t >= 2 && t < Choir::kLength;
    EXPECT_EQ(v.valid[0], 1) << t;
    EXPECT_EQ(v.valid[1], faltered ? 0 : 1) << t;
    EXPECT_EQ(v.reward[1] == 0, faltered) << t;
    EXPECT_EQ(v.terminated[1], t % Choir::kLength == Choir::kLength - 1) << "no new episode: " << t;
    if (t == Choir::kLength - 1) {
      EXPECT_EQ(v.episode_return[1], 4 * voice + 1) << "of the two steps that were valid";
      EXPECT_TRUE(std::isnan(v.metrics[2]));
      EXPECT_EQ(v.metrics[3], 1);
    }
  }
  EXPECT_TRUE(concert.vec().take_failures().empty()) << "nothing broke";
}

}  // namespace
}  // namespace flotilla::test
