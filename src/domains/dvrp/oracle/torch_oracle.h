// The oracle's network on libtorch, CPU or CUDA: what trains it, and what routes on a GPU. It lives
// in a plugin of its own, which is opened on first use.
//
// Thread safety: one caller at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/nn/parameters.h"

namespace flotilla::dvrp {

// Instances padded to the same number of nodes.
struct NodeBatch {
  int instances = 0, nodes = 0;
  std::vector<int> requests;       // by instance
  std::vector<int64_t> cell;       // [instances][nodes]; the depot's where there is no node
  std::vector<float> early, late;  // the same, minutes
};

// Tours to be imitated, step by step: what the decoder saw and what it should choose.
struct StepBatch {
  int steps = 0;
  std::vector<int64_t> current, chosen;  // [instances][steps]
  std::vector<float> scalars;            // [instances][steps][3]: free seats, time, step, scaled
  std::vector<uint8_t> allowed;          // [instances][steps][nodes]
  std::vector<float> weight;             // [instances][steps]: of -log p in the loss; 0: no step
};

struct LearnStep {
  double rate = 1e-4, max_gradient = 1;
  bool frozen_norms = false;  // normalisers stay as they are
  bool part = false;          // of a step: its gradient is added to that of the next one
};

// The device is full. A smaller batch may fit.
struct OutOfMemory : Error {
  using Error::Error;
};

struct CityTable {
  int cells = 0, depot = 0;
  std::vector<float> minutes;  // [cells][cells]
};

class TorchOracle {
 public:
  virtual ~TorchOracle() = default;
  virtual std::string name() const = 0;

  virtual Tensors weights() const = 0;
  virtual void set_weights(const Tensors& weights) = 0;
  // Adam's: both moments under the names of the weights, "m." and "v.", and "steps".
  virtual Tensors optimiser() const = 0;
  virtual void set_optimiser(const Tensors& state) = 0;

  // The nodes chosen one after the other, by instance, until the tour ends; the likeliest ones, or
  // drawn. Throws OutOfMemory.
  virtual std::vector<std::vector<int>> decode(const NodeBatch& batch, bool sampled,
                                               uint64_t seed) = 0;

  // One step of Adam down the sum of -weight log p. Returns the loss.
  virtual double learn(const NodeBatch& batch, const StepBatch& steps,
                       const LearnStep& options) = 0;
};

using MakeTorchOracle = TorchOracle*(const CityTable&, const Tensors& weights,
                                     const std::string& device);
constexpr const char* kMakeTorchOracle = "flotilla_make_torch_oracle";

// Throws Error(kUsage): no libtorch, no such device.
std::unique_ptr<TorchOracle> make_torch_oracle(const CityTable& city, const Tensors& weights,
                                               const std::string& device);

}  // namespace flotilla::dvrp
