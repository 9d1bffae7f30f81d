#include "flotilla/domains/dvrp/dvrp.h"

#include "flotilla/domains/dvrp/negotiation.h"

namespace flotilla {

void register_dvrp(Registry& registry) {
  registry.add(env_type<dvrp::Negotiation>(
      "dvrp", "negotiate the time windows of ride requests, priced by routing them all"));
}

}  // namespace flotilla
