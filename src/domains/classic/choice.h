// The check of a discrete action, kept out of line so that the hot path pays one predictable
// branch.
#pragma once

#include <stdexcept>
#include <string>

namespace flotilla::classic {

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_bad_choice(int choice, int choices) {
  throw std::invalid_argument("action " + std::to_string(choice) + " is not one of the " +
                              std::to_string(choices) + " choices 0 to " +
                              std::to_string(choices - 1));
}

inline void require_choice(int choice, int choices) {
  if (static_cast<unsigned>(choice) >= static_cast<unsigned>(choices)) {
    throw_bad_choice(choice, choices);
  }
}

}  // namespace flotilla::classic
