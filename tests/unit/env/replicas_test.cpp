// Environments that have the same random numbers and differ by their actions alone.
#include <gtest/gtest.h>

#include "flotilla/env/replay.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

constexpr int kAll = 8, kReplicas = 3;  // the last group is smaller

VecOptions with_replicas(VecOptions options) {
  options.replicas = kReplicas;
  return options;
}

// The same action for all envs of a group.
void act_alike(Batch& batch, uint64_t step) {
  random_actions(batch.spec(), {0, kAll}, 5, step, batch.view().mask, batch.actions_out());
  const size_t bytes = batch.spec().action.dims() * sizeof(int32_t);
  for (size_t env = 0; env < kAll; ++env) {
    std::memcpy(batch.actions_out() + env * bytes,
                batch.actions_out() + env / kReplicas * kReplicas * bytes, bytes);
  }
}

TEST(Replicas, LiveThroughTheSameWithTheSameActions) {
  for (const char* env : {"catch", "pendulum"}) {
    for (const Variant& variant : variants(kAll)) {
      SCOPED_TRACE(std::string(env) + ", " + variant.name);
      Batch batch(env, {}, with_replicas(variant.options));
      Batch others(env, {}, serial(kAll));  // each with its own numbers
      batch.reset(3);
      others.reset(3);
      for (int i = 0; i < kAll; ++i) EXPECT_EQ(batch.row(i), others.row(i / kReplicas));
      for (uint64_t t = 0; t < 300; ++t) {  // over the ends of episodes
        act_alike(batch, t);
        batch.step();
        for (int i = 0; i < kAll; ++i) {
          ASSERT_EQ(batch.row(i), batch.row(i / kReplicas * kReplicas)) << "step " << t;
        }
      }
      EXPECT_NE(batch.row(0), batch.row(kReplicas));
    }
  }
}

TEST(Replicas, DifferByTheirActions) {
  Batch batch("pendulum", {}, with_replicas(serial(kAll)));
  batch.reset(3);
  for (uint64_t t = 0; t < 20; ++t) batch.step_randomly(5, t);
  EXPECT_NE(batch.row(0), batch.row(1));
}

TEST(Replicas, AreAtLeastOne) {
  VecOptions options = serial(2);
  options.replicas = 0;
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { Batch("catch", {}, options); }),
            "replicas: expected an integer from 1 to 1000000, got 0");
}

}  // namespace
}  // namespace flotilla::test
