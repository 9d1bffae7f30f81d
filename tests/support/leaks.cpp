// Where a program is built with the address sanitizer, its end is searched for leaks, which takes
// seconds on ARM. Only the test program itself is: what its workers and the children of its death
// tests run, it runs as well.
#include <gtest/gtest.h>
#include <unistd.h>

namespace {

pid_t searched = 0;

class TestProgram : public testing::Environment {
  void SetUp() override {
    if (!testing::internal::InDeathTestChild()) searched = ::getpid();
  }
};

const testing::Environment* const kTestProgram = testing::AddGlobalTestEnvironment(new TestProgram);

}  // namespace

extern "C" int __lsan_is_turned_off() { return ::getpid() == searched ? 0 : 1; }
