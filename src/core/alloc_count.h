// Counts calls of operator new in this process, to prove that hot paths allocate nothing.
//
// What counts is a shared object of its own, libflotilla_alloc_count.so, with a replacement of the
// global operator new and delete: a program that links this has nothing of it, and counts once the
// object is loaded into it, by LD_PRELOAD or because a test links it. A program that is built with
// a sanitizer never counts, for the sanitizer's own replacements stay.
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

bool can_count_allocations();
uint64_t allocation_count();  // since the program started, all threads; 0 where nothing is counted

// Starts this program anew, with the same arguments and the object loaded into it. Returns in the
// program that was started so, which passes the object on to none that it starts in turn, and where
// there is no object to load. REQUIRES: called early, for all that was done so far is done again.
void start_anew_counting();
// Why there is no counting, for people.
std::string why_not_counted();

}  // namespace flotilla
