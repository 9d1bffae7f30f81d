// main() of every test program that has environments: a test, or a worker of one.
#include <gtest/gtest.h>

#include "flotilla/env/worker.h"
#include "support/batch.h"

int main(int argc, char** argv) {
  const flotilla::Registry& registry = flotilla::test::registry();
  if (const auto status = flotilla::run_if_worker(argc, argv, registry)) return *status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
