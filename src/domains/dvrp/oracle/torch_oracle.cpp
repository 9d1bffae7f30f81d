#include "flotilla/domains/dvrp/oracle/torch_oracle.h"

#include "flotilla/nn/torch_loader.h"

namespace flotilla::dvrp {

std::unique_ptr<TorchOracle> make_torch_oracle(const CityTable& city, const Tensors& weights,
                                               const std::string& device) {
  // Tried again after it threw.
  static auto* const make = reinterpret_cast<MakeTorchOracle*>(
      open_torch_plugin("libflotilla_torch_dvrp.so", kMakeTorchOracle));
  return std::unique_ptr<TorchOracle>(make(city, weights, device));
}

}  // namespace flotilla::dvrp
