#include "flotilla/nn/normaliser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/nn/network.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

// Rows around 1000 with small deviations: sums of squares would lose the variance.
std::vector<float> random_rows(size_t rows, size_t columns, uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kTest, 0));
  std::vector<float> out(rows * columns);
  for (float& x : out) x = static_cast<float>(1000 + 0.1 * rng.normal());
  return out;
}

struct Moments {
  double mean = 0, variance = 0;
};

template <class T>
Moments two_pass(const std::vector<T>& rows, size_t columns, size_t column,
                 const std::vector<uint8_t>& valid) {
  double count = 0, sum = 0, squares = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) continue;
    sum += static_cast<double>(rows[i * columns + column]);
    count += 1;
  }
  const double mean = sum / count;
  for (size_t i = 0; i < valid.size(); ++i) {
    if (valid[i] == 0) continue;
    squares += std::pow(static_cast<double>(rows[i * columns + column]) - mean, 2);
  }
  return {mean, squares / count};
}

template <class T>
void expect_two_pass(const RunningMoments& moments, const std::vector<T>& rows,
                     const std::vector<uint8_t>& valid) {
  for (size_t column = 0; column < moments.columns(); ++column) {
    const Moments expected = two_pass(rows, moments.columns(), column, valid);
    EXPECT_NEAR(moments.mean(column), expected.mean, 1e-12 * std::abs(expected.mean));
    EXPECT_NEAR(moments.variance(column), expected.variance, 1e-9 * expected.variance);
  }
}

TEST(RunningMoments, BeforeTheFirstRow) {
  RunningMoments moments(2);
  EXPECT_EQ(moments.count(), 0);
  EXPECT_EQ(moments.mean(1), 0);
  EXPECT_EQ(moments.variance(1), 1);
  const float row[2] = {7, 8};
  const uint8_t invalid = 0;
  moments.add(row, 0, nullptr);
  moments.add(row, 1, &invalid);
  EXPECT_EQ(moments.count(), 0);
  EXPECT_EQ(moments.variance(0), 1);
}

TEST(RunningMoments, ByHand) {
  RunningMoments moments(2);
  const float rows[] = {1, 10, 3, 10, 5, 10, 7, 10};
  moments.add(rows, 4, nullptr);
  EXPECT_EQ(moments.count(), 4);
  EXPECT_EQ(moments.mean(0), 4);
  EXPECT_EQ(moments.variance(0), 5);  // (9 + 1 + 1 + 9) / 4
  EXPECT_EQ(moments.mean(1), 10);
  EXPECT_EQ(moments.variance(1), 0);
}

TEST(RunningMoments, BatchesAddUpToTwoPasses) {
  constexpr size_t kRows = 1000, kColumns = 3;
  const std::vector<float> rows = random_rows(kRows, kColumns, 1);
  const std::vector<uint8_t> valid(kRows, 1);
  for (const size_t batch : {size_t{1}, size_t{7}, size_t{64}, kRows}) {
    RunningMoments moments(kColumns);
    for (size_t first = 0; first < kRows; first += batch) {
      moments.add(&rows[first * kColumns], std::min(batch, kRows - first), nullptr);
    }
    EXPECT_EQ(moments.count(), kRows);
    expect_two_pass(moments, rows, valid);
  }
}

TEST(RunningMoments, OrderOfTheBatchesMattersOnlyToRounding) {
  const std::vector<float> a = random_rows(10, 2, 1);
  std::vector<float> b = random_rows(300, 2, 2);
  for (float& x : b) x -= 900;
  RunningMoments ab(2), ba(2), again(2);
  ab.add(a.data(), 10, nullptr);
  ab.add(b.data(), 300, nullptr);
  ba.add(b.data(), 300, nullptr);
  ba.add(a.data(), 10, nullptr);
  again.add(a.data(), 10, nullptr);
  again.add(b.data(), 300, nullptr);
  for (size_t column = 0; column < 2; ++column) {
    EXPECT_NEAR(ab.mean(column), ba.mean(column), 1e-12 * ab.mean(column));
    EXPECT_NEAR(ab.variance(column), ba.variance(column), 1e-12 * ab.variance(column));
    EXPECT_EQ(ab.mean(column), again.mean(column));
    EXPECT_EQ(ab.variance(column), again.variance(column));
  }
}

