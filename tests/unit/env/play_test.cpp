// Envs that make their steps alone: the same rows, states and failures as step by step.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

#include "flotilla/core/system.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 60;

// All that a run shows.
struct Seen {
  std::vector<std::vector<std::string>> rows;  // by step and env
  std::string error;
  std::vector<std::string> failures;
  std::map<std::string, std::string> bundles;
  int restarts = 0;
  std::vector<std::byte> saved;
};

class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "flotilla-play-XXXXXX").string()) {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { fs::remove_all(path_); }
  const std::string& path() const { return path_; }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& entry : fs::directory_iterator(path_)) {
      std::ifstream file(entry.path(), std::ios::binary);
      all[entry.path().filename().string()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return all;
  }

 private:
  std::string path_;
};

// What the run makes of kSteps, by `advance`, which hands rows to its argument as they come.
template <class Advance>
Seen seen(const std::string& env, const std::vector<std::string>& overrides, VecOptions options,
          const Advance& advance) {
  const Folder folder;
  options.crash_dir = folder.path();
  const EnvType& type = registry().find(env);
  RandomRun run(type, config_of(type, overrides), options, 7);
  Seen all;
  all.rows.resize(kSteps, std::vector<std::string>(static_cast<size_t>(options.num_envs)));
  const auto keep = [&](int step, Span envs) {
    for (int i = envs.begin; i < envs.end; ++i) {
      all.rows[static_cast<size_t>(step)][static_cast<size_t>(i)] =
          row_bytes(run.vec().spec(), run.view(), i);
    }
  };
  try {
    advance(run, keep);
    Writer writer;
    run.save(writer);
    all.saved = writer.buffer();
  } catch (const EnvFailure& failure) {
    all.error = failure.what();
    all.error.erase(std::min(all.error.find("; replay it with"), all.error.size()));
  }
  for (FailureReport& failure : run.vec().take_failures()) {
    failure.bundle = fs::path(failure.bundle).filename().string();
    all.failures.push_back(failure.message());
  }
  all.bundles = folder.files();
  all.restarts = run.vec().restarts();
  return all;
}

Seen seen_in_step(const std::string& env, const std::vector<std::string>& overrides,
                  const VecOptions& options) {
  return seen(env, overrides, options, [](RandomRun& run, const auto& keep) {
    for (int step = 0; step < kSteps; ++step) {
      run.step();
      keep(step, {0, run.vec().num_envs()});
    }
  });
}

// In two pieces, so that the second goes on from the first.
Seen seen_alone(const std::string& env, const std::vector<std::string>& overrides,
                const VecOptions& options) {
  return seen(env, overrides, options, [](RandomRun& run, const auto& keep) {
    ASSERT_TRUE(run.vec().plays());
    constexpr int kFirst = 23;
    run.play(kFirst, keep);
    run.play(kSteps - kFirst, [&](int step, Span envs) { keep(kFirst + step, envs); });
  });
}

void expect_same(const Seen& got, const Seen& expected) {
  EXPECT_EQ(got.error, expected.error);
  EXPECT_EQ(got.failures, expected.failures);
  EXPECT_EQ(got.bundles, expected.bundles);
  EXPECT_EQ(got.restarts, expected.restarts);
  if (!expected.error.empty()) return;  // what follows never happened
  EXPECT_EQ(got.rows, expected.rows);
  EXPECT_EQ(got.saved, expected.saved);
}

std::vector<VecOptions> shapes(int num_envs) {
  std::vector<VecOptions> all = {serial(num_envs)};
  for (const int threads : {1, 2, 3, 5}) {
    all.push_back(serial(num_envs));
    all.back().backend = Backend::kThreads;
    all.back().threads = threads;
    all.push_back(all.back());
    all.back().groups = 2;
  }
  return all;
}

TEST(Play, RowsAndStatesAreThoseOfStepsTogether) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {{"cartpole", {}},
                                                                    {"pendulum", {}},
                                                                    {"maze", {}},
                                                                    {"catch", {}},
                                                                    {"faulty", {}},
                                                                    {"test_advised", {}},
                                                                    {"catch", {"frame_stack=4"}},
                                                                    {"faulty", {"frame_stack=3"}}};
  for (const auto& [env, overrides] : cases) {
    for (const int num_envs : {2, 37, 150}) {
      const Seen expected = seen_in_step(env, overrides, serial(num_envs));
      for (const VecOptions& options : shapes(num_envs)) {
        SCOPED_TRACE(testing::Message() << num_envs << " x " << env << ", " << options.threads
                                        << " threads, " << options.groups << " groups");
        expect_same(seen_alone(env, overrides, options), expected);
      }
    }
  }
}

