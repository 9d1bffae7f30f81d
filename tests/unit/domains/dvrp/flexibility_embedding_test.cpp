// The flexibility embedding: its loss against a slow twin, its gradient against differences, what
// its steps do.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/flexibility/embedding.h"
#include "support/error_text.h"

namespace flotilla::dvrp::test {
namespace {

using flotilla::test::error_text;

std::vector<Evidence> random_evidence(int people, int count, uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kTest, 1));
  std::vector<Evidence> evidence;
  for (int i = 0; i < count; ++i) {
    const auto traveller = static_cast<int>(rng.below(static_cast<uint32_t>(people)));
    evidence.push_back({traveller, TypePattern(rng.below(16)), 0.5 + rng.uniform()});
  }
  evidence.push_back({0, TypePattern("1111"), 2});
  evidence.push_back({0, TypePattern("0000"), 3});
  return evidence;
}

// Straight from the formulas, one observation after the other.
class SlowEmbedding {
 public:
  SlowEmbedding(const Tensors& weights, const EmbeddingOptions& options)
      : weights_(weights), options_(options) {}

  std::vector<double> probabilities(int traveller) const {
    std::vector<double> x = row("embedding.weight", traveller);
    x = layer(0, x);
    for (double& each : x) each = std::tanh(each);
    x = layer(1, x);
    for (double& each : x) each = std::tanh(each);
    x = layer(2, x);
    double sum = 0;
    for (double& each : x) sum += each = std::exp(each);
    for (double& each : x) each /= sum;
    return x;
  }

  double loss(const std::vector<Evidence>& evidence) const {
    double likelihood = 0, entropy = 0, weight = 0;
    for (const Evidence& each : evidence) {
      const std::vector<double> p = clamped(each.traveller);
      double within = 0, product = 1, own_entropy = 0;
      for (size_t l = 0; l < 4; ++l) {
        within += each.fits[l] ? p[l] : 0;
        product *= each.fits[l] ? 1 : 0;
        own_entropy -= p[l] * std::log(p[l]);
      }
      const double rarity = 1 - options_.common * product;
      for (size_t l = 0; l < 4; ++l) {
        const double w = each.fits[l] ? p[l] / std::max(within, 1e-9) : 0;
        const double value =
            options_.likelihood == Likelihood::kMarginal ? std::log(within) : std::log(p[l]);
        if (each.fits[l]) likelihood += each.weight * rarity * w * value;
      }
      if (each.fits.none()) continue;
      entropy += each.weight * own_entropy;
      weight += each.weight;
    }
    return -likelihood + options_.alpha * regulariser() - options_.beta * entropy / weight;
  }

 private:
  std::vector<double> row(const std::string& name, int index) const {
    const Tensor& tensor = find_tensor(weights_, name);
    const int width = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    const auto from = tensor.data.begin() + static_cast<std::ptrdiff_t>(index) * width;
    return {from, from + width};
  }

  std::vector<double> layer(int k, const std::vector<double>& x) const {
    const std::string name = fmt::format("layer.{}.", k);
    std::vector<double> y;
    for (int o = 0; o < find_tensor(weights_, name + "bias").shape[0]; ++o) {
      const std::vector<double> w = row(name + "weight", o);
      double sum = row(name + "bias", o)[0];
      for (size_t i = 0; i < x.size(); ++i) sum += w[i] * x[i];
      y.push_back(sum);
    }
    return y;
  }

  std::vector<double> clamped(int traveller) const {
    std::vector<double> p = probabilities(traveller);
    double sum = 0;
    for (double& each : p) sum += each = std::min(std::max(each, 1e-4), 1 - 1e-4);
    for (double& each : p) each /= sum;
    return p;
  }

  double regulariser() const {
    const int people = find_tensor(weights_, "embedding.weight").shape[0];
    std::vector<double> variances;
    double mean_variance = 0;
    for (size_t m = 0; m < 64; ++m) {
      double sum = 0, squares = 0;
      for (int t = 0; t < people; ++t) sum += row("embedding.weight", t)[m];
      for (int t = 0; t < people; ++t) {
        squares += std::pow(row("embedding.weight", t)[m] - sum / people, 2);
      }
      variances.push_back(squares / people);
      mean_variance += variances.back() / 64;
    }
    double value = 0;
    for (const double variance : variances) value += std::pow(variance / mean_variance - 1, 2);
    return value;
  }

