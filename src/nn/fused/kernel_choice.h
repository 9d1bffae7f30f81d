// Which kernels this CPU can run, and which one the program takes.
#pragma once

#include <span>

#include "flotilla/nn/fused/kernel.h"
#include "flotilla/nn/network.h"

namespace flotilla::fused {

// Those that are compiled for this architecture, the fastest first, the portable ones last.
std::span<const Kernels* const> compiled_kernels(Precision precision = Precision::kFp32);
bool can_run(const Kernels& kernels);
// The fastest that can run; FLOTILLA_KERNEL asks for another by its name. Throws Error(kUsage) when
// the CPU cannot run it.
const Kernels& kernels(Precision precision = Precision::kFp32);

// Tiles of AMX, for bfloat16; beside them kAvx512 does what takes fp32, also where FLOTILLA_KERNEL
// asks for amx. The first call asks the system for the use of tiles, by this process and its
// children.
bool has_amx();
// And FLOTILLA_KERNEL does not ask for another.
bool may_use_amx();

}  // namespace flotilla::fused
