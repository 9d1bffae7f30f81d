// A program with a list of domains of its own: this is the one line that a new domain needs outside
// of its folder.
#include "domain/echo.h"
#include "flotilla/cli/program.h"

int main(int argc, char** argv) {
  flotilla::Program program;
  flotilla::register_echo(program);
  return flotilla::run_program(argc, argv, std::move(program));
}
