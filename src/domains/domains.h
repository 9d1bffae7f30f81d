// Every environment of this build, in one list. It is explicit because the linker drops objects of
// a static library that nothing refers to, and with them any self-registration.
#pragma once

#include "flotilla/env/registry.h"

namespace flotilla {

void register_domains(Registry& registry);

}  // namespace flotilla
