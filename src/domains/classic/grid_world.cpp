#include "flotilla/domains/classic/grid_world.h"

#include <algorithm>

#include "flotilla/core/error.h"

namespace flotilla::classic {
namespace {

std::array<int, GridWorld::kTargets> parse_order(const std::string& text) {
  std::string digits = text;
  std::erase(digits, ' ');
  std::array<int, GridWorld::kTargets> order{};
  std::array<bool, GridWorld::kTargets> seen{};
  bool good = digits.size() == 2 * order.size() - 1;
  for (size_t i = 0; good && i < digits.size(); ++i) {
    if (i % 2 == 1) {
      good = digits[i] == ',';
      continue;
    }
    const int target = digits[i] - '0';
    good = target >= 0 && target < GridWorld::kTargets && !seen[target];
    if (!good) break;
    seen[target] = true;
    order[i / 2] = target;
  }
  if (!good) {
    throw Error(ErrorCode::kUsage,
                "order: expected each of 0, 1, 2 and 3 once, such as \"0,1,2,3\"; "
                "got \"" +
                    text + "\"");
  }
  return order;
}

}  // namespace

Schema GridWorld::grid_schema(int time_limit) {
  Schema schema;
  schema
      .integer("time_limit", time_limit, {0, 1'000'000'000},
               "steps after which an episode is truncated; 0: never")
      .text("order", "0,1,2,3", "the workflow: the order in which the four targets are required")
      .choice("reward", "order", {"order", "shaped"},
              "order: n for the n-th visit if it is the order's n-th target; shaped: 100 times the "
              "increase of adherence; both less 0.01 a step");
  return schema;
}

GridWorld::GridWorld(std::string name, const GridMap& map, const Config& config)
    : order_(parse_order(config.get_text("order"))),
      last_(static_cast<float>(map.size - 1)),
      start_row_(static_cast<uint8_t>(map.start_row)),
      start_col_(static_cast<uint8_t>(map.start_col)),
      shaped_(config.get_text("reward") == "shaped") {
  spec_.name = std::move(name);
  spec_.obs = ObsSpace::float32({kObsSize}, 0, 1);
  spec_.action = ActionSpace::discrete(4);
  spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
  spec_.metrics = {"adherence", "targets_visited", "canonical_return"};
  spec_.reward_low = static_cast<float>(-kStepCost);
  spec_.reward_high = static_cast<float>((shaped_ ? 100.0 / kTargets : kTargets) - kStepCost);

  cells_.fill(kWall);
  for (int row = 0; row < map.size; ++row) {
    for (int col = 0; col < map.size; ++col) {
      if (map.walls.empty() || map.walls[row * map.size + col] == 0) cell_at(row, col) = kFree;
    }
  }
  for (int i = 0; i < kTargets; ++i) {
    const GridTarget& target = map.targets[i];
    for (int row = target.row_low; row <= target.row_high; ++row) {
      for (int col = target.col_low; col <= target.col_high; ++col) {
        cell_at(row, col) = static_cast<int8_t>(i);
      }
    }
    obs_template_[2 + 2 * i] = static_cast<float>(target.centre_row) / last_;
    obs_template_[3 + 2 * i] = static_cast<float>(target.centre_col) / last_;
    obs_template_[18 + order_[i]] = static_cast<float>(i + 1) / kTargets;
  }
}

// Breadth first, a target at a time: a search goes on from all cells in which the target was
// entered, each with the steps that it took.
int GridWorld::shortest_walk(const std::array<int, kTargets>& order) const {
  using Layer = std::vector<int>;                                      // cells
  std::vector<Layer> frontier = {{index_of(start_row_, start_col_)}};  // by steps
  std::array<bool, kTargets> open{};
  for (const int target : order) {
    open[static_cast<size_t>(target)] = true;
    std::array<bool, kPitch * kPitch> seen{};
    std::vector<Layer> entered;
    for (size_t steps = 0; steps < frontier.size(); ++steps) {
      for (size_t i = 0; i < frontier[steps].size(); ++i) {
        const int cell = frontier[steps][i];
        if (seen[static_cast<size_t>(cell)]) continue;
        seen[static_cast<size_t>(cell)] = true;
        if (cells_[static_cast<size_t>(cell)] == target) {
          entered.resize(steps + 1);
          entered[steps].push_back(cell);
          continue;
        }
        for (const int next : {cell - kPitch, cell + kPitch, cell - 1, cell + 1}) {
          const int8_t kind = cells_[static_cast<size_t>(next)];
          if (kind == kWall || (kind >= 0 && !open[static_cast<size_t>(kind)])) continue;
          if (frontier.size() == steps + 1) frontier.emplace_back();
          frontier[steps + 1].push_back(next);
        }
      }
    }
    if (entered.empty()) return -1;
    frontier = std::move(entered);
  }
  const auto first = std::ranges::find_if(frontier, [](const Layer& l) { return !l.empty(); });
  return static_cast<int>(first - frontier.begin());
}

double GridWorld::best_canonical_return(const std::array<int, kTargets>& order) const {
  const int steps = shortest_walk(order);
  if (steps < 0) return 0;
  double points = 0;
  for (int i = 0; i < kTargets; ++i) {
    if (order[static_cast<size_t>(i)] == i) points += i + 1;
  }
  return points - kStepCost * steps;
}

}  // namespace flotilla::classic
