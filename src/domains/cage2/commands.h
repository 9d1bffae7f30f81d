// The commands of the domain: `flotilla cage2 VERB`.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void add_cage2_commands(Command& root, Program& program);

}  // namespace flotilla
