#include "flotilla/domains/dvrp/dvrp.h"
#include "support/shipped.h"

namespace flotilla::test {

const Registry& shipped() {
  static const Registry all = [] {
    Program program;
    register_dvrp(program);
    return program.registry;
  }();
  return all;
}

}  // namespace flotilla::test
