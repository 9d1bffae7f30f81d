// The arithmetic of the oracle's network, compiled once per kind of CPU and picked at run time, as
// in nn/fused: encoding of a tile of instances at once, and the scores of nodes while decoding.
//
// A row's arithmetic is the same wherever it stands in a tile, and whatever else is in the tile.
//
// Plain structs: the kernels share no templates of the standard library with the rest of the
// program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "flotilla/domains/dvrp/oracle/sizes.h"
#include "flotilla/nn/simd/packed_matrix.h"

namespace flotilla::dvrp {

using simd::PackedMatrix;

struct PackedLayer {
  PackedMatrix qkv, out, wide, narrow;
  const float *qkv_bias = nullptr, *wide_bias = nullptr;
  // A normaliser behind a residual sum is a factor and a term per channel; the term holds the bias.
  const float *scale1 = nullptr, *shift1 = nullptr, *scale2 = nullptr, *shift2 = nullptr;
};

constexpr int kCacheWidth = 4 * kOracleWidth;  // of a node: key, value, key of the logit, query

struct PackedNetwork {
  const float* cells = nullptr;         // [cells][width]: the projection of the ways to all cells
  const float* node_scalars = nullptr;  // [3][width]: demand, both ends of the window
  PackedLayer layers[kOracleLayers];
  PackedMatrix cache, graph;
  const float* context_scalars = nullptr;  // [3][width]: free seats, time, step
};

// Nodes of several instances, one behind the other.
struct Tile {
  int instances = 0;
  const int* begin = nullptr;                                        // [instances + 1] first row
  const int* cell = nullptr;                                         // by row
  const float *demand = nullptr, *early = nullptr, *late = nullptr;  // by row
  float* cache = nullptr;                                            // [rows][kCacheWidth]
  float* graph = nullptr;                                            // [instances][width]
};

// The decoder's next node: scores of those that are allowed.
struct ScoreCall {
  const float *cache = nullptr, *graph = nullptr;  // of the instance
  const int* nodes = nullptr;
  int count = 0, current = 0;
  float scalars[kOracleScalars] = {};
  float* scores = nullptr;  // [count], before tanh; room for padding to 16
};

struct OracleKernels {
  const char* name;
  // Packs [outputs][inputs] into memory as large, aligned to a cache line.
  void (*pack_matrix)(const float* rows, int outputs, int inputs, void* packed);
  // Floats of work memory for tiles and calls of so many rows.
  size_t (*work_size)(int rows, int largest);
  void (*encode)(const PackedNetwork& network, const Tile& tile, float* work);
  void (*score)(const PackedNetwork& network, const ScoreCall& call, float* work);
};

// kOracleAmx multiplies numbers of 8 significant bits (bfloat16), where the others take 24.
extern const OracleKernels kOracleAmx, kOracleAvx512, kOracleAvx2;  // x86
extern const OracleKernels kOracleNeon;                             // as fused::kNeon
extern const OracleKernels kOraclePortable;                         // every CPU

}  // namespace flotilla::dvrp
