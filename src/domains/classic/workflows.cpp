#include "flotilla/domains/classic/workflows.h"

#include <algorithm>

#include "flotilla/domains/classic/corners.h"
#include "flotilla/domains/classic/maze.h"
#include "flotilla/domains/classic/regions.h"

namespace flotilla::classic {
namespace {

// Of every order, for a walker that keeps to it on the shortest way.
template <class World>
std::vector<double> values_of() {
  const World world{Config(World::schema())};
  const workflow::Orders orders(World::kTargets);
  std::vector<double> values;
  for (int i = 0; i < orders.size(); ++i) {
    std::array<int, World::kTargets> order{};
    std::ranges::copy(orders[i], order.begin());
    values.push_back(world.best_canonical_return(order));
  }
  return values;
}

template <class World>
workflow::Domain grid(const std::string& env, const std::string& target) {
  workflow::Domain domain{.env = env,
                          .recipe = env + "-workflow",
                          .key = "order",
                          .separator = ",",
                          .types = {},
                          .value = "canonical_return",
                          .compliance = "adherence",
                          .acts = "targets_visited",
                          .closed_form = values_of<World>};
  for (int i = 0; i < GridWorld::kTargets; ++i) domain.types.push_back(target + std::to_string(i));
  return domain;
}

}  // namespace

const std::vector<workflow::Domain>& workflows() {
  static const std::vector<workflow::Domain> all = {grid<Corners>("corners", "corner"),
                                                    grid<Regions>("regions", "region"),
                                                    grid<Maze>("maze", "checkpoint")};
  return all;
}

}  // namespace flotilla::classic
