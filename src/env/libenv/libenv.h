// Environments of shared libraries with the C interface of libenv (libenv/abi.h), such as procgen:
// the env "libenv", whose key `library` says which. A library may end the process it is in, so it
// is opened in worker processes alone; this side asks one of them what its envs look like, once for
// every choice of settings.
#pragma once

#include <string>

#include "flotilla/env/registry.h"

namespace flotilla {

constexpr const char* kLibenv = "libenv";

EnvType libenv_type();

}  // namespace flotilla
