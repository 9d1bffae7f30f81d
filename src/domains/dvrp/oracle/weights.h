// The weights of the routing oracle: an attention model after Kool, van Hoof and Welling,
// "Attention, learn to solve routing problems!" (2019). An encoder of three layers looks at all
// nodes of an instance once; a decoder then chooses one node after the other.
//
// Names and shapes are those of torch modules: a weight is [outputs, inputs].
//   init.weight, .bias           of a node: minutes to every cell, demand, window
//   layer.K.{qkv,out,wide,narrow}.{weight,bias}
//   layer.K.{norm1,norm2}.{weight,bias,mean,var}
//   cache.weight                 keys, values and keys of the logits, one behind the other
//   graph.weight                 of the mean over nodes
//   context.weight               of the current node, free seats, time and step
//   glimpse.weight               of the heads
// docs/dvrp-oracle.md has the formulas.
#pragma once

#include <cstdint>
#include <string>

#include "flotilla/domains/dvrp/data/city.h"
#include "flotilla/domains/dvrp/oracle/sizes.h"
#include "flotilla/nn/parameters.h"

namespace flotilla::dvrp {

// What the network sees of a number.
constexpr float scaled_way(float minutes) { return minutes / 20; }
constexpr float scaled_time(float minutes) { return (minutes - kDay / 2) / 240; }
constexpr float scaled_seats(int free) { return static_cast<float>(free) / 8; }
constexpr float scaled_step(int step) { return static_cast<float>(step) / 60; }

// All tensors with their shapes, drawn uniformly within 1 / sqrt(inputs); normalisers are neutral.
Tensors initial_oracle(int cells, uint64_t seed);

struct OracleWeights {
  Tensors tensors;
  std::string city;    // hash of the city it was trained in
  std::string origin;  // file; stands in errors
};

std::string city_hash(const City& city);

// In half precision.
std::string encode_oracle(const OracleWeights& weights);
// Throws Error(kData) that names what does not fit: another kind of file, another number of cells,
// a tensor that is missing. Warns of weights that were trained in another city of that size.
OracleWeights read_oracle(const std::string& path, const City& city);

}  // namespace flotilla::dvrp
