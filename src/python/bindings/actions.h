// Actions between Python and the batch: what a space of them looks like, and arrays of them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

#include "flotilla/env/spec.h"

namespace flotilla::python {

// Adds "action_kind", "action_choices", "action_low" and "action_high".
void describe_actions(const ActionSpace& space, pybind11::dict& facts);

// Writes so many rows of actions to `to`, in the types of ActionSpace. Takes whatever NumPy makes
// an array of numbers of. Throws Error(kUsage) for another shape, for fractions where there are
// choices, and for numbers that are no int32; whether they lie in the space is not looked at.
void read_actions(const pybind11::object& actions, const ActionSpace& space, int rows,
                  std::byte* to);

}  // namespace flotilla::python
