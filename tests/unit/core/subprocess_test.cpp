// Programs that are run to their end: arguments arrive as they are, and output comes whole.
#include "flotilla/core/subprocess.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace flotilla {
namespace {

TEST(Subprocess, ArgumentsArriveAsTheyAre) {
  const std::string odd = "a b'c\"d $HOME `id` \\ * ; \n é";
  const Ended ended = run_to_end({"printf", "%s|%s|", odd, ""});
  EXPECT_EQ(ended.output, odd + "||");
  EXPECT_EQ(ended.status, 0);
}

TEST(Subprocess, OutputMayBeLong) {
  EXPECT_EQ(run_to_end({"head", "-c", "1000000", "/dev/zero"}).output, std::string(1'000'000, 0));
}

TEST(Subprocess, SaysHowItEnded) {
  EXPECT_EQ(run_to_end({"sh", "-c", "echo so far; exit 3"}).status, 3);
  const Ended killed = run_to_end({"sh", "-c", "echo so far; kill -9 $$"});
  EXPECT_EQ(killed.output, "so far\n");
  EXPECT_EQ(killed.status, -1);
}

TEST(Subprocess, IsKilledAtItsDeadline) {
  Ended late;
  for (double s = 0.3; late.output.empty() && s < 100; s *= 10) {  // where a shell starts slowly
    late = run_to_end({"sh", "-c", "echo so far; exec sleep 1000"}, s);
    EXPECT_TRUE(late.timed_out);
    EXPECT_EQ(late.status, -1);
  }
  EXPECT_EQ(late.output, "so far\n");
  EXPECT_FALSE(run_to_end({"true"}, 60).timed_out);
}

TEST(Subprocess, APathThatDoesNotExistIsNamed) {
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [] { run_to_end({"/no/such program"}); }),
            "cannot run '/no/such program': No such file or directory");
}

// A child that held the writing end of a pipe, its own or another's, would keep the reader waiting.
TEST(Subprocess, NoPipeIsInheritedButAsStdout) {
  const std::string files = run_to_end({"ls", "-l", "/proc/self/fd"}).output;
  const size_t at = files.find(" 1 -> pipe:[");
  ASSERT_NE(at, std::string::npos) << files;
  const std::string pipe = files.substr(at + 6, files.find('\n', at) - at - 6);
  EXPECT_EQ(files.find(pipe), files.rfind(pipe)) << files;
}

}  // namespace
}  // namespace flotilla
