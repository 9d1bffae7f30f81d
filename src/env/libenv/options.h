// The settings of a libenv: keys of the engine, and options that the library is given. A library
// ends its process where it is given an option that it does not know, or one of another type, so
// every option has a type here, and those that nobody sets are not given.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "flotilla/core/config.h"

namespace flotilla::libenv {

using OptionValue = std::variant<int32_t, bool, std::string>;
using OptionList = std::vector<std::pair<std::string, OptionValue>>;

struct Settings {
  std::string library;
  OptionList options;
  std::string seed_option;  // or ""
  bool saves_states = true;

  static Schema schema();
  // Throws Error(kUsage) that names the key.
  static Settings from(const Config& config);

  // What env number `env` is made with. Of names that env_name has, separated by commas, it is the
  // turn of one.
  OptionList options_of(int env, int32_t seed) const;
};

}  // namespace flotilla::libenv
