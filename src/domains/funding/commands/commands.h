// The commands of the domain: `flotilla funding VERB`.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

void add_funding_commands(Command& root, Program& program);

void add_funding_data(Command& funding);
void add_funding_inspect(Command& funding);
void add_funding_explain(Command& funding);
void add_funding_eval(Command& funding, Program& program);
void add_funding_show(Command& funding, Program& program);

}  // namespace flotilla
