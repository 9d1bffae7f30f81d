#include "flotilla/env/frame_stack.h"

#include <gtest/gtest.h>

#include <csignal>
#include <deque>
#include <numeric>

#include "flotilla/env/conformance.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
using Bytes = std::vector<std::byte>;
using Frames = std::deque<Bytes>;  // oldest first

EnvSpec spec_of(ObsSpace obs) {
  EnvSpec spec;
  spec.name = "some";
  spec.obs = std::move(obs);
  spec.action = ActionSpace::discrete(2);
  return spec;
}

// Element by element, from the meaning of the words: the last axis holds that of the oldest frame,
// then that of the next one.
Bytes slow_stack(const Frames& frames, const ObsSpace& frame) {
  const size_t size = frame.row_bytes() / frame.elements();
  const auto last = static_cast<size_t>(frame.shape.back());
  Bytes row(frames.size() * frame.row_bytes());
  for (size_t f = 0; f < frames.size(); ++f) {
    for (size_t i = 0; i < frame.elements(); ++i) {
      const size_t to = (i / last * frames.size() + f) * last + i % last;
      std::copy_n(frames[f].begin() + static_cast<long>(i * size), size,
                  row.begin() + static_cast<long>(to * size));
    }
  }
  return row;
}

TEST(FrameStack, PutsEveryElementWhereItBelongs) {
  for (const std::vector<int>& shape :
       {std::vector{5}, {1}, {2, 3, 1}, {4, 2, 3}, {2, 3, 4}, {3, 1, 7}}) {
    for (const bool bytes : {true, false}) {
      const ObsSpace frame = bytes ? ObsSpace::uint8(shape) : ObsSpace::float32(shape, -1, 1);
      for (const int count : {2, 3, 4, 9}) {
        EnvSpec spec = spec_of(frame);
        const FrameStack stack(spec, count);
        EXPECT_EQ(spec.obs.shape.back(), shape.back() * count);
        EXPECT_NO_THROW(spec.validate());
        ASSERT_EQ(spec.obs.row_bytes(), frame.row_bytes() * static_cast<size_t>(count));
        Bytes kept(stack.bytes()), row(spec.obs.row_bytes());
        Frames latest;
        Rng rng(3, stream_of(Purpose::kTest, 0));
        for (uint32_t step = 0; step < 23; ++step) {
          Bytes now(frame.row_bytes());
          for (std::byte& each : now) each = std::byte(rng.below(256));
          latest.resize(static_cast<size_t>(count), now);  // at first, all of them
          latest.pop_front();
          latest.push_back(now);
          std::ranges::copy(now, stack.place(kept.data(), step));
          stack.write(kept.data(), step, row.data());
          ASSERT_EQ(row, slow_stack(latest, frame)) << count << " frames, step " << step;
        }
      }
    }
  }
}

TEST(FrameStack, StacksTheBoundsWithTheElements) {
  EnvSpec spec = spec_of({.type = ObsType::kFloat32,
                          .shape = {1, 2, 2},
                          .low = {0, 1, 2, 3},
                          .high = {10, 11, 12, 13}});
  const FrameStack stack(spec, 2);
  EXPECT_EQ(spec.obs.low, (std::vector<float>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(spec.obs.high, (std::vector<float>{10, 11, 10, 11, 12, 13, 12, 13}));
}

TEST(FrameStack, OfOneFrameChangesNothing) {
  EnvSpec spec = spec_of(ObsSpace::uint8({2, 3}));
  const std::string before = spec.sha256();
  EXPECT_EQ(FrameStack(spec, 1).bytes(), 0u);
  EXPECT_EQ(spec.sha256(), before);
}

TEST(FrameStack, RefusesWhatIsNeitherAVectorNorAnImage) {
  EnvSpec spec = spec_of(ObsSpace::uint8({2, 3}));
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { FrameStack(spec, 4); }),
            "frame_stack: expected 1, not 4: observations of 'some' are (2, 3), neither a vector "
            "nor an image of rows, columns and channels");
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [] { config_of(registry().find("catch"), {"frame_stack=0"}); }),
      "frame_stack: expected an integer from 1 to 64, got '0'");
}