TEST(RunningMoments, InvalidRowsArePassedOver) {
  constexpr size_t kRows = 200, kColumns = 2;
  std::vector<float> rows = random_rows(kRows, kColumns, 3);
  std::vector<uint8_t> valid(kRows, 1);
  for (size_t i = 0; i < kRows; i += 3) {
    valid[i] = 0;
    rows[i * kColumns] = std::numeric_limits<float>::quiet_NaN();
  }
  RunningMoments moments(kColumns);
  moments.add(rows.data(), 100, valid.data());
  moments.add(&rows[100 * kColumns], 100, &valid[100]);
  EXPECT_EQ(moments.count(), 133);
  expect_two_pass(moments, rows, valid);
}

TEST(RunningMoments, Bytes) {
  constexpr size_t kRows = 100, kColumns = 4;
  Rng rng(4, stream_of(Purpose::kTest, 0));
  std::vector<uint8_t> rows(kRows * kColumns), valid(kRows, 1);
  for (uint8_t& x : rows) x = static_cast<uint8_t>(rng.below(256));
  valid[17] = 0;
  RunningMoments moments(kColumns);
  moments.add(rows.data(), 50, valid.data());
  moments.add(&rows[50 * kColumns], 50, &valid[50]);
  EXPECT_EQ(moments.count(), 99);
  expect_two_pass(moments, rows, valid);
}

std::vector<std::byte> saved(const auto& normaliser) {
  Writer writer;
  normaliser.save(writer);
  return writer.buffer();
}

TEST(RunningMoments, RoundTrip) {
  const std::vector<float> rows = random_rows(20, 3, 5);
  RunningMoments moments(3), loaded(3);
  moments.add(rows.data(), 20, nullptr);
  const std::vector<std::byte> bytes = saved(moments);
  Reader reader(bytes, "test");
  loaded.load(reader);
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(saved(loaded), bytes);
  moments.add(rows.data(), 3, nullptr);
  loaded.add(rows.data(), 3, nullptr);
  EXPECT_EQ(saved(loaded), saved(moments));
}

