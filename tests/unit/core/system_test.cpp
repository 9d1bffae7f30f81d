#include "flotilla/core/system.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <csignal>
#include <cstring>
#include <string>

#include "flotilla/core/text.h"
#include "support/child.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

TEST(System, CountsTheCpusThisProcessMayUse) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(cpu_count(), CPU_COUNT(&set));
}

TEST(System, DescribesTheCpu) {
  EXPECT_FALSE(cpu_model().empty());
  EXPECT_EQ(cpu_model().find('\n'), std::string::npos);
  EXPECT_FALSE(cpu_features().empty());
}

TEST(System, ResidentBytesFollowTouchedMemory) {
  constexpr size_t kBytes = 32 << 20;
  const uint64_t before = resident_bytes();
  EXPECT_GT(before, 100'000u);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_LT(resident_bytes(), before + kBytes / 2) << "mapped is not touched";
  std::memset(memory, 1, kBytes);
  EXPECT_GE(resident_bytes(), before + kBytes * 9 / 10);
  munmap(memory, kBytes);
  EXPECT_LT(resident_bytes(), before + kBytes / 2);
}

TEST(System, RequireMemorySaysWhatIsNeededAndWhatThereIs) {
  EXPECT_NO_THROW(require_memory(0, "nothing"));
  EXPECT_NO_THROW(require_memory(1 << 20, "a little"));
  EXPECT_GT(available_memory_bytes(), uint64_t{64} << 20);
  const std::string text =
      test::error_text(ErrorCode::kUsage, [] { require_memory(uint64_t{1} << 52, "the batch"); });
  const std::string head = "the batch needs " + human_bytes(uint64_t{1} << 52) + " of memory; ";
  EXPECT_TRUE(text.starts_with(head) && text.ends_with("iB are available")) << text;
}

TEST(System, TheFirstInterruptIsAFlagTheSecondEndsTheProcess) {
  EXPECT_FALSE(interrupted());
  for (const int signal : {SIGINT, SIGTERM}) {
    const int once = test::status_of_child([signal] {
      install_interrupt_handler(60);
      if (interrupted()) return 1;
      raise(signal);
      return interrupted() ? 0 : 2;
    });
    EXPECT_TRUE(test::exited_with(once, 0)) << once;
    const int twice = test::status_of_child([signal] {
      install_interrupt_handler(60);
      raise(signal);
      raise(signal);
      return 3;
    });
    EXPECT_TRUE(test::exited_with(twice, 130)) << twice;
  }
  EXPECT_FALSE(interrupted());
}

TEST(System, AnInterruptIsNotWaitedForLongerThanTheGrace) {
  const int status = test::status_of_child([] {
    install_interrupt_handler(1);
    raise(SIGTERM);
    for (int i = 0; i < 100; ++i) usleep(100'000);
    return 3;
  });
  EXPECT_TRUE(test::exited_with(status, 130)) << status;
}

volatile sig_atomic_t g_passed_on = 0;

TEST(System, AListenerHearsInterruptsAndPassesThemOn) {
  const int status = test::status_of_child([] {
    std::signal(SIGINT, [](int) { g_passed_on = g_passed_on + 1; });
    {
      const InterruptListener outer;
      {
        const InterruptListener inner;
        raise(SIGINT);
        raise(SIGINT);  // does not end the process
      }
      if (!interrupted() || g_passed_on != 2) return 1;  // another one still listens
    }
    if (interrupted()) return 2;
    raise(SIGINT);
    return !interrupted() && g_passed_on == 3 ? 0 : 3;
  });
  EXPECT_TRUE(test::exited_with(status, 0)) << status;
  const int alone = test::status_of_child([] {
    std::signal(SIGINT, SIG_DFL);
    const InterruptListener listener;
    raise(SIGINT);
    return interrupted() ? 0 : 1;
  });
  EXPECT_TRUE(test::exited_with(alone, 0)) << alone;
}

}  // namespace
}  // namespace flotilla
