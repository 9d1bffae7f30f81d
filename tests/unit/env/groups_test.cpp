// Two groups in turn, misuse, and the end of a VecEnv in the middle of its work.
#include <gtest/gtest.h>

#include <functional>

#include "flotilla/env/random_run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;

std::string usage(const std::function<void()>& call) { return error_text(ErrorCode::kUsage, call); }

TEST(Groups, AnyOrderGivesTheSameAsOneGroup) {
  const std::vector<std::vector<int>> begin_orders = {{0, 1}, {1, 0}}, wait_orders = begin_orders;
  for (const char* env : {"faulty", "catch", "pendulum"}) {
    Batch one(env, {}, serial(9));
    one.reset(3);
    std::vector<std::vector<std::string>> expected;
    for (uint64_t t = 0; t < 60; ++t) {
      one.step_randomly(3, t);
      expected.push_back(one.rows());
    }
    for (const Variant& variant : variants(9)) {
      if (variant.options.groups != 2) continue;
      SCOPED_TRACE(std::string(env) + ", " + variant.name);
      Batch two(env, {}, variant.options);
      two.reset(3);
      for (uint64_t t = 0; t < 60; ++t) {
        for (const int g : begin_orders[t % 2]) {
          random_actions(two.spec(), two.vec().group(g), 3, t, two.view().mask, two.actions_out());
          two.begin(g);
        }
        for (const int g : wait_orders[t / 2 % 2]) two.vec().wait(g);
        ASSERT_EQ(two.rows(), expected[t]) << "step " << t;
      }
    }
  }
}

TEST(Groups, OverlappedRunsAreTheSame) {
  for (const Variant& variant : variants(9)) {
    SCOPED_TRACE(variant.name);
    const EnvType& type = registry().find("faulty");
    RandomRun plain(type, Config(type.schema), serial(9), 4);
    RandomRun overlapped(type, Config(type.schema), variant.options, 4);
    for (int t = 0; t < 200; ++t) plain.step();
    overlapped.run(150);
    overlapped.run(50);
    EXPECT_EQ(overlapped.steps(), 200u);
    for (int i = 0; i < 9; ++i) {
      EXPECT_EQ(row_bytes(overlapped.vec().spec(), overlapped.view(), i),
                row_bytes(plain.vec().spec(), plain.view(), i));
    }
  }
}

TEST(Groups, OneMayStepOftenWhileTheOtherIsInFlight) {
  for (const Variant& variant : variants(4)) {
    if (variant.options.groups != 2) continue;
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"time_limit=100"}, variant.options);
    batch.reset(1);
    batch.put({kGo, kGo, kGo, kGo});
    batch.begin(0);
    for (int t = 0; t < 20; ++t) {
      batch.begin(1);
      batch.vec().wait(1);
    }
    batch.vec().wait(0);
    EXPECT_EQ(batch.obs(0)[0], 1);
    EXPECT_EQ(batch.obs(3)[0], 20);
  }
}

TEST(Groups, AStepTouchesOnlyTheRowsOfItsGroup) {
  for (const Variant& variant : variants(150)) {
    if (variant.options.groups != 2) continue;
    SCOPED_TRACE(variant.name);
    Batch batch("faulty", {}, variant.options);
    batch.reset(1);
    batch.step_randomly(1, 0);
    const auto before = batch.rows();
    random_actions(batch.spec(), {0, 150}, 1, 1, batch.view().mask, batch.actions_out());
    batch.begin(1);
    batch.vec().wait(1);
    const Span stepped = batch.vec().group(1);
    for (int i = 0; i < 150; ++i) {
      const bool inside = i >= stepped.begin && i < stepped.end;
      EXPECT_EQ(batch.row(i) != before[static_cast<size_t>(i)], inside) << "env " << i;
    }
  }
}

TEST(Groups, WhenTheLastEnvOfBothIsGoneTheRunEnds) {
  for (const Variant& variant : variants(2)) {
    if (variant.options.groups != 2) continue;
    SCOPED_TRACE(variant.name);
    VecOptions options = variant.options;
    options.on_failure = OnFailure::kDrop;
    Batch batch("test_script", {}, options);
    batch.reset(1);
    batch.step({kGo, kThrow});
    std::string text = "no error";
    try {
      batch.step({kThrow, kGo});
    } catch (const EnvFailure& failure) {
      text = failure.what();
    }
    EXPECT_NE(text.find("no environment is left"), std::string::npos) << text;
  }
}

