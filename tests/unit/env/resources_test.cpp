// What a VecEnv costs: no allocation per step, and memory that does not grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "flotilla/core/alloc_count.h"
#include "flotilla/core/system.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"
#include "support/build.h"

namespace flotilla::test {
namespace {

constexpr uint64_t kMargin = 2 << 20;

TEST(Allocations, NonePerResetEither) {
  if (!can_count_allocations()) GTEST_SKIP();
  Batch batch("cartpole", {}, serial(10));
  batch.reset(1);
  const uint64_t before = allocation_count();
  for (uint64_t seed = 0; seed < 20; ++seed) batch.reset(seed);
  EXPECT_EQ(allocation_count() - before, 0u);
}

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  }
};

TEST_F(Memory, DoesNotGrowWithMakingAndEnding) {
  for (const Variant& variant : variants(16)) {
    SCOPED_TRACE(variant.name);
    const auto cycle = [&] {
      Batch batch("cartpole", {}, variant.options);
      batch.reset(1);
      for (uint64_t t = 0; t < 3; ++t) batch.step_randomly(1, t);
    };
    for (int i = 0; i < 5; ++i) cycle();
    const uint64_t before = resident_bytes();
    for (int i = 0; i < 50; ++i) cycle();
    EXPECT_LT(resident_bytes(), before + kMargin);
  }
}

// Resident memory of a process, from outside.
uint64_t resident_bytes_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(getpagesize());
}

TEST_F(Memory, DoesNotGrowWithSteps) {
  constexpr int kEnvs = 1000;
  for (const Variant& variant : variants(kEnvs)) {
    SCOPED_TRACE(variant.name);
    const EnvType& type = registry().find("cartpole");
    RandomRun run(type, Config(type.schema), variant.options, 1);
    const auto total = [&] {
      uint64_t bytes = resident_bytes();
      for (const pid_t pid : run.vec().worker_pids()) bytes += resident_bytes_of(pid);
      return bytes;
    };
    run.run(1000);  // a million env steps
    const uint64_t before = total();
    run.run(variant.options.backend == Backend::kProcesses ? 2000 : 9000);
    EXPECT_LT(total(), before + kMargin);
  }
}

TEST_F(Memory, DoesNotGrowWithSavingAndLoading) {
  Batch batch("cartpole", {}, serial(100));
  batch.reset(1);
  const auto cycle = [&] {
    batch.load(batch.saved());
    batch.step_randomly(1, 1);
  };
  for (int i = 0; i < 50; ++i) cycle();
  const uint64_t before = resident_bytes();
  for (int i = 0; i < 1000; ++i) cycle();
  EXPECT_LT(resident_bytes(), before + kMargin);
}

TEST_F(Memory, TooMuchIsRefusedBeforeAnythingStarts) {
  VecOptions options = serial(kMaxEnvs);
  ArenaLayout layout;
  layout.add<std::byte>("rollout", 1, size_t{1} << 50);
  const EnvType& type = registry().find("cartpole");
  try {
    make_vec_env(type, Config(type.schema), options, layout);
    ADD_FAILURE() << "a petabyte was given";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find("of memory"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace flotilla::test