TEST(FrameStack, BeginsWithTheFirstFrameAndEndsWithTheLast) {
  Batch batch("test_script", {"frame_stack=3", "time_limit=3"}, serial(1));
  batch.reset(4);
  const std::vector<float> first = batch.obs(0);
  ASSERT_EQ(first.size(), 9u);
  const float start = first[1];
  EXPECT_EQ(first, (std::vector<float>{0, start, 0, 0, start, 0, 0, start, 0}));
  const auto counts = [](const std::vector<float>& row) {
    return std::vector<float>{row[0], row[3], row[6]};
  };
  batch.step({kGo});
  EXPECT_EQ(counts(batch.obs(0)), (std::vector<float>{0, 0, 1}));
  batch.step({kGo});
  EXPECT_EQ(counts(batch.obs(0)), (std::vector<float>{0, 1, 2}));
  batch.step({kGo});  // the time limit
  EXPECT_EQ(counts(batch.final_obs(0)), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(counts(batch.obs(0)), (std::vector<float>{0, 0, 0}));
  const float next_start = batch.obs(0)[1];
  EXPECT_NE(next_start, start);
  EXPECT_EQ(batch.obs(0)[4], next_start) << "nothing of the episode before";
}

TEST(FrameStack, AFailedEnvBeginsAnew) {
  VecOptions options = serial(2);
  options.on_failure = OnFailure::kRestart;
  options.crash_dir = {};
  Batch batch("test_script", {"frame_stack=2", "time_limit=0"}, options);
  batch.reset(4);
  batch.step({kGo, kGo});
  batch.step({kThrow, kBlind});
  for (const int env : {0, 1}) {
    const std::vector<float> row = batch.obs(env);
    EXPECT_EQ(std::vector<float>(row.begin(), row.begin() + 3),
              std::vector<float>(row.begin() + 3, row.end()));
    EXPECT_EQ(row[0], 0);
  }
}

struct Stacked {
  std::vector<std::string> obs, final_obs;  // of all envs; final where episodes end
};

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What an unstacked run shows, stacked slowly.
std::vector<Stacked> slow_run(const std::string& env, int count, int envs, int steps) {
  Batch plain(env, {}, serial(envs));
  plain.reset(21);
  const ObsSpace& frame = plain.spec().obs;
  const auto at = [&](const std::byte* rows, int i) {
    const std::byte* row = rows + static_cast<size_t>(i) * frame.row_bytes();
    return Bytes(row, row + frame.row_bytes());
  };
  std::vector<Frames> latest;
  for (int i = 0; i < envs; ++i) {
    latest.emplace_back(static_cast<size_t>(count), at(plain.view().obs, i));
  }
  std::vector<Stacked> all;
  for (int t = 0; t < steps; ++t) {
    plain.step_randomly(21, static_cast<uint64_t>(t));
    Stacked& now = all.emplace_back();
    const StepView v = plain.view();
    for (int i = 0; i < envs; ++i) {
      Frames& frames = latest[static_cast<size_t>(i)];
      const bool ended = v.terminated[i] != 0 || v.truncated[i] != 0;
      frames.pop_front();
      frames.push_back(at(ended ? v.final_obs : v.obs, i));
      if (ended) {
        now.final_obs.push_back(text_of(slow_stack(frames, frame)));
        frames.assign(static_cast<size_t>(count), at(v.obs, i));
      }
      now.obs.push_back(text_of(slow_stack(frames, frame)));
    }
  }
  return all;
}

Stacked seen(const Batch& batch, int envs) {
  Stacked now;
  const StepView v = batch.view();
  const size_t bytes = batch.spec().obs.row_bytes();
  const auto row = [&](const std::byte* rows, int i) {
    return std::string(reinterpret_cast<const char*>(rows) + static_cast<size_t>(i) * bytes, bytes);
  };
  for (int i = 0; i < envs; ++i) {
    now.obs.push_back(row(v.obs, i));
    if (v.terminated[i] != 0 || v.truncated[i] != 0) now.final_obs.push_back(row(v.final_obs, i));
  }
  return now;
}

TEST(FrameStack, ShowsTheFramesOfAnUnstackedRunInEveryBackEnd) {
  constexpr int kEnvs = 5, kSteps = 60;
  for (const char* env : {"catch", "pendulum", "cartpole"}) {
    const std::vector<Stacked> expected = slow_run(env, 4, kEnvs, kSteps);
    size_t ended = 0;
    for (const Variant& variant : variants(kEnvs)) {
      SCOPED_TRACE(std::string(env) + ", " + variant.name);
      Batch batch(env, {"frame_stack=4"}, variant.options);
      batch.reset(21);
      for (int t = 0; t < kSteps; ++t) {
        batch.step_randomly(21, static_cast<uint64_t>(t));
        const Stacked now = seen(batch, kEnvs);
        ASSERT_EQ(now.obs, expected[static_cast<size_t>(t)].obs) << "step " << t;
        ASSERT_EQ(now.final_obs, expected[static_cast<size_t>(t)].final_obs) << "step " << t;
        ended += now.final_obs.size();
      }
    }
    EXPECT_EQ(ended > 0, std::string(env) != "pendulum");
  }
}

TEST(FrameStack, IsSavedWithTheStates) {
  constexpr int kEnvs = 5;
  const std::vector<Stacked> expected = slow_run("catch", 3, kEnvs, 40);
  Batch original("catch", {"frame_stack=3"}, serial(kEnvs));
  original.reset(21);
  for (uint64_t t = 0; t < 20; ++t) original.step_randomly(21, t);
  const Bytes saved = original.saved();
  for (const Variant& variant : variants(kEnvs)) {
    SCOPED_TRACE(variant.name);
    Batch restored("catch", {"frame_stack=3"}, variant.options);
    restored.reset(99);
    restored.load(saved);
    EXPECT_EQ(seen(restored, kEnvs).obs, expected[19].obs);
    EXPECT_EQ(restored.saved(), saved);
    for (size_t t = 20; t < 40; ++t) {
      restored.step_randomly(21, t);
      ASSERT_EQ(seen(restored, kEnvs).obs, expected[t].obs) << "step " << t;
    }
  }
  Batch other("catch", {"frame_stack=2"}, serial(kEnvs));
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { other.load(saved); }),
            "saved environments differ from these: another spec of 'catch'");
}

