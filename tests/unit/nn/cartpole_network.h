// The network that most tests of settings and files are about.
#pragma once

#include "flotilla/nn/network.h"

namespace flotilla {

inline NetworkSpec cartpole_network() {
  NetworkSpec spec;
  spec.inputs = 4;
  spec.hidden = {64, 64};
  spec.action = ActionSpace::discrete(2);
  return spec;
}

}  // namespace flotilla
