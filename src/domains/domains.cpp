#include "domains/domains.h"

#include "domains/classic/classic.h"

namespace flotilla {

void register_domains(Registry& registry) { register_classic(registry); }

}  // namespace flotilla
