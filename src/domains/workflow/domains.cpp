#include "flotilla/domains/workflow/domains.h"

#include "flotilla/domains/cage2/compliance.h"
#include "flotilla/domains/classic/corners.h"
#include "flotilla/domains/classic/maze.h"
#include "flotilla/domains/classic/regions.h"

namespace flotilla::workflow {
namespace {

Domain grid(const std::string& env, const std::string& target) {
  Domain domain{.env = env,
                .recipe = env + "-workflow",
                .key = "order",
                .separator = ",",
                .types = {},
                .value = "canonical_return",
                .compliance = "adherence",
                .acts = "targets_visited"};
  for (int i = 0; i < classic::GridWorld::kTargets; ++i) {
    domain.types.push_back(target + std::to_string(i));
  }
  return domain;
}

template <class World>
std::vector<double> values_of() {
  const World world{Config(World::schema())};
  const Orders orders(World::kTargets);
  std::vector<double> values;
  for (int i = 0; i < orders.size(); ++i) {
    std::array<int, World::kTargets> order{};
    std::ranges::copy(orders[i], order.begin());
    values.push_back(world.best_canonical_return(order));
  }
  return values;
}

}  // namespace

const std::vector<Domain>& domains() {
  static const std::vector<Domain> all = {
      {.env = "cage2",
       .recipe = "cage2-workflow",
       .key = "workflow",
       .separator = "",
       .types = {cage2::kUnitNames.begin(), cage2::kUnitNames.end()},
       .value = "reward",
       .compliance = "compliance",
       .acts = "fixes"},
      grid("corners", "corner"),
      grid("regions", "region"),
      grid("maze", "checkpoint")};
  return all;
}

std::vector<double> closed_form_values(const Domain& domain) {
  if (domain.env == "corners") return values_of<classic::Corners>();
  if (domain.env == "regions") return values_of<classic::Regions>();
  if (domain.env == "maze") return values_of<classic::Maze>();
  return {};
}

}  // namespace flotilla::workflow
