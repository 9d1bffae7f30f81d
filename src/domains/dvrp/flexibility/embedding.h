// A guess of how flexible each traveller is, learnt from what he accepted and refused: an embedding
// of 64 numbers per traveller, two layers of 128 tanh, and a softmax over the four types.
//
// An observed answer fits some of the types and not others. With P the guess for the traveller of
// an observation, and F the types it fits, the loss of weighted observations is
//   - sum of weight * rarity * (sum over F of w log P),    w = P / (sum over F of P)
//   + alpha * sum over dimensions of (variance / mean variance - 1)^2
//   - beta * mean entropy of P
// where the variances are those of the embedding over all travellers, and P is kept away from 0 and
// 1. What every type would have answered says little: its rarity is a half; that of others is 1.
// What no type would have answered says nothing, and is left out of the mean as well.
//
// The gradient goes through w: the first term is log P(F), F taken together, less the entropy of P
// within F. That entropy rewards being sure early, and a wrong type can stay: a local minimum.
// Likelihood::kMarginal is log P(F) alone, whose gradient is that of the first term with w held
// constant. It is concave in P, so the one type that fits everything is found from anywhere.
//
// Names and shapes are those of torch modules: embedding.weight, layer.{0,1,2}.{weight,bias}.
//
// Thread safety: none.
// Determinism: single precision is kept, double precision computed, in a fixed order; a network
// that was saved and restored goes on with the same bits.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/domains/dvrp/data/travellers.h"
#include "flotilla/nn/parameters.h"

namespace flotilla::dvrp {

using TypePattern = std::bitset<kFlexibilities>;               // types that fit
using TypeProbabilities = std::array<double, kFlexibilities>;  // of one traveller

// Answers of one traveller that fit the same types.
struct Evidence {
  int traveller = 0;
  TypePattern fits;
  double weight = 1;
};

enum class Likelihood : uint8_t { kWeighted, kMarginal };

struct EmbeddingOptions {
  Likelihood likelihood = Likelihood::kWeighted;
  double alpha = 0.4;   // of the regulariser
  double beta = 0.05;   // of the entropy
  double common = 0.5;  // what answers lose that fit every type
  double rate = 1e-3;   // of Adam
  double clip = 1;      // norm of the gradient
};

struct EmbeddingLoss {
  double likelihood = 0, regulariser = 0, entropy = 0;
  double total = 0;
};

class FlexibilityEmbedding {
 public:
  static constexpr int kWidth = 64, kHidden = 128;
  static constexpr double kLeast = 1e-4;  // probability in the loss

  // By tensor, in the order of weights().
  using Gradient = std::vector<std::vector<double>>;

  FlexibilityEmbedding(int travellers, uint64_t seed, const EmbeddingOptions& options = {});

  int travellers() const { return weights_.front().shape[0]; }
  // Of all travellers.
  std::vector<TypeProbabilities> predict() const;

  // REQUIRES: travellers of the evidence are below travellers().
  EmbeddingLoss loss(std::span<const Evidence> evidence) const;
  EmbeddingLoss loss(std::span<const Evidence> evidence, Gradient& gradient) const;
  // A step of Adam on all of the evidence; returns the loss before it.
  EmbeddingLoss step(std::span<const Evidence> evidence);

  const Tensors& weights() const { return weights_; }
  // "m.NAME", "v.NAME" and "step".
  Tensors optimiser() const;
  // Throw Error(kData) that names what is missing, has another shape or is not finite.
  void set_weights(const Tensors& weights);
  void set_optimiser(const Tensors& state);

 private:
  void descend(const Gradient& gradient);

  EmbeddingOptions options_;
  Tensors weights_, m_, v_;
  uint64_t steps_ = 0;
};

}  // namespace flotilla::dvrp