TEST(FrameStack, OutlivesAKilledWorker) {
  constexpr int kEnvs = 5;
  const std::vector<Stacked> expected = slow_run("catch", 3, kEnvs, 12);
  VecOptions options = serial(kEnvs);
  options.backend = Backend::kProcesses;
  options.workers = 2;
  options.on_failure = OnFailure::kRestart;
  Batch batch("catch", {"frame_stack=3"}, options);
  batch.reset(21);
  for (size_t t = 0; t < 12; ++t) {
    if (t == 6) kill(batch.vec().worker_pids()[1], SIGKILL);
    batch.step_randomly(21, t);
    ASSERT_EQ(seen(batch, kEnvs).obs, expected[t].obs) << "step " << t;
  }
  EXPECT_EQ(batch.vec().restarts(), 1);
}

TEST(FrameStack, PassesEveryCheckOfTheConformanceKit) {
  for (const char* env : {"catch", "cartpole"}) {
    const EnvType& type = registry().find(env);
    const auto results = check_env(type, config_of(type, {"frame_stack=3"}), {.steps = 60});
    EXPECT_EQ(results.size(), 12u);
    for (const CheckResult& result : results) {
      EXPECT_TRUE(result.passed) << env << ", " << result.name << ": " << result.detail;
    }
  }
}

TEST(FrameWindow, ShowsWhatALoopShows) {
  const EnvSpec frame = spec_of(ObsSpace::uint8({2, 2, 3}));
  for (const int count : {1, 3}) {
    FrameWindow window(frame, count);
    Frames latest;
    for (uint32_t step = 0; step < 7; ++step) {
      Bytes now(frame.obs.row_bytes(), std::byte(step + 1));
      latest.resize(static_cast<size_t>(count), now);
      latest.pop_front();
      latest.push_back(now);
      const auto row = window.look(
          step, [&](ObsRow out) { std::memcpy(out.u8().data(), now.data(), now.size()); });
      EXPECT_EQ(Bytes(row.begin(), row.end()), slow_stack(latest, frame.obs));
    }
  }
}

}  // namespace
}  // namespace flotilla::test
