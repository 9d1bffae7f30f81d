// Where a program is built with the address sanitizer, its end is searched for leaks, which takes
// seconds on ARM. Only the test program itself is: what its workers and the children of its death
// tests run, it runs as well.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

pid_t searched = 0;

// A death test may start the program anew, as its child.
bool runs_death_test() {
  std::ifstream words("/proc/self/cmdline");
  const std::string all{std::istreambuf_iterator<char>(words), {}};
  return all.find("internal_run_death_test") != std::string::npos;
}

class TestProgram : public testing::Environment {
  void SetUp() override {
    if (!runs_death_test()) searched = ::getpid();
  }
};

const testing::Environment* const kTestProgram = testing::AddGlobalTestEnvironment(new TestProgram);

}  // namespace

extern "C" int __lsan_is_turned_off() { return ::getpid() == searched ? 0 : 1; }
