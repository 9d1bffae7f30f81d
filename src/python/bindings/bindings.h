// The extension module flotilla._native, one file per subject. It says what C++ says and nothing
// more; what Python users see is the package around it, in src/python/flotilla.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <mutex>
#include <string>

#include "flotilla/command/program.h"

namespace flotilla::python {

void add_errors(pybind11::module_& module);
void add_environments(pybind11::module_& module);
void add_training(pybind11::module_& module);
void add_policies(pybind11::module_& module);
void add_worker(pybind11::module_& module);

// The shipped environments, recipes and algorithms.
const Program& shipped_program();

// Held while environments are looked up: those of Python code are made when they are first named,
// and the registry lets one caller in at a time.
std::mutex& registry_mutex();

// Does something that may take long: other threads of the interpreter run meanwhile, and Ctrl-C
// ends it. Then KeyboardInterrupt has the text of the library's Error(kInterrupted).
void run_long(const std::function<void()>& work);

}  // namespace flotilla::python
