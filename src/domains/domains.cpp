#include "flotilla/domains/domains.h"

#include "flotilla/domains/cage2/cage2.h"
#include "flotilla/domains/classic/classic.h"
#include "flotilla/domains/dvrp/dvrp.h"

namespace flotilla {

void register_domains(Registry& registry) {
  register_classic(registry);
  register_cage2(registry);
  register_dvrp(registry);
}

}  // namespace flotilla
