// Blocks that several processes share: what they put together does not depend on who has which.
#include "flotilla/core/blocks.h"

#include <gtest/gtest.h>

#include <map>

#include "support/thread_team.h"

namespace flotilla::test {
namespace {

TEST(Blocks, AreSharedOutInOrder) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<Span> mine(static_cast<size_t>(ranks));
    ThreadTeam(ranks).run([&](Collective& collective) {
      mine[static_cast<size_t>(collective.rank())] =
          Blocks(12, collective, BlockSum::kExact).mine();
    });
    int next = 0;
    for (const Span& blocks : mine) {
      EXPECT_EQ(blocks.begin, next);
      EXPECT_GE(blocks.size(), 12 / ranks);
      EXPECT_LE(blocks.size(), (12 + ranks - 1) / ranks);
      next = blocks.end;
    }
    EXPECT_EQ(next, 12);
  }
}

TEST(Blocks, GatherNumbersInTheirOrder) {
  for (int ranks = 1; ranks <= 5; ++ranks) {
    ThreadTeam(ranks).run([&](Collective& collective) {
      const Blocks blocks(7, collective, BlockSum::kExact);
      std::vector<double> own;
      for (int b = blocks.mine().begin; b < blocks.mine().end; ++b) {
        own.push_back(b);
        own.push_back(b + 0.5);
      }
      const std::vector<double> all = blocks.gather(own);
      ASSERT_EQ(all.size(), 14U);
      for (int b = 0; b < 7; ++b) {
        EXPECT_EQ(all[static_cast<size_t>(2 * b)], b);
        EXPECT_EQ(all[static_cast<size_t>(2 * b + 1)], b + 0.5);
      }
    });
  }
}

// Whose sums are rounded, so that another order gives another one.
float gradient_of(int block, size_t i) {
  return static_cast<float>(1 + block * 7 % 5) /
         static_cast<float>(3 * i + 7 + static_cast<size_t>(block));
}

std::vector<float> added_up(int ranks, BlockSum order, size_t size = 1000) {
  std::vector<float> result;
  ThreadTeam(ranks).run([&](Collective& collective) {
    Blocks blocks(9, collective, order);
    std::vector<float> gradients, gradient(size, 99);
    std::vector<double> sums, sum(2, 99);
    for (int b = blocks.mine().begin; b < blocks.mine().end; ++b) {
      for (size_t i = 0; i < size; ++i) gradients.push_back(gradient_of(b, i));
      sums.insert(sums.end(), {b + 1.0, 0.1 * b});
    }
    blocks.add_up(gradients, sums, gradient, sum);
    EXPECT_EQ(sum[0], 45);
    EXPECT_NEAR(sum[1], 3.6, 1e-6);
    if (collective.rank() == 0) result = gradient;
  });
  return result;
}

TEST(Blocks, AddUpToTheSameBitsForAnyNumberOfProcesses) {
  const std::vector<float> expected = added_up(1, BlockSum::kExact);
  for (size_t i = 0; i < expected.size(); ++i) {
    float sum = 0;
    for (int b = 0; b < 9; ++b) sum += gradient_of(b, i);
    ASSERT_EQ(expected[i], sum);
  }
  for (int ranks = 2; ranks <= 5; ++ranks) {
    EXPECT_EQ(added_up(ranks, BlockSum::kExact), expected) << ranks;
    const std::vector<float> fast = added_up(ranks, BlockSum::kFast);
    EXPECT_NE(fast, expected) << ranks;
    for (size_t i = 0; i < fast.size(); ++i) ASSERT_NEAR(fast[i], expected[i], 1e-4);
  }
}

TEST(Blocks, AddUpWhatIsTooLargeToBeGathered) {
  constexpr size_t kLarge = 200'000;
  const std::vector<float> expected = added_up(1, BlockSum::kExact, kLarge);
  const std::vector<float> fast = added_up(3, BlockSum::kFast, kLarge);
  for (size_t i = 0; i < kLarge; ++i) ASSERT_NEAR(fast[i], expected[i], 1e-4);
}

TEST(Collective, GathersBytesOfDifferentLengths) {
  ThreadTeam(3).run([](Collective& collective) {
    const std::vector<std::byte> own(static_cast<size_t>(collective.rank()) * 5,
                                     static_cast<std::byte>(collective.rank()));
    const auto all = gather_bytes(collective, own);
    ASSERT_EQ(all.size(), 3U);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(all[r], std::vector<std::byte>(r * 5, static_cast<std::byte>(r)));
    }
    EXPECT_EQ(broadcast_text(collective, "of " + std::to_string(collective.rank())), "of 0");
  });
}

TEST(Collective, NamesARankThatIsLost) {
  ThreadTeam team(3);
  std::vector<std::string> said(3);
  const auto body = [&](Collective& collective) {
    try {
      if (collective.rank() == 1) throw Error(ErrorCode::kData, "the disk is full");
      gather_bytes(collective, {});
    } catch (const Error& error) {
      said[static_cast<size_t>(collective.rank())] = error.what();
      throw;
    }
  };
  EXPECT_THROW(team.run(body), Error);
  EXPECT_EQ(said,
            (std::vector<std::string>{"rank 1 is lost", "the disk is full", "rank 1 is lost"}));
}

}  // namespace
}  // namespace flotilla::test
