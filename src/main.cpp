// flotilla: the command line program.
#include "flotilla/cli/program.h"
#include "flotilla/domains/domains.h"

int main(int argc, char** argv) {
  flotilla::Registry registry;
  flotilla::register_domains(registry);
  return flotilla::run_program(argc, argv, std::move(registry));
}
