// Means of episodes, and how far off they may be where some episodes are alike.
#include "flotilla/train/rollout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace flotilla {
namespace {

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

PresentMeans means_of(const std::vector<std::pair<int64_t, float>>& numbers) {
  PresentMeans means(1);
  for (const auto& [cluster, number] : numbers) means.add(std::span(&number, 1), cluster);
  return means;
}

TEST(PresentMeans, OfIndependentNumbersHaveTheUsualInterval) {
  const PresentMeans means = means_of({{0, 1}, {1, kMissing}, {2, 2}, {3, 6}});
  EXPECT_DOUBLE_EQ(means.means()[0], 3);
  EXPECT_NEAR(means.ci95()[0], 1.96 * std::sqrt(7.0 / 3), 1e-12);
}

TEST(PresentMeans, NumbersSaidAgainAddNothing) {
  const double once = means_of({{0, 1}, {1, 2}, {2, 6}}).ci95()[0];
  std::vector<std::pair<int64_t, float>> again;
  for (int i = 0; i < 4; ++i) again.insert(again.end(), {{0, 1}, {1, 2}, {2, 6}});
  EXPECT_DOUBLE_EQ(means_of(again).means()[0], 3);
  EXPECT_NEAR(means_of(again).ci95()[0], once, 1e-12);
}

TEST(PresentMeans, AClusterOrNoneHasNoInterval) {
  EXPECT_TRUE(std::isnan(means_of({{0, 1}, {0, 2}}).ci95()[0]));
  EXPECT_TRUE(std::isnan(means_of({{0, 1}, {1, kMissing}}).ci95()[0]));
  EXPECT_TRUE(std::isnan(means_of({}).means()[0]));
}

TEST(EpisodeClusters, AreWhatReplicasPlayAtTheSameTime) {
  VecOptions vec;
  vec.num_envs = 6;
  vec.replicas = 2;
  vec.first_env = 1;  // env 0 is the second replica of its pair
  EpisodeClusters clusters(vec);
  const auto next = [&clusters](int env) {
    Episode episode;
    episode.env = env;
    return clusters.next(episode);
  };
  const int64_t first = next(1);
  EXPECT_EQ(next(2), first);
  EXPECT_NE(next(0), first);
  EXPECT_NE(next(3), first);
  const int64_t second = next(1);
  EXPECT_NE(second, first) << "the next episode of the same env";
  EXPECT_EQ(next(2), second);
}

}  // namespace
}  // namespace flotilla
