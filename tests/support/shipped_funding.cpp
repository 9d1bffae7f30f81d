#include "flotilla/domains/funding/funding.h"
#include "support/shipped.h"

namespace flotilla::test {

const Registry& shipped() {
  static const Registry all = [] {
    Program program;
    register_funding(program);
    return program.registry;
  }();
  return all;
}

}  // namespace flotilla::test
