// The shipped environments of a test program: those of the domains that it is about and no others,
// so that a change to a domain concerns the tests of that domain alone (shipped_*.cpp).
#pragma once

#include "flotilla/env/registry.h"

namespace flotilla::test {

const Registry& shipped();

}  // namespace flotilla::test
