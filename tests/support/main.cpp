// main() of every test program: a test, or a worker of one.
#include <gtest/gtest.h>

#include "flotilla/env/worker.h"
#include "support/batch.h"

namespace {
bool is_worker = true;  // until it is known not to be one
}

// Where a program is built with the address sanitizer, its end is searched for leaks, which takes
// seconds on ARM. A test that starts workers need not wait for theirs: the same code runs in the
// test program as well.
extern "C" int __lsan_is_turned_off() { return is_worker ? 1 : 0; }

int main(int argc, char** argv) {
  const flotilla::Registry& registry = flotilla::test::registry();
  if (const auto status = flotilla::run_if_worker(argc, argv, registry)) return *status;
  is_worker = false;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
