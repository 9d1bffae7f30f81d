// Counts calls of operator new in this process, to prove that hot paths allocate nothing.
// A program that uses this gets counting replacements of the global operator new and delete;
// under a sanitizer the sanitizer's own stay, and counting is not available.
#pragma once

#include <cstdint>

namespace flotilla {

bool can_count_allocations();
uint64_t allocation_count();  // since the program started, all threads

}  // namespace flotilla
