#include "flotilla/core/error.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace flotilla {
namespace {

TEST(Error, MessageAloneIsWhat) {
  const Error error(ErrorCode::kUsage, "unknown key 'x'");
  EXPECT_STREQ(error.what(), "unknown key 'x'");
  EXPECT_EQ(error.code(), ErrorCode::kUsage);
  EXPECT_TRUE(error.context().empty());
}

TEST(Error, ANulHidesNothing) {
  const Error error(ErrorCode::kUsage, std::string("no 'a\0\0b' here", 14));
  EXPECT_STREQ(error.what(), "no 'a\\x00\\x00b' here");
}

TEST(Error, ContextStandsBehindTheMessage) {
  const Error error(ErrorCode::kEnvironment, "step failed", {{"env", "3"}, {"seed", "7"}});
  EXPECT_STREQ(error.what(), "step failed (env=3, seed=7)");
  ASSERT_EQ(error.context().size(), 2u);
  EXPECT_EQ(error.context()[1].first, "seed");
  EXPECT_EQ(error.context()[1].second, "7");
}

TEST(Error, CodesAreExitStatuses) {
  const auto status = [](ErrorCode code) { return exit_status(Error(code, "")); };
  EXPECT_EQ(status(ErrorCode::kCheckFailed), 1);
  EXPECT_EQ(status(ErrorCode::kUsage), 2);
  EXPECT_EQ(status(ErrorCode::kEnvironment), 3);
  EXPECT_EQ(status(ErrorCode::kData), 4);
  EXPECT_EQ(status(ErrorCode::kNumeric), 5);
  EXPECT_EQ(status(ErrorCode::kInternal), 70);
  EXPECT_EQ(status(ErrorCode::kInterrupted), 130);
}

TEST(Error, ErrnoIsNamed) {
  try {
    errno = ENOENT;
    throw_errno(ErrorCode::kData, "cannot open model.bin");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot open model.bin: No such file or directory");
    EXPECT_EQ(error.code(), ErrorCode::kData);
    return;
  }
}

}  // namespace
}  // namespace flotilla
