// main() of every test program: a test, or a worker of one.
#include <gtest/gtest.h>

#include "domains/domains.h"
#include "env/worker.h"

int main(int argc, char** argv) {
  flotilla::Registry registry;
  flotilla::register_domains(registry);
  if (const auto status = flotilla::run_if_worker(argc, argv, registry)) return *status;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
