// A domain as small as one can be, to hold that a domain brings everything by itself: an
// environment, a recipe and a command, registered by one function.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void register_echo(Program& program);

}  // namespace flotilla
