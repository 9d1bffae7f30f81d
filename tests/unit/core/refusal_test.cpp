#include "flotilla/core/refusal.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/build.h"

namespace flotilla {
namespace {

TEST(Refusal, NamesTheLimitBehindAnErrno) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(reason_of(EMFILE),
            "Too many open files (limit: " + std::to_string(files.rlim_cur) + " open files)");
  EXPECT_EQ(reason_of(ENOENT), "No such file or directory");
}

TEST(Refusal, IsToldFromOtherExceptions) {
  EXPECT_TRUE(is_refusal(std::bad_alloc()));
  EXPECT_TRUE(is_refusal(std::bad_array_new_length()));
  EXPECT_TRUE(is_refusal(std::system_error(EAGAIN, std::generic_category())));
  EXPECT_TRUE(is_refusal(Error(ErrorCode::kInternal, "no")));
  EXPECT_FALSE(is_refusal(Error(ErrorCode::kData, "no")));
  EXPECT_FALSE(is_refusal(std::system_error(ENOENT, std::generic_category())));
  EXPECT_FALSE(is_refusal(std::runtime_error("no")));
}

TEST(Refusal, BecomesAnErrorThatNamesTheResource) {
  const auto text = [](const std::exception& exception) {
    const Error error = as_error(exception);
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    return std::string(error.what());
  };
  EXPECT_EQ(text(std::bad_alloc()).find("out of memory"), 0u);
  EXPECT_EQ(text(std::system_error(EAGAIN, std::generic_category())).find("cannot start a thread"),
            0u);
  EXPECT_EQ(text(std::runtime_error("something else")), "something else");
  EXPECT_EQ(as_error(Error(ErrorCode::kData, "a file")).code(), ErrorCode::kData);
}

// Allocations that fail one after the other, the first where no exception may pass.
TEST(RefusalDeathTest, EndsAThreadThatMayNotThrowWithAMessage) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer ends the program where memory is refused";
  const auto exhaust = []() noexcept {
    [[maybe_unused]] void* volatile used = ::operator new (size_t{1} << 62u);
  };
  EXPECT_EXIT(
      {
        prepare_for_memory_shortage();
        std::thread(exhaust).join();
      },
      ::testing::ExitedWithCode(exit_status(ErrorCode::kInternal)), "^flotilla: out of memory");
}

TEST(RefusalDeathTest, LeavesOtherEndsAsTheyAre) {
  EXPECT_EXIT(
      {
        prepare_for_memory_shortage();
        std::terminate();
      },
      ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace flotilla
