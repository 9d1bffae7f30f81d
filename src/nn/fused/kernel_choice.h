// Which kernels this CPU can run, and which one the program takes.
#pragma once

#include <span>

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::fused {

// Those that are compiled for this architecture, the fastest first, kPortable last.
std::span<const Kernels* const> compiled_kernels();
bool can_run(const Kernels& kernels);
// The fastest that can run; FLOTILLA_KERNEL asks for another by its name, or for amx. Throws
// Error(kUsage) when the CPU cannot run it.
const Kernels& kernels();

// Tiles of AMX, for bfloat16. There are none of these kernels for it, but others may use it beside
// kAvx512. The first call asks the system for the use of tiles, by this process and its children.
bool has_amx();
// And FLOTILLA_KERNEL does not ask for another.
bool may_use_amx();

}  // namespace flotilla::fused
