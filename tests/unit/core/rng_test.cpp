#include "flotilla/core/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <type_traits>
#include <vector>

namespace flotilla {
namespace {

using Words = std::array<uint32_t, 4>;

constexpr uint64_t kStream = stream_of(Purpose::kTest, 1);

// philox4x32-10 of the Random123 distribution's known-answer file (kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordsOfAStreamAreItsBlocks) {
  const uint64_t seed = 0x299f31d0a4093822, stream = 0x0370734413198a2e;
  const uint64_t block = 0x85a308d3243f6a88 % (uint64_t{1} << 62u);
  Rng rng(seed, stream, block * 4);
  const Words expected =
      philox4x32({0x243f6a88, 0x05a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  for (const uint32_t word : expected) EXPECT_EQ(rng.next_u32(), word);
}

TEST(Rng, SixtyFourBitsAreTwoWordsLowFirst) {
  Rng rng(0, 0);
  EXPECT_EQ(rng.next_u64(), 0xe169c58d6627e8d5u);
  EXPECT_EQ(rng.next_u64(), 0x9b00dbd8bc57ac4cu);
}

TEST(Rng, PositionCountsWords) {
  Rng rng(7, kStream);
  EXPECT_EQ(rng.position(), 0u);
  rng.next_u32();
  EXPECT_EQ(rng.position(), 1u);
  rng.next_u64();
  EXPECT_EQ(rng.position(), 3u);
  rng.uniform();
  EXPECT_EQ(rng.position(), 5u);
  rng.normal();
  EXPECT_EQ(rng.position(), 9u);
  rng.below(8);  // a power of two never draws again
  EXPECT_EQ(rng.position(), 10u);
  EXPECT_EQ(rng.seed(), 7u);
  EXPECT_EQ(rng.stream(), kStream);
}

TEST(Rng, SeekGoesAnywhere) {
  Rng rng(7, kStream);
  std::vector<uint32_t> words(41);
  for (uint32_t& word : words) word = rng.next_u32();
  for (size_t start = 0; start < words.size(); ++start) {
    rng.seek(start);
    Rng fresh(7, kStream, start);
    EXPECT_EQ(rng.position(), start);
    for (size_t i = start; i < words.size(); ++i) {
      ASSERT_EQ(rng.next_u32(), words[i]);
      ASSERT_EQ(fresh.next_u32(), words[i]);
    }
  }
}

TEST(Rng, BytesAreTheWholeState) {
  static_assert(std::is_trivially_copyable_v<Rng>);
  for (int drawn = 0; drawn < 9; ++drawn) {
    Rng rng(7, kStream);
    for (int i = 0; i < drawn; ++i) rng.next_u32();
    std::array<std::byte, sizeof(Rng)> bytes;
    std::memcpy(bytes.data(), &rng, sizeof(Rng));
    Rng copy;
    std::memcpy(&copy, bytes.data(), sizeof(Rng));
    for (int i = 0; i < 9; ++i) ASSERT_EQ(copy.next_u32(), rng.next_u32());
    EXPECT_EQ(copy.position(), rng.position());
  }
}

TEST(Rng, StreamsAndSeedsDiffer) {
  std::set<uint64_t> first;
  int streams = 0;
  for (const Purpose purpose : {Purpose::kEnv, Purpose::kAction, Purpose::kTest}) {
    for (uint64_t index = 0; index < 1000; ++index) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        first.insert(Rng(seed, stream_of(purpose, index)).next_u64());
        ++streams;
      }
    }
  }
  EXPECT_EQ(first.size(), static_cast<size_t>(streams));
  EXPECT_EQ(stream_of(Purpose::kEnv, 5), 5u);
  EXPECT_EQ(stream_of(Purpose::kAction, 5), 0x0001000000000005u);
  EXPECT_EQ(stream_of(Purpose::kTest, 5), 0x0002000000000005u);
}

double chi_square(const std::vector<int>& counts, double expected) {
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// The limits of the chi-square tests are the 99.99 % quantiles; the draws are always the same, so
// a passing test cannot begin to fail by chance.
TEST(Rng, BelowIsUniformForSmallN) {
  constexpr int kDraws = 300'000;
  for (const auto& [n, limit] : {std::pair{2u, 15.14}, {3u, 18.42}, {7u, 27.86}}) {
    Rng rng(11, stream_of(Purpose::kTest, n));
    std::vector<int> counts(n);
    for (int i = 0; i < kDraws; ++i) ++counts.at(rng.below(n));
    EXPECT_LT(chi_square(counts, static_cast<double>(kDraws) / n), limit) << "n = " << n;
  }
}

// 2^32 = 4/3 n: a remainder would make the values below 2^30 twice as likely, and a product
// without rejection the multiples of three.
TEST(Rng, BelowIsUniformForLargeN) {
  constexpr uint32_t kN = uint32_t{3} << 30u;
  constexpr int kDraws = 300'000;
  Rng rng(11, kStream);
  std::vector<int> thirds(3), remainders(3);
  for (int i = 0; i < kDraws; ++i) {
    const uint32_t value = rng.below(kN);
    ASSERT_LT(value, kN);
    ++thirds[value >> 30u];
    ++remainders[value % 3];
  }
  EXPECT_LT(chi_square(thirds, kDraws / 3.0), 18.42);
  EXPECT_LT(chi_square(remainders, kDraws / 3.0), 18.42);
  // One draw in four is rejected: a geometric number of draws, mean 4/3, variance 4/9.
  const double per_value = static_cast<double>(rng.position()) / kDraws;
  EXPECT_NEAR(per_value, 4.0 / 3, 4 * std::sqrt(4.0 / 9 / kDraws));
}

TEST(Rng, BelowOneIsZero) {
  Rng rng(1, kStream);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(rng.below(1), 0u);
}

TEST(Rng, UniformHasItsRangeMeanAndVariance) {
  constexpr int kDraws = 1'000'000;
  Rng rng(3, kStream);
  double sum = 0, squares = 0;
  std::vector<int> tenths(10);
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ASSERT_EQ(value * 0x1.0p53, std::floor(value * 0x1.0p53));
    sum += value;
    squares += (value - 0.5) * (value - 0.5);
    ++tenths[static_cast<size_t>(value * 10)];
  }
  // Four standard errors: of the mean sqrt(1/12/n), of the variance sqrt(1/180/n).
  EXPECT_NEAR(sum / kDraws, 0.5, 4 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NEAR(squares / kDraws, 1.0 / 12, 4 * std::sqrt(1.0 / 180 / kDraws));
  EXPECT_LT(chi_square(tenths, kDraws / 10.0), 33.72);
}

TEST(Rng, UniformIsExact) {
  Rng rng(0, 0);
  EXPECT_EQ(rng.uniform(), static_cast<double>(0xe169c58d6627e8d5u >> 11u) * 0x1.0p-53);
  EXPECT_EQ(rng.uniform(-2, 6),
            -2 + 8 * static_cast<double>(0x9b00dbd8bc57ac4cu >> 11u) * 0x1.0p-53);
}

TEST(Rng, UniformOverARange) {
  Rng rng(3, kStream);
  double sum = 0;
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double value = rng.uniform(-3, 5);
    ASSERT_GE(value, -3.0);
    ASSERT_LT(value, 5.0);
    sum += value;
  }
  EXPECT_NEAR(sum / kDraws, 1.0, 4 * std::sqrt(64.0 / 12 / kDraws));
}

TEST(Rng, ChanceKeepsItsProbability) {
  Rng rng(3, kStream);
  constexpr int kDraws = 100'000;
  int hits = 0;
  for (int i = 0; i < kDraws; ++i) {
    hits += rng.chance(0.3) ? 1 : 0;
    ASSERT_FALSE(rng.chance(0));
    ASSERT_TRUE(rng.chance(1));
  }
  EXPECT_NEAR(static_cast<double>(hits) / kDraws, 0.3, 4 * std::sqrt(0.21 / kDraws));
}

TEST(Rng, NormalHasItsMoments) {
  constexpr int kDraws = 1'000'000;
  Rng rng(5, kStream);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  int inside = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double z = rng.normal();
    ASSERT_TRUE(std::isfinite(z));
    m1 += z;
    m2 += z * z;
    m3 += z * z * z;
    m4 += z * z * z * z;
    inside += std::abs(z) < 1 ? 1 : 0;
  }
  // Four standard errors; the k-th moment has variance (m_2k - m_k^2) / n.
  EXPECT_NEAR(m1 / kDraws, 0, 4 * std::sqrt(1.0 / kDraws));
  EXPECT_NEAR(m2 / kDraws, 1, 4 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(m3 / kDraws, 0, 4 * std::sqrt(15.0 / kDraws));
  EXPECT_NEAR(m4 / kDraws, 3, 4 * std::sqrt(96.0 / kDraws));
  EXPECT_NEAR(static_cast<double>(inside) / kDraws, std::erf(std::sqrt(0.5)),
              4 * std::sqrt(0.217 / kDraws));
}

}  // namespace
}  // namespace flotilla
