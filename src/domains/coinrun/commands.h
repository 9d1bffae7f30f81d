// The commands of the domain: `flotilla coinrun VERB`.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void add_coinrun_commands(Command& root, Program& program);

}  // namespace flotilla
