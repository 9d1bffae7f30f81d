// The command line program for a list of environments: this project's own, or a user's.
#pragma once

#include "flotilla/command/program.h"

namespace flotilla {

// All commands (train, eval, list, ...) for the environments of `registry`. Worker processes are
// started as the same program, so main() calls this first. Returns the exit status.
int run_program(int argc, char** argv, Registry registry);
// With the commands that its domains bring, besides.
int run_program(int argc, char** argv, Program program);

}  // namespace flotilla
