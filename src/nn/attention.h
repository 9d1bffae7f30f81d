// A torso for observations that are groups of things of a kind, such as the positions that are held
// and the offers on a market: things of a group share an encoder and see each other by attention,
// and so do the groups behind it.
//
//   a group of one     two layers of its width, normalised
//   a group of several a layer each, attention among them (a head per 16 numbers of the width),
//   then
//                      one layer over all of them to twice the width
//   all groups         a token each; attention of four heads among them, two layers with a
//   residual,
//                      and the mean of the tokens
//
// It is described by its steps, so that every kernel that can carry them out has the same network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

// Things that lie one after the other in an observation.
struct Group {
  int count = 0, features = 0;
  int width = 0;  // of what encodes each of them

  bool operator==(const Group&) const = default;
};

// Tokens of one observation, one after the other.
struct Tokens {
  int count = 1, width = 0;
  std::vector<int> parts = {};  // made of these, of one token each
  int flat_of = -1;             // the same numbers as these, as one token
};

struct TokenStep {
  enum class Kind : uint8_t {
    kLinear,  // each token by NAME.weight [outputs, inputs] and NAME.bias, plus `added`
    kNorm,    // each token to mean 0 and variance 1, times NAME.weight plus NAME.bias
    kAttend,  // of queries, keys and values, side by side in a token, by heads
    kMean     // of all tokens
  };
  enum class First : uint8_t { kUniform, kUniformNoBias, kXavierNoBias };  // parameters

  Kind kind = Kind::kLinear;
  std::string name = {};
  int in = 0, out = 0;            // which tokens
  int added = -1;                 // likewise
  bool relu = false;              // behind a linear or a norm
  int heads = 0;                  // of attention
  First first = First::kUniform;  // of a linear
};

struct AttentionTorso {
  std::vector<Tokens> tokens;    // first the groups, as they are observed
  std::vector<TokenStep> steps;  // in their order; the last gives the features
  int features() const { return tokens.back().width; }
};

// REQUIRES: widths are multiples of kGroupUnit, `fusion` one of kFusionUnit.
constexpr int kGroupUnit = 16, kFusionHeads = 4, kFusionUnit = 16 * kFusionHeads;
constexpr float kNormEpsilon = 1e-5F;
AttentionTorso make_attention(const std::vector<Group>& groups, int fusion);

// "COUNTxFEATURES:WIDTH,..." and back. Throws std::invalid_argument that says what is wrong.
std::vector<Group> parse_groups(const std::string& text);
std::string to_text(const std::vector<Group>& groups);

}  // namespace flotilla
