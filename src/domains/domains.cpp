#include "flotilla/domains/domains.h"

#include "flotilla/domains/cage2/cage2.h"
#include "flotilla/domains/classic/classic.h"
#include "flotilla/domains/coinrun/coinrun.h"
#include "flotilla/domains/dvrp/dvrp.h"
#include "flotilla/domains/funding/funding.h"

namespace flotilla {

void register_domains(Program& program) {
  register_classic(program);
  register_cage2(program);
  register_coinrun(program);
  register_dvrp(program);
  register_funding(program);
}

void register_domains(Registry& registry) {
  Program program;
  program.registry = std::move(registry);
  register_domains(program);
  registry = std::move(program.registry);
}

}  // namespace flotilla