TEST(Misuse, IsRefusedAndDoesNoHarm) {
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"time_limit=100"}, variant.options);
    VecEnv& vec = batch.vec();
    const int groups = vec.groups();
    batch.put({kGo, kGo, kGo, kGo});
    EXPECT_EQ(usage([&] { batch.begin(0); }), "begin() before reset()");
    EXPECT_EQ(usage([&] { vec.wait(0); }), "wait() without begin()");
    batch.reset(1);
    EXPECT_EQ(usage([&] { vec.wait(0); }), "wait() without begin()");
    EXPECT_EQ(usage([&] { vec.wait(-1); }), "wait() without begin()");
    EXPECT_EQ(usage([&] { vec.wait(groups); }), "wait() without begin()");
    EXPECT_EQ(usage([&] { batch.begin(groups); }),
              "no group " + std::to_string(groups) + " of " + std::to_string(groups));
    EXPECT_EQ(usage([&] { batch.begin(-1); }), "no group -1 of " + std::to_string(groups));

    batch.begin(0);
    EXPECT_EQ(usage([&] { batch.begin(0); }), "begin() again before wait()");
    EXPECT_EQ(usage([&] { batch.reset(2); }), "reset() while group 0 steps");
    EXPECT_EQ(usage([&] { batch.saved(); }), "save() while group 0 steps");
    Writer empty;
    EXPECT_EQ(usage([&] { batch.load(empty.buffer()); }), "load() while group 0 steps");
    vec.wait(0);
    EXPECT_EQ(usage([&] { vec.wait(0); }), "wait() without begin()");
    EXPECT_EQ(batch.obs(0), (std::vector<float>{1, static_cast<float>(env_rng(1, 0).below(1000)),
                                                batch.obs(0)[2]}))
        << "one step was made, of seed 1";

    batch.put({kGo, kGo, kGo, kGo});
    batch.put({99});
    EXPECT_EQ(usage([&] { batch.begin(0); }),
              "env 0 of 'test_script': action 99 is outside Discrete(9)");
    batch.put({kGo});
    batch.begin(0);  // a refused step leaves the group free
    vec.wait(0);
    EXPECT_EQ(batch.obs(0)[0], 2);
  }
}

TEST(Groups, SharesThatFollowTheThreadsChangeNothing) {
  // Large enough for the shares to be cut anew, often enough to move.
  constexpr int kEnvs = 1500;
  const EnvType& type = registry().find("cartpole");
  RandomRun plain(type, Config(type.schema), serial(kEnvs), 4);
  plain.run(400);
  for (const int threads : {2, 3, 5}) {
    for (const int groups : {1, 2}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << groups << " groups");
      VecOptions options = serial(kEnvs);
      options.backend = Backend::kThreads;
      options.threads = threads;
      options.groups = groups;
      RandomRun shared(type, Config(type.schema), options, 4);
      shared.run(400);
      for (int i = 0; i < kEnvs; ++i) {
        ASSERT_EQ(row_bytes(plain.vec().spec(), shared.view(), i),
                  row_bytes(plain.vec().spec(), plain.view(), i))
            << "env " << i;
      }
    }
  }
}

TEST(Misuse, WhatAnActorDoesWrongIsReportedByName) {
  struct Choice {
    Batch* batch;
    int32_t last;  // of the last env; -1: the actor throws instead
  };
  const auto act = [](void* context, int, Span envs) {
    const Choice& choice = *static_cast<const Choice*>(context);
    auto* actions = reinterpret_cast<int32_t*>(choice.batch->actions_out());
    for (int env = envs.begin; env < envs.end; ++env) {
      if (env == 8 && choice.last < 0) throw Error(ErrorCode::kUsage, "no idea");
      actions[env] = env == 8 ? choice.last : kGo;
    }
  };
  for (const Variant& variant : variants(9)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    const auto step = [&](int32_t last) {
      Choice choice{&batch, last};
      for (int g = 0; g < batch.vec().groups(); ++g) {
        batch.vec().begin(g, batch.actions(), batch.view(), {act, &choice});
        batch.vec().wait(g);
      }
    };
    batch.reset(1);
    EXPECT_EQ(usage([&] { step(99); }), "env 8 of 'test_script': action 99 is outside Discrete(9)");
    EXPECT_EQ(usage([&] { step(-1); }), "no idea");
    batch.reset(1);
    step(kGo);
    for (int env = 0; env < 9; ++env) EXPECT_EQ(batch.obs(env)[0], 1);
  }
}

