#include "flotilla/domains/domains.h"

#include "flotilla/domains/classic/classic.h"

namespace flotilla {

void register_domains(Registry& registry) { register_classic(registry); }

}  // namespace flotilla
