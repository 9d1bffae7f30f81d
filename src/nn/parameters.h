// The parameters of a network as named tensors: the form in which they are made, compared, saved
// and handed from one kernel to another. A kernel may keep them in another order inside.
//
// Names and shapes are those of torch modules: "actor.0.weight" is [outputs, inputs] of the first
// layer. Separate networks: actor.K and critic.K for hidden layer K, the last K being the output.
// Shared: trunk.K, then actor.0 and critic.0. A box has "log_std" besides, a torso the tensors of
// its convolutions; the hidden layers take its channels one after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/nn/network.h"

namespace flotilla {

struct Tensor {
  std::string name;
  std::vector<int> shape;
  std::vector<float> data;

  size_t elements() const { return data.size(); }
};

using Tensors = std::vector<Tensor>;  // in the order of their names

// All tensors of the network, filled with zeros.
Tensors make_parameters(const NetworkSpec& spec);
// The same, drawn from `seed` as the spec's init says.
Tensors initial_parameters(const NetworkSpec& spec, uint64_t seed);

Tensor& find_tensor(Tensors& tensors, std::string_view name);
const Tensor& find_tensor(const Tensors& tensors, std::string_view name);

// Throws Error(kData) that names the first tensor whose name or shape differs.
void require_same_shapes(const Tensors& expected, const Tensors& given);

// SHA-256 over the bytes of the tensors, in the order of their names.
std::string sha256(const Tensors& tensors);

}  // namespace flotilla
