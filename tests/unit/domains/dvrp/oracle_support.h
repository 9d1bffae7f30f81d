// What the tests of the oracle share.
#pragma once

#include <algorithm>
#include <span>
#include <stdexcept>
#include <vector>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/oracle/decoding.h"
#include "flotilla/domains/dvrp/oracle/kernel_choice.h"
#include "flotilla/domains/dvrp/oracle/network_router.h"
#include "flotilla/domains/dvrp/oracle/packed.h"
#include "unit/domains/dvrp/made_up_city.h"

namespace flotilla::dvrp {

// A prefix of a day with some windows shifted: what the oracle is asked in training.
inline Instance draw_prefix(int requests, uint64_t seed) {
  Rng rng(seed, stream_of(Purpose::kTest, 1));
  Instance instance = draw_instance(data(), requests, rng);
  for (Request& request : instance.requests) {
    if (rng.chance(0.5))
      request = shifted(request, shift_of(static_cast<int>(rng.below(kActions))));
  }
  return instance;
}

// Weights with normalisers that do something.
inline OracleWeights random_weights(uint64_t seed) {
  OracleWeights weights{.tensors = initial_oracle(data().city.size(), seed),
                        .city = city_hash(data().city),
                        .origin = "test"};
  Rng rng(seed, stream_of(Purpose::kTest, 2));
  for (Tensor& tensor : weights.tensors) {
    if (tensor.name.find(".norm") == std::string::npos) continue;
    for (float& value : tensor.data) value += static_cast<float>(rng.uniform(0, 0.5));
  }
  return weights;
}

// The tour of choices that the rules allow; throws for others.
inline Tour follow(const Instance& instance, const std::vector<int>& sequence) {
  Decoding decoding;
  decoding.begin(instance);
  for (const int node : sequence) {
    if (!std::ranges::binary_search(decoding.allowed(), node))
      throw std::logic_error("not allowed");
    decoding.go(node);
  }
  Tour tour;
  decoding.write(tour);
  return tour;
}

// The kernels of one CPU on one instance.
class Encoding {
 public:
  Encoding(const OracleKernels& kernels, const PackedOracle& packed, const Instance& instance)
      : kernels_(kernels), packed_(packed) {
    const int n = instance.nodes();
    std::vector<int> begin = {0, n}, cell;
    std::vector<float> demand, early, late;
    for (int node = 0; node < n; ++node) {
      cell.push_back(instance.cell(node));
      demand.push_back(node == 0 ? 0.0F : Instance::is_pickup(node) ? 1.0F : -1.0F);
      early.push_back(scaled_time(instance.window(node).early));
      late.push_back(scaled_time(instance.window(node).late));
    }
    work_.resize(kernels.work_size(n, n));
    cache_.resize(static_cast<size_t>(n) * kCacheWidth);
    graph_.resize(kOracleWidth);
    kernels.encode(packed.network(),
                   {.instances = 1,
                    .begin = begin.data(),
                    .cell = cell.data(),
                    .demand = demand.data(),
                    .early = early.data(),
                    .late = late.data(),
                    .cache = cache_.data(),
                    .graph = graph_.data()},
                   work_.data());
  }
  std::vector<float> scores(const Decoding& decoding) {
    const auto allowed = decoding.allowed();
    std::vector<float> scores(allowed.size() + 16);
    kernels_.score(packed_.network(),
                   {.cache = cache_.data(),
                    .graph = graph_.data(),
                    .nodes = allowed.data(),
                    .count = static_cast<int>(allowed.size()),
                    .current = decoding.current(),
                    .scalars = {scaled_seats(decoding.free_seats()), scaled_time(decoding.time()),
                                scaled_step(decoding.step())},
                    .scores = scores.data()},
                   work_.data());
    scores.resize(allowed.size());
    return scores;
  }

 private:
  const OracleKernels& kernels_;
  const PackedOracle& packed_;
  std::vector<float> work_, cache_, graph_;
};

inline std::vector<const Instance*> pointers(const std::vector<Instance>& instances) {
  std::vector<const Instance*> all;
  for (const Instance& instance : instances) all.push_back(&instance);
  return all;
}

inline std::vector<Tour> route_all(Router& router, const std::vector<Instance>& instances,
                                   size_t batch) {
  const std::vector<const Instance*> all = pointers(instances);
  std::vector<Tour> tours(all.size());
  for (size_t i = 0; i < all.size(); i += batch) {
    const size_t count = std::min(batch, all.size() - i);
    router.route(std::span(all).subspan(i, count), std::span(tours).subspan(i, count));
  }
  return tours;
}

inline std::vector<Instance> draw_many(int count) {
  std::vector<Instance> instances;
  for (int i = 0; i < count; ++i)
    instances.push_back(draw_prefix(1 + i % 30, static_cast<uint64_t>(i)));
  return instances;
}

}  // namespace flotilla::dvrp
