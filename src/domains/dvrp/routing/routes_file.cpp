#include "flotilla/domains/dvrp/routing/routes_file.h"

#include <fmt/format.h>

#include <limits>

#include "flotilla/core/json_fields.h"

namespace flotilla::dvrp {

Routes decode_routes(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  const JsonFields fields(json, path);
  Routes routes;
  for (const Json& each : fields.list("routes")) {
    const auto refuse = [&] {
      fields.refuse(fmt::format("route {}: expected a list of nodes", routes.size() + 1));
    };
    if (!each.is_array()) refuse();
    for (const Json& node : each) {
      if (!node.is_number_unsigned()) refuse();
      if (node.get<uint64_t>() > std::numeric_limits<int>::max()) refuse();
      routes.add_node(node.get<int>());
    }
    routes.end_route();
  }
  return routes;
}

}  // namespace flotilla::dvrp