  const Tensors& weights_;
  EmbeddingOptions options_;
};

// As it is drawn, and so sure of itself that probabilities are clamped.
std::vector<FlexibilityEmbedding> mild_and_sure(const EmbeddingOptions& options) {
  FlexibilityEmbedding mild(6, 1, options), sure = mild;
  Tensors weights = sure.weights();
  for (float& x : find_tensor(weights, "layer.2.weight").data) x *= 40;
  sure.set_weights(weights);
  return {mild, sure};
}

constexpr std::array<Likelihood, 2> kLikelihoods = {Likelihood::kWeighted, Likelihood::kMarginal};

TEST(FlexibilityEmbedding, LossIsThatOfItsTwin) {
  for (const Likelihood likelihood : kLikelihoods) {
    const EmbeddingOptions options{.likelihood = likelihood};
    for (const FlexibilityEmbedding& embedding : mild_and_sure(options)) {
      const SlowEmbedding slow(embedding.weights(), options);
      const std::vector<TypeProbabilities> guesses = embedding.predict();
      for (int t = 0; t < embedding.travellers(); ++t) {
        const std::vector<double> expected = slow.probabilities(t);
        for (size_t l = 0; l < 4; ++l) {
          EXPECT_NEAR(guesses[static_cast<size_t>(t)][l], expected[l], 1e-12);
        }
      }
      const std::vector<Evidence> evidence = random_evidence(6, 40, 2);
      const EmbeddingLoss loss = embedding.loss(evidence);
      // Sums in another order.
      EXPECT_NEAR(loss.total, slow.loss(evidence), 1e-11 * std::fabs(loss.total));
    }
  }
}

