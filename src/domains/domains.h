// Everything of this build's domains, in one list. It is explicit because the linker drops objects
// of a static library that nothing refers to, and with them any self-registration.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_domains(Program& program);
// Only their environments and recipes.
void register_domains(Registry& registry);

}  // namespace flotilla
