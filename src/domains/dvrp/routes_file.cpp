#include "flotilla/domains/dvrp/routes_file.h"

#include <fmt/format.h>

#include <limits>

#include "flotilla/env/json_fields.h"

namespace flotilla::dvrp {

std::vector<Route> decode_routes(const std::string& text, const std::string& path) {
  const nlohmann::ordered_json json = parse_json(text, path);
  const JsonFields fields(json, path);
  std::vector<Route> routes;
  for (const auto& each : fields.list("routes")) {
    const auto refuse = [&] {
      fields.refuse(fmt::format("route {}: expected a list of nodes", routes.size() + 1));
    };
    if (!each.is_array()) refuse();
    Route route;
    for (const auto& node : each) {
      if (!node.is_number_unsigned()) refuse();
      if (node.get<uint64_t>() > std::numeric_limits<int>::max()) refuse();
      route.push_back(node.get<int>());
    }
    routes.push_back(std::move(route));
  }
  return routes;
}

}  // namespace flotilla::dvrp