TEST(RunningMoments, DamagedInputChangesNothing) {
  const std::vector<float> rows = random_rows(20, 3, 6);
  RunningMoments moments(3);
  moments.add(rows.data(), 20, nullptr);
  const std::vector<std::byte> good = saved(moments);
  const auto refused = [&](const std::vector<std::byte>& bytes) {
    Reader reader(bytes, "test");
    EXPECT_NE(error_text(ErrorCode::kData, [&] { moments.load(reader); }), "no error");
    EXPECT_EQ(saved(moments), good);
  };
  for (size_t length = 0; length < good.size(); ++length) {
    refused({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  refused(saved(RunningMoments(2)));
  refused(saved(RunningMoments(4)));
  const auto written = [](double count, double mean, double squares) {
    const std::vector<double> means(3, mean), sums(3, squares);
    Writer writer;
    writer.f64("count", count);
    writer.bytes("mean", std::as_bytes(std::span(means)));
    writer.bytes("squares", std::as_bytes(std::span(sums)));
    return writer.buffer();
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  refused(written(kNan, 0, 1));
  refused(written(-1, 0, 1));
  refused(written(1, kNan, 1));
  refused(written(1, 0, std::numeric_limits<double>::infinity()));
  refused(written(1, 0, -1));
}

TEST(ObsNormaliser, MeanAndScale) {
  ObsNormaliser normaliser(2);
  EXPECT_EQ(normaliser.mean()[0], 0);
  EXPECT_NEAR(normaliser.scale()[0], 1, 1e-7);
  const float rows[] = {1, 10, 3, 10, 5, 10, 7, 10};
  normaliser.update(rows, 4, nullptr);
  EXPECT_EQ(normaliser.mean()[0], 4);
  EXPECT_EQ(normaliser.mean()[1], 10);
  EXPECT_FLOAT_EQ(normaliser.scale()[0], static_cast<float>(1 / std::sqrt(5.0)));
  EXPECT_FLOAT_EQ(normaliser.scale()[1], 1e4f);  // never changed: finite
  EXPECT_EQ(normaliser.moments().count(), 4);
}

TEST(ObsNormaliser, BytesAndRoundTrip) {
  ObsNormaliser normaliser(1), loaded(1);
  const uint8_t rows[] = {0, 255, 100, 45}, valid[] = {1, 1, 0, 1};
  normaliser.update(rows, 4, valid);
  EXPECT_EQ(normaliser.mean()[0], 100);  // (0 + 255 + 45) / 3
  const std::vector<std::byte> bytes = saved(normaliser);
  Reader reader(bytes, "test");
  loaded.load(reader);
  EXPECT_EQ(loaded.mean()[0], normaliser.mean()[0]);
  EXPECT_EQ(loaded.scale()[0], normaliser.scale()[0]);
}

TEST(RewardNormaliser, ByHand) {
  RewardNormaliser normaliser(2, 0.5);
  EXPECT_FLOAT_EQ(normaliser.scale(), 1);
  // Env 0: 2, then 2/2 + 4 = 5. Env 1: 1, where its episode ends, then 3.
  const float reward[] = {2, 1, 4, 3};
  const uint8_t ended[] = {0, 1, 0, 0};
  normaliser.update(2, reward, ended, nullptr);
  // Of 2, 1, 5, 3: mean 2.75, variance (0.5625 + 3.0625 + 5.0625 + 0.0625) / 4 = 2.1875.
  EXPECT_FLOAT_EQ(normaliser.scale(), static_cast<float>(1 / std::sqrt(2.1875)));
  // The returns run on in the next rollout: 5/2 + 1 = 3.5 and 3/2 + 1 = 2.5.
  const float more[] = {1, 1};
  const uint8_t running[] = {0, 0};
  normaliser.update(1, more, running, nullptr);
  // Of 2, 1, 5, 3, 3.5, 2.5: mean 17/6, mean of the squares 57.5/6, variance 14/9.
  EXPECT_FLOAT_EQ(normaliser.scale(), static_cast<float>(1 / std::sqrt(14.0 / 9)));
}

TEST(RewardNormaliser, AFailedStepEndsTheEpisodeAndIsNotCounted) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  RewardNormaliser normaliser(1, 0.5);
  const float reward[] = {8, kNan, 2, 4};
  const uint8_t ended[] = {0, 0, 0, 0}, valid[] = {1, 0, 1, 1};
  normaliser.update(4, reward, ended, valid);
  // Of 8, 2 and 2/2 + 4 = 5: mean 5, variance 18/3.
  EXPECT_FLOAT_EQ(normaliser.scale(), static_cast<float>(1 / std::sqrt(6.0)));
}

TEST(RewardNormaliser, RoundTripAndDamage) {
  const float reward[] = {2, 1, 4, 3};
  const uint8_t ended[] = {0, 1, 0, 0};
  RewardNormaliser normaliser(2, 0.5), loaded(2, 0.5), smaller(1, 0.5);
  normaliser.update(2, reward, ended, nullptr);
  const std::vector<std::byte> bytes = saved(normaliser);
  Reader reader(bytes, "test");
  loaded.load(reader);
  EXPECT_TRUE(reader.at_end());
  normaliser.update(2, reward, ended, nullptr);
  loaded.update(2, reward, ended, nullptr);
  EXPECT_EQ(saved(loaded), saved(normaliser));

  const std::vector<std::byte> untouched = saved(smaller);
  Reader foreign(bytes, "test");
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { smaller.load(foreign); }),
            "test: 'returns' has 16 bytes, expected 8");
  EXPECT_EQ(saved(smaller), untouched);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::byte> part(bytes.begin(),
                                      bytes.begin() + static_cast<std::ptrdiff_t>(length));
    Reader cut(part, "test");
    EXPECT_NE(error_text(ErrorCode::kData, [&] { loaded.load(cut); }), "no error");
  }
}

}  // namespace
}  // namespace flotilla
