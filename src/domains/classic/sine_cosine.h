// Sines and cosines of many small angles, with the bits of the C library, in less than half of its
// time where the CPU has vectors of four doubles.
//
// Each is found as a sum of two doubles, the first of which is the double nearest to it. A library
// that errs by less than 0.52 units of the last place, as glibc's does for such angles, gives the
// same double, unless the second one is nearly half a unit. Then, which is one time in nine, and
// for angles that are not small, the library is asked.
#pragma once

#include <cstddef>

namespace flotilla::classic {

// Determinism: the same bits on all CPUs where the library's are, and for any number at once.
void sines_and_cosines(const double* angles, double* sines, double* cosines, size_t count);

}  // namespace flotilla::classic
