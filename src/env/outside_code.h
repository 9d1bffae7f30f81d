// Code that does not belong to this program: Python modules (python_env.h) and shared libraries
// (libenv/libenv.h). A process that imports it is asked what its environments look like.
#pragma once

#include <algorithm>

namespace flotilla {

// One for the whole program.
struct OutsideCode {
  // For each answer: to import the code, and to make one env of it. A run has keys only when the
  // first is there, so that whoever starts it has to say before that he gives more.
  double start_timeout_s = 60;

  // The key of that name, where it is more.
  void give_time(double seconds) { start_timeout_s = std::max(start_timeout_s, seconds); }
};

inline OutsideCode& outside_code() {
  static OutsideCode code;
  return code;
}

}  // namespace flotilla
