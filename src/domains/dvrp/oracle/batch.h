// Instances and tours in the form the network on libtorch takes them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/domains/dvrp/oracle/decoding.h"
#include "flotilla/domains/dvrp/oracle/torch_oracle.h"

namespace flotilla::dvrp {

CityTable city_table(const City& city);

// Padded to the largest; or to few sizes, with instances of no requests behind the others, for
// devices that have to prepare for every size anew.
enum class Padding : uint8_t { kLargest, kFewSizes };
NodeBatch node_batch(std::span<const Instance* const> instances,
                     Padding padding = Padding::kLargest);

// Routes as one sequence of nodes, each ended by the depot; the vehicle first that starts first,
// so that the same routes are always the same sequence.
std::vector<int> sequence_of(const Instance& instance, const Routes& routes);

// The tour that a sequence of choices makes, without passengers that were never delivered. Infinite
// cost: its routes break a rule.
Tour tour_of(const Instance& instance, std::span<const int> sequence);

// What the decoder sees along the sequences; `weight` is that of every step of an instance. Steps
// without a choice have weight 0. On the threads of `pool`. REQUIRES: sequences that are allowed.
StepBatch step_batch(std::span<const Instance* const> instances,
                     std::span<const std::vector<int>> sequences, std::span<const float> weight,
                     ThreadPool& pool);

}  // namespace flotilla::dvrp
