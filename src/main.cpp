// flotilla: the command line program.
#include "flotilla/cli/program.h"
#include "flotilla/domains/domains.h"

int main(int argc, char** argv) {
  flotilla::Program program;
  flotilla::register_domains(program);
  return flotilla::run_program(argc, argv, std::move(program));
}