TEST(FlexibilityEmbedding, HasAsManyParametersAsItShould) {
  size_t count = 0;
  const FlexibilityEmbedding embedding(30, 0);
  for (const Tensor& tensor : embedding.weights()) count += tensor.elements();
  EXPECT_EQ(count, 30 * 64 + (64 + 1) * 128 + (128 + 1) * 128 + (128 + 1) * 4);
  EXPECT_EQ(count, 27'268u);
}

// Weights are floats: the difference is taken between those that there are.
double slope(FlexibilityEmbedding embedding, const std::vector<Evidence>& evidence, size_t tensor,
             size_t element) {
  Tensors weights = embedding.weights();
  const float middle = weights[tensor].data[element];
  std::array<double, 2> loss{}, at{};
  for (size_t side = 0; side < 2; ++side) {
    const float moved = middle + (side == 0 ? -0x1p-13F : 0x1p-13F);
    weights[tensor].data[element] = moved;
    embedding.set_weights(weights);
    loss[side] = embedding.loss(evidence).total;
    at[side] = static_cast<double>(moved);
  }
  return (loss[1] - loss[0]) / (at[1] - at[0]);
}

TEST(FlexibilityEmbedding, GradientIsThatOfDifferences) {
  const std::vector<Evidence> evidence = random_evidence(6, 40, 3);
  for (const Likelihood likelihood : kLikelihoods) {
    for (const FlexibilityEmbedding& embedding : mild_and_sure({.likelihood = likelihood})) {
      FlexibilityEmbedding::Gradient gradient;
      embedding.loss(evidence, gradient);
      Rng rng(4, stream_of(Purpose::kTest, 0));
      for (size_t k = 0; k < gradient.size(); ++k) {
        ASSERT_EQ(gradient[k].size(), embedding.weights()[k].elements());
        for (int i = 0; i < 25; ++i) {
          const size_t at = rng.below(static_cast<uint32_t>(gradient[k].size()));
          const double expected = slope(embedding, evidence, k, at);
          // Third derivatives, times the step squared: those of the sure one are large.
          EXPECT_NEAR(gradient[k][at], expected, 2e-5 * (1 + std::fabs(expected)))
              << embedding.weights()[k].name << " " << at;
        }
      }
    }
  }
}

TEST(FlexibilityEmbedding, SomeProbabilitiesOfTheSureOneAreClamped) {
  int clamped = 0, free = 0;
  for (const TypeProbabilities& guess : mild_and_sure({})[1].predict()) {
    for (const double p : guess) ++(p < FlexibilityEmbedding::kLeast ? clamped : free);
  }
  EXPECT_GT(clamped, 3);
  EXPECT_GT(free, 3);
}

std::vector<double> variances(const FlexibilityEmbedding& embedding) {
  const Tensor& table = find_tensor(embedding.weights(), "embedding.weight");
  const auto people = static_cast<size_t>(embedding.travellers());
  std::vector<double> all;
  for (size_t m = 0; m < 64; ++m) {
    double sum = 0, squares = 0;
    for (size_t t = 0; t < people; ++t) {
      const double x = static_cast<double>(table.data[t * 64 + m]);
      sum += x;
      squares += x * x;
    }
    const double mean = sum / static_cast<double>(people);
    all.push_back(squares / static_cast<double>(people) - mean * mean);
  }
  return all;
}

TEST(FlexibilityEmbedding, RegulariserMakesVariancesEqual) {
  FlexibilityEmbedding embedding(8, 5);
  const double before = embedding.loss({}).regulariser;
  EXPECT_GT(before, 10);
  for (int step = 0; step < 800; ++step) embedding.step({});
  EXPECT_LT(embedding.loss({}).regulariser, 0.01 * before);
  const std::vector<double> all = variances(embedding);
  EXPECT_LT(*std::ranges::max_element(all) / *std::ranges::min_element(all), 1.5);
}

TEST(FlexibilityEmbedding, AStepIsNoLongerThanTheClippedGradientAllows) {
  FlexibilityEmbedding embedding(6, 1);
  const Tensors before = embedding.weights();
  std::vector<Evidence> evidence = random_evidence(6, 40, 3);
  for (Evidence& each : evidence) each.weight *= 1e6;
  embedding.step(evidence);
  double squares = 0, most = 0;
  for (const Tensor& m : embedding.optimiser()) {
    if (!m.name.starts_with("m.")) continue;
    for (const float x : m.data) squares += std::pow(static_cast<double>(x) / 0.1, 2);
  }
  EXPECT_NEAR(std::sqrt(squares), 1, 1e-5);
  for (size_t k = 0; k < before.size(); ++k) {
    for (size_t i = 0; i < before[k].elements(); ++i) {
      const float moved = embedding.weights()[k].data[i] - before[k].data[i];
      most = std::max(most, std::fabs(static_cast<double>(moved)));
    }
  }
  EXPECT_NEAR(most, 1e-3, 1e-6);  // Adam's first step
}

TEST(FlexibilityEmbedding, RefusesTensorsThatAreNotItsOwn) {
  FlexibilityEmbedding embedding(30, 0), smaller(29, 0);
  EXPECT_NE(sha256(embedding.weights()), sha256(FlexibilityEmbedding(30, 1).weights()));
  const std::string text =
      error_text(ErrorCode::kData, [&] { embedding.set_weights(smaller.weights()); });
  EXPECT_NE(text.find("embedding.weight"), std::string::npos) << text;
  Tensors weights = embedding.weights();
  weights[2].data[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { embedding.set_weights(weights); }),
            "tensor 'layer.0.weight' holds a value that is not finite");
  Tensors state = embedding.optimiser();
  find_tensor(state, "v.layer.1.bias").data[0] = -1;
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { embedding.set_optimiser(state); }),
            "tensor 'v.layer.1.bias' holds a negative mean of squares");
  state = embedding.optimiser();
  find_tensor(state, "step").data[1] = -1;
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { embedding.set_optimiser(state); }),
            "tensor 'step' holds no count");
}

}  // namespace
}  // namespace flotilla::dvrp::test
