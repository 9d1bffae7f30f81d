#include "flotilla/nn/optimiser_state.h"

#include <algorithm>

namespace flotilla {
namespace {

// A count as two exact floats: one alone is exact only up to 2^24.
constexpr uint64_t kDigit = uint64_t{1} << 24;

Tensor count_tensor(const std::string& name, uint64_t count) {
  return {name, {2}, {static_cast<float>(count / kDigit), static_cast<float>(count % kDigit)}};
}

uint64_t count_of(const Tensor& tensor) {
  return static_cast<uint64_t>(tensor.data[0]) * kDigit + static_cast<uint64_t>(tensor.data[1]);
}

}  // namespace

Tensors OptimiserState::join() const {
  Tensors joined;
  for (const auto& [prefix, moments] : {std::pair("m.", &m), std::pair("v.", &v)}) {
    for (const Tensor& tensor : *moments) {
      joined.push_back(tensor);
      joined.back().name = prefix + tensor.name;
    }
  }
  joined.push_back(count_tensor("step.actor", actor_steps));
  joined.push_back(count_tensor("step.critic", critic_steps));
  std::ranges::sort(joined, {}, &Tensor::name);
  return joined;
}

void OptimiserState::split(const Tensors& joined) {
  require_same_shapes(join(), joined);
  for (Tensor& tensor : m) tensor.data = find_tensor(joined, "m." + tensor.name).data;
  for (Tensor& tensor : v) tensor.data = find_tensor(joined, "v." + tensor.name).data;
  actor_steps = count_of(find_tensor(joined, "step.actor"));
  critic_steps = count_of(find_tensor(joined, "step.critic"));
}

}  // namespace flotilla
