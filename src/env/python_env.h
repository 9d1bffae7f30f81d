// Environments that are Python code: "gym:ID" is gymnasium.make(ID), "py:MODULE:NAME" what
// MODULE.NAME(...) returns. They live in workers that are Python interpreters with the package
// `flotilla` (python -m flotilla.worker), over the same segment as native ones. This side only
// knows what such an env looks like: the interpreter is asked, once for its keys, for which no env
// is made, and once for every choice of settings.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "flotilla/core/json.h"
#include "flotilla/env/registry.h"

namespace flotilla {

bool is_python_env(const std::string& name);
// Whether the name says which code is imported: a file may not say that alone.
bool names_code(const std::string& name);

// Which Python, and what it may be asked to run. One for the whole program.
struct PythonSettings {
  // A path, or a name that is looked for as a shell does. Empty: $FLOTILLA_PYTHON, else `host`,
  // else the first of the active virtual environment's and python3 that has the package.
  std::string interpreter;
  // The one that this library is a part of, if it is.
  std::string host;
  // A file of somebody else must not choose the code that runs here: "py:" names, and modules of
  // "gym:" names, come from the command line or a caller, or with `interpreter` given there.
  std::set<std::string> named;
};
PythonSettings& python_settings();

// Its keys are the parameters of whatever makes the env. Throws Error(kUsage): there is no Python
// with the package, or it does not find what makes the env.
EnvType python_env_type(const std::string& name);

// The part of a slot behind its header. What get_state() of the env returned, with the observation
// and mask that belong to it, where the env has that and it fits; otherwise kBytes is 0.
template <size_t kBytes>
struct PythonState {
  static constexpr size_t kCapacity = kBytes;
  int32_t row = 0;
  uint32_t size = 0;
  std::byte bytes[kBytes];

  bool valid() const { return size <= kBytes; }
};
template <>
struct PythonState<0> {
  static constexpr size_t kCapacity = 0;
  int32_t row = 0;
};
constexpr size_t kPythonStateBytes = 16 * 1024;

// What `python -m flotilla.worker --describe` says of an env.
struct PythonDescription {
  EnvSpec spec;
  bool keeps_states = false;

  // Throws Error(kUsage).
  static PythonDescription from(const Json& json, const std::string& name, int time_limit);
};

}  // namespace flotilla
