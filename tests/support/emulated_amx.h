// The kernels for AMX with its tiles in software: what CPUs without AMX test of them.
#pragma once

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::test {

// Null where they are not compiled. They need AVX-512, and are named so.
const fused::Kernels* emulated_amx();

}  // namespace flotilla::test
