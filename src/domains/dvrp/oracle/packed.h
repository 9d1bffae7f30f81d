// The oracle's weights as the CPU kernels want them: packed, normalisers folded into what follows
// them, and everything that does not depend on the instance worked out beforehand.
//
//   - the ways from a node to all cells depend on its cell alone: a row per cell;
//   - a normaliser behind a residual sum is a factor and a term per channel;
//   - factors of the attention are in its queries, or in the keys where queries are sums;
//   - heads are only used in products with the keys of the logits, so `glimpse` is part of those;
//   - the current node's part of the query is a fourth product of every node.
#pragma once

#include <memory>
#include <vector>

#include "flotilla/domains/dvrp/oracle/kernel.h"
#include "flotilla/domains/dvrp/oracle/weights.h"

namespace flotilla::dvrp {

class PackedOracle {
 public:
  PackedOracle(const Tensors& weights, const City& city, const OracleKernels& kernels);
  const PackedNetwork& network() const { return network_; }

 private:
  struct Free {
    void operator()(float* p) const;
  };
  using Floats = std::unique_ptr<float[], Free>;

  float* allocate(size_t count);  // aligned to a cache line, zero
  const float* keep(const std::vector<float>& values);
  // `rows`: [outputs][inputs].
  PackedMatrix pack(const std::vector<float>& rows, int outputs, int inputs);
  void pack_embedding(const Tensors& weights, const City& city);
  void pack_layer(const Tensors& weights, int index);
  void pack_decoder(const Tensors& weights);

  const OracleKernels& kernels_;
  std::vector<Floats> memory_;
  PackedNetwork network_;
};

}  // namespace flotilla::dvrp