// A third of the random acts of the script throw, and some of its resets.
TEST(Play, FailuresAreSettledAsIfAllHadMetAfterEveryStep) {
  struct Case {
    OnFailure policy;
    int budget;
    const char* reset;
  };
  const Case cases[] = {{OnFailure::kRestart, 1'000'000, "ok"},
                        {OnFailure::kRestart, 150, "ok"},
                        {OnFailure::kRestart, 1'000'000, "auto"},
                        {OnFailure::kRestart, 40, "auto"},
                        {OnFailure::kDrop, 100, "ok"},
                        {OnFailure::kStop, 100, "ok"}};
  for (const Case& each : cases) {
    VecOptions in_step = serial(37);
    in_step.on_failure = each.policy;
    in_step.restart_budget = each.budget;
    const std::vector<std::string> overrides = {"hang_s=0", std::string("reset=") + each.reset};
    const Seen expected = seen_in_step("test_script", overrides, in_step);
    EXPECT_FALSE(expected.failures.empty());
    EXPECT_FALSE(expected.bundles.empty());
    for (VecOptions options : shapes(37)) {
      if (options.groups == 2) continue;  // of two groups the second begins before the first fails
      SCOPED_TRACE(testing::Message() << static_cast<int>(each.policy) << ", budget " << each.budget
                                      << ", " << options.threads << " threads");
      options.on_failure = each.policy;
      options.restart_budget = each.budget;
      expect_same(seen_alone("test_script", overrides, options), expected);
    }
  }
}

// One thread is slow, and the other takes some of its envs over, in the middle of their play.
TEST(Play, EnvsThatChangeHandsMakeTheSameSteps) {
  if (cpu_count() < 2) GTEST_SKIP() << "nobody takes over what the only CPU has to do";
  constexpr int kEnvs = 128;
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"cartpole", {}}, {"faulty", {}}, {"test_script", {"hang_s=0", "reset=auto"}}};
  for (const auto& [env, overrides] : cases) {
    SCOPED_TRACE(env);
    VecOptions options = serial(kEnvs);
    options.on_failure = OnFailure::kRestart;
    options.restart_budget = 1'000'000;
    const Seen expected = seen_in_step(env, overrides, options);
    options.backend = Backend::kThreads;
    options.threads = 2;
    std::atomic<int> halved{0};
    for (int attempt = 0; halved == 0 && attempt < 20; ++attempt) {  // the other core may be taken
      const Seen got = seen(env, overrides, options, [&](RandomRun& run, const auto& keep) {
        run.play(kSteps, [&](int step, Span envs) {
          keep(step, envs);
          if (envs.begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
          if (envs.size() < kEnvs / 2) ++halved;
        });
      });
      expect_same(got, expected);
    }
    EXPECT_GT(halved.load(), 0);
  }
}

// Acts that go wrong at some step of some env.
class Wrong : public Play {
 public:
  explicit Wrong(Batch& batch) : batch_(batch) {}
  ActionView actions(int) const override { return batch_.actions(); }
  StepView view(int) const override { return batch_.view(); }
  void act(int, int step, Span envs) override {
    auto* choices = reinterpret_cast<int32_t*>(batch_.actions_out());
    for (int i = envs.begin; i < envs.end; ++i) {
      choices[i] = Script::kGo;
      if (i == 30 && step == 3) choices[i] = Script::kActs;  // outside the space
      if (i == 2 && step == 5) throw Error(ErrorCode::kNumeric, "the actor at step 5");
      if (i == 9 && step == failing_step) choices[i] = Script::kThrow;
    }
  }
  bool stepped(int, int step, Span) override { return step < 10; }

  int failing_step = -1;

 private:
  Batch& batch_;
};

TEST(Play, TheEarliestOfWhatGoesWrongIsThrown) {
  for (const VecOptions& options : shapes(37)) {
    SCOPED_TRACE(options.threads);
    Batch batch("test_script", {"time_limit=100"}, options);
    batch.reset(1);
    Wrong wrong(batch);
    EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { batch.vec().play(wrong); }),
              "env 30 of 'test_script': action 9 is outside Discrete(9)");
    batch.reset(1);
    wrong.failing_step = 2;
    EXPECT_NE(error_text(ErrorCode::kEnvironment, [&] { batch.vec().play(wrong); }).find("env 9"),
              std::string::npos);
    batch.reset(1);
    wrong.failing_step = 3;  // nobody steps any more
    EXPECT_NE(error_text(ErrorCode::kUsage, [&] { batch.vec().play(wrong); }).find("env 30"),
              std::string::npos);
  }
}

TEST(Play, WhereEnvsStepTogetherTheyDoNotPlayAlone) {
  VecOptions processes = serial(4);
  processes.backend = Backend::kProcesses;
  processes.workers = 2;
  Batch batch("cartpole", {}, processes);
  EXPECT_FALSE(batch.vec().plays());
}

}  // namespace
}  // namespace flotilla::test