TEST(Misuse, ViewsMustLieInTheArena) {
  const std::string refusal = "a step view does not lie in this VecEnv's arena";
  std::vector<std::byte> heap(4096);
  auto* const outside = heap.data();
  const std::vector<std::function<void(StepView&)>> moves = {
      [&](StepView& v) { v.obs = outside; },
      [&](StepView& v) { v.reward = reinterpret_cast<float*>(outside); },
      [&](StepView& v) { v.terminated = reinterpret_cast<uint8_t*>(outside); },
      [&](StepView& v) { v.truncated = reinterpret_cast<uint8_t*>(outside); },
      [&](StepView& v) { v.valid = reinterpret_cast<uint8_t*>(outside); },
      [&](StepView& v) { v.mask = reinterpret_cast<uint8_t*>(outside); },
      [&](StepView& v) { v.final_obs = outside; },
      [&](StepView& v) { v.episode_return = reinterpret_cast<float*>(outside); },
      [&](StepView& v) { v.episode_length = reinterpret_cast<int32_t*>(outside); },
      [&](StepView& v) { v.metrics = reinterpret_cast<float*>(outside); },
      [&](StepView& v) { v.obs = nullptr; },
      [&](StepView& v) { v = {}; },
  };
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    Batch other("test_script", {}, serial(4));
    batch.reset(1);
    batch.put({kGo, kGo, kGo, kGo});
    for (const auto& move : moves) {
      StepView view = batch.view();
      move(view);
      EXPECT_EQ(usage([&] { batch.vec().begin(0, batch.actions(), view); }), refusal);
      EXPECT_EQ(usage([&] { batch.vec().reset(1, view); }), refusal);
      Reader reader({}, "nothing");
      EXPECT_EQ(usage([&] { batch.vec().load(reader, view); }), refusal);
    }
    EXPECT_EQ(usage([&] { batch.vec().begin(0, batch.actions(), other.view()); }), refusal);
    StepView past = batch.view();  // its last row would lie behind the end
    past.obs = batch.vec().arena().base() + batch.vec().arena().bytes() - 4;
    EXPECT_EQ(usage([&] { batch.vec().begin(0, batch.actions(), past); }), refusal);
    batch.step({kGo, kGo, kGo, kGo});
    EXPECT_EQ(batch.obs(0)[0], 1);
  }
}

TEST(Misuse, ActionsMustLieInTheArena) {
  // Workers see the arena and nothing else of the caller.
  const std::vector<int32_t> elsewhere(4, kGo);
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {}, variant.options);
    batch.reset(1);
    const auto* outside = reinterpret_cast<const std::byte*>(elsewhere.data());
    const std::byte* end = batch.vec().arena().base() + batch.vec().arena().bytes();
    for (const std::byte* data : {outside, end - 4, static_cast<const std::byte*>(nullptr)}) {
      const std::string text = usage([&] {
        batch.vec().begin(0, {data}, batch.view());
        batch.vec().wait(0);
      });
      ASSERT_NE(text.find("do not lie in this VecEnv's arena"), std::string::npos) << text;
    }
  }
}

TEST(Lifetime, EndsWhileGroupsAreInFlight) {
  for (const Variant& variant : variants(6)) {
    SCOPED_TRACE(variant.name);
    for (int round = 0; round < 3; ++round) {
      Batch batch("cartpole", {}, variant.options);
      batch.reset(1);
      random_actions(batch.spec(), {0, 6}, 1, 0, nullptr, batch.actions_out());
      for (int g = 0; g < batch.vec().groups(); ++g) batch.begin(g);
    }
  }
}

TEST(Lifetime, AnEnvThatCannotBeMadeIsAnError) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    EXPECT_EQ(usage([&] { Batch batch("test_broken", {"defect=bad_spec"}, variant.options); }),
              "environment 'test_broken': reward bounds are out of order");
  }
}

TEST(Lifetime, MoreLanesThanEnvs) {
  VecOptions options = serial(2);
  options.backend = Backend::kThreads;
  options.threads = 7;
  Batch many("faulty", {}, options), one("faulty", {}, serial(2));
  many.reset(1);
  one.reset(1);
  for (uint64_t t = 0; t < 50; ++t) {
    many.step_randomly(1, t);
    one.step_randomly(1, t);
    ASSERT_EQ(many.rows(), one.rows());
  }
}

TEST(CpuSeconds, CountTheWorkersToo) {
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    Batch batch("cartpole", {}, variant.options);
    const bool processes = variant.options.backend == Backend::kProcesses;
    EXPECT_EQ(batch.vec().worker_pids().size(),
              processes ? static_cast<size_t>(variant.options.workers) : 0u);
    const double before = batch.vec().cpu_seconds();
    const double own = process_cpu_seconds();
    EXPECT_GT(before, 0);
    batch.reset(1);
    for (uint64_t t = 0; t < 500; ++t) batch.step_randomly(1, t);
    EXPECT_GE(batch.vec().cpu_seconds() - before, process_cpu_seconds() - own - 0.05);
    EXPECT_GT(batch.vec().cpu_seconds(), before);
  }
}

}  // namespace
}  // namespace flotilla::test
