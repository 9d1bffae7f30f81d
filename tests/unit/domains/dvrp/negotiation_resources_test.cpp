// What a negotiation costs besides time: no allocation per step once the first ones are made,
// whatever the travellers ask for, and none per episode.
#include <gtest/gtest.h>

#include "flotilla/core/alloc_count.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::Variant;

// The first steps are those of the shortest instances: room for longer ones is made ahead of them.
uint64_t allocations_of(const std::vector<std::string>& settings, const Variant& variant,
                        uint64_t steps) {
  const EnvType& type = flotilla::test::shipped().find("dvrp");
  RandomRun run(type, flotilla::test::config_of(type, settings), variant.options, 1);
  run.run(5);
  const uint64_t before = allocation_count();
  run.run(steps);
  return allocation_count() - before;
}

TEST(NegotiationResources, NoAllocationPerStep) {
  if (!can_count_allocations()) GTEST_SKIP();
  const EnvType& type = flotilla::test::shipped().find("dvrp");
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"observation=dense", "reward=temporal", "acceptance=hard", "oracle.refine=5"},
      {"observation=onehot", "reward=counterfactual", "oracle.starts=5", "oracle.refine=5"},
      {"observation=detours", "advice.types=learnt", "oracle.refine=5"},
      {"observation=detours", "advice.types=true", "oracle.improve=0", "oracle.refine=0"},
      {"oracle.kind=insertion", "reward=counterfactual", "oracle.refine=5"},
      {"oracle.kind=insertion", "oracle.improve=0", "oracle.refine=100", "customers=12"},
      {"observation=detours", "max_excess=20", "oracle.refine=5"},
      {"customers=1"},
  };
  for (const std::vector<std::string>& settings : cases) {
    for (const Variant& variant : flotilla::test::variants_for(type, 7)) {
      EXPECT_EQ(allocations_of(settings, variant, 30), 0U)
          << variant.name << ", " << testing::PrintToString(settings);
    }
  }
}

}  // namespace
}  // namespace flotilla::dvrp::test
