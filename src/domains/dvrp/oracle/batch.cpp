#include "flotilla/domains/dvrp/oracle/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "flotilla/domains/dvrp/oracle/weights.h"

namespace flotilla::dvrp {
namespace {

int most_nodes(std::span<const Instance* const> instances) {
  int nodes = 1;
  for (const Instance* instance : instances) nodes = std::max(nodes, instance->nodes());
  return nodes;
}

// One instance's rows of the arrays.
struct StepRows {
  int64_t *current, *chosen;
  float *scalars, *weight;
  uint8_t* allowed;
};

void record(const Instance& instance, const std::vector<int>& sequence, float weight, int nodes,
            Decoding& decoding, StepRows to) {
  decoding.begin(instance);
  for (const int node : sequence) {
    const std::span<const int> allowed = decoding.allowed();
    for (const int each : allowed) to.allowed[each] = 1;
    *to.current++ = decoding.current();
    *to.chosen++ = node;
    *to.weight++ = allowed.size() > 1 ? weight : 0;
    *to.scalars++ = scaled_seats(decoding.free_seats());
    *to.scalars++ = scaled_time(decoding.time());
    *to.scalars++ = scaled_step(decoding.step());
    to.allowed += nodes;
    decoding.go(node);
  }
}

}  // namespace

CityTable city_table(const City& city) {
  CityTable table{.cells = city.size(), .depot = city.depot(), .minutes = {}};
  for (int i = 0; i < city.size(); ++i) {
    for (int j = 0; j < city.size(); ++j) table.minutes.push_back(city.minutes(i, j));
  }
  return table;
}

NodeBatch node_batch(std::span<const Instance* const> instances, Padding padding) {
  NodeBatch batch;
  batch.instances = static_cast<int>(instances.size());
  batch.nodes = most_nodes(instances);
  if (padding == Padding::kFewSizes) {
    batch.instances = static_cast<int>(std::bit_ceil(instances.size()));
    batch.nodes = (batch.nodes - 1 + 7) / 8 * 8 + 1;
  }
  const size_t cells = static_cast<size_t>(batch.instances) * static_cast<size_t>(batch.nodes);
  batch.requests.assign(static_cast<size_t>(batch.instances), 0);
  batch.cell.assign(cells, instances[0]->cell(0));
  batch.early.assign(cells, 0);
  batch.late.assign(cells, kDay);
  for (size_t i = 0; i < instances.size(); ++i) {
    const Instance& instance = *instances[i];
    batch.requests[i] = static_cast<int>(instance.requests.size());
    for (int node = 0; node < instance.nodes(); ++node) {
      const size_t at = i * static_cast<size_t>(batch.nodes) + static_cast<size_t>(node);
      const Window window = instance.window(node);
      batch.cell[at] = instance.cell(node);
      batch.early[at] = window.early;
      batch.late[at] = window.late;
    }
  }
  return batch;
}

std::vector<int> sequence_of(const Instance& instance, const Routes& routes) {
  std::vector<RouteView> ordered(routes.begin(), routes.end());
  std::ranges::sort(ordered, [&instance](RouteView a, RouteView b) {
    const float x = instance.window(a.front()).early, y = instance.window(b.front()).early;
    return x != y ? x < y : a.front() < b.front();
  });
  std::vector<int> sequence;
  for (const RouteView route : ordered) {
    sequence.insert(sequence.end(), route.begin(), route.end());
    sequence.push_back(0);
  }
  return sequence;
}

Tour tour_of(const Instance& instance, std::span<const int> sequence) {
  Routes routes;
  for (auto begin = sequence.begin(); begin != sequence.end();) {
    const auto end = std::find(begin, sequence.end(), 0);
    for (auto at = begin; at != end; ++at) {
      if (!Instance::is_pickup(*at) || std::find(at, end, *at + 1) != end) routes.add_node(*at);
    }
    routes.end_route();
    begin = end == sequence.end() ? end : end + 1;
  }
  if (!fault_of(instance, routes).empty()) {
    return {.routes = {}, .cost = std::numeric_limits<double>::infinity()};
  }
  const double cost = cost_of(instance, routes);
  return {.routes = std::move(routes), .cost = cost};
}

StepBatch step_batch(std::span<const Instance* const> instances,
                     std::span<const std::vector<int>> sequences, std::span<const float> weight,
                     ThreadPool& pool) {
  StepBatch batch;
  for (const std::vector<int>& each : sequences) {
    batch.steps = std::max(batch.steps, static_cast<int>(each.size()));
  }
  const int nodes = most_nodes(instances);
  const auto steps = static_cast<size_t>(batch.steps), width = static_cast<size_t>(nodes);
  const size_t rows = instances.size() * steps;
  batch.current.assign(rows, 0);
  batch.chosen.assign(rows, 0);
  batch.weight.assign(rows, 0);
  batch.scalars.assign(rows * kOracleScalars, 0);
  batch.allowed.assign(rows * width, 0);
  std::vector<Decoding> decodings(static_cast<size_t>(pool.threads()));
  pool.for_each(static_cast<int>(instances.size()), [&](int thread, int item) {
    const auto i = static_cast<size_t>(item);
    const size_t first = i * steps;
    record(*instances[i], sequences[i], weight[i], nodes, decodings[static_cast<size_t>(thread)],
           {.current = &batch.current[first],
            .chosen = &batch.chosen[first],
            .scalars = &batch.scalars[first * kOracleScalars],
            .weight = &batch.weight[first],
            .allowed = &batch.allowed[first * width]});
    // Behind its end, the depot alone is allowed.
    for (size_t step = sequences[i].size(); step < steps; ++step) {
      batch.allowed[(first + step) * width] = 1;
    }
  });
  return batch;
}

}  // namespace flotilla::dvrp
