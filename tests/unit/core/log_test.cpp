#include "flotilla/core/log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/core/error.h"

// The environment is read at first use, so every case runs in a process of its own: a "threadsafe"
// death test starts the test program anew. The patterns are anchored: what is not in them may not
// be on stderr.

namespace flotilla {
namespace {

const std::string kTime = "[0-9]{2}:[0-9]{2}:[0-9]{2} ";
const std::string kJsonTime =
    "\\{\"time\":\"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z\",";

class LogDeathTest : public testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

void use(const char* level, const char* format) {
  level != nullptr ? setenv("FLOTILLA_LOG_LEVEL", level, 1) : unsetenv("FLOTILLA_LOG_LEVEL");
  format != nullptr ? setenv("FLOTILLA_LOG_FORMAT", format, 1) : unsetenv("FLOTILLA_LOG_FORMAT");
}

void one_of_each() {
  log::debug("d");
  log::info("i");
  log::warn("w");
  log::error("e");
}

TEST_F(LogDeathTest, TextLine) {
  EXPECT_EXIT(
      {
        use(nullptr, nullptr);
        log::warn("worker replaced", {{"worker", "2"}, {"cause", "killed by SIGKILL"}});
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kTime + "warn  worker replaced worker=2 cause=\"killed by SIGKILL\"\n$");
}

TEST_F(LogDeathTest, DefaultLevelIsInfo) {
  EXPECT_EXIT(
      {
        use(nullptr, nullptr);
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kTime + "info  i\n" + kTime + "warn  w\n" + kTime + "error e\n$");
}

TEST_F(LogDeathTest, LevelDebug) {
  EXPECT_EXIT(
      {
        use("debug", "text");
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kTime + "debug d\n" + kTime + "info  i\n" + kTime + "warn  w\n" + kTime + "error e\n$");
}

TEST_F(LogDeathTest, LevelError) {
  EXPECT_EXIT(
      {
        use("error", nullptr);
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^" + kTime + "error e\n$");
}

TEST_F(LogDeathTest, LevelOff) {
  EXPECT_EXIT(
      {
        use("off", nullptr);
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^$");
}

TEST_F(LogDeathTest, EnvironmentIsReadOnce) {
  EXPECT_EXIT(
      {
        use("error", nullptr);
        one_of_each();
        use("debug", "json");
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^" + kTime + "error e\n" + kTime + "error e\n$");
}

TEST_F(LogDeathTest, WrongSettingIsReportedAndIgnored) {
  EXPECT_EXIT(
      {
        use("debg", "xml");
        one_of_each();
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kTime + "warn  FLOTILLA_LOG_FORMAT: expected one of text, json, got 'xml'\n" + kTime +
          "warn  FLOTILLA_LOG_LEVEL: expected one of debug, info, warn, error, off, got 'debg'; "
          "did you mean 'debug'\\?\n" +
          kTime + "info  i\n" + kTime + "warn  w\n" + kTime + "error e\n$");
}

TEST_F(LogDeathTest, AProgramRefusesAWrongSetting) {
  EXPECT_EXIT(
      {
        use("debug", "json");
        log::check_settings();
        use(nullptr, "");
        log::check_settings();
        use("ga\x1brbage", nullptr);
        try {
          log::check_settings();
        } catch (const Error& error) {
          std::fputs(error.what(), stderr);
          std::exit(exit_status(error));
        }
      },
      testing::ExitedWithCode(2),
      "^FLOTILLA_LOG_LEVEL: expected one of debug, info, warn, error, off, got "
      "'ga\\\\x1brbage'$");
}

TEST_F(LogDeathTest, AnEventIsOneLine) {
  EXPECT_EXIT(
      {
        use(nullptr, nullptr);
        log::info("two\nlines {} \x1b[31m", {{"a", "x\ny\t\"q\" \\"},
                                             {"empty", ""},
                                             {"pair", "k=v"},
                                             {"bytes", "\xff"},
                                             {"odd name", "1"},
                                             {"braces", "{}"}});
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kTime +
          R"(info  two\\nlines \{\} \\u001b\[31m a="x\\ny\\t\\"q\\" \\\\" empty="" pair="k=v" )"
          R"(bytes="\\ufffd" "odd name"=1 braces=\{\})" +
          "\n$");
}

TEST_F(LogDeathTest, JsonLine) {
  EXPECT_EXIT(
      {
        use(nullptr, "json");
        log::error("it \"broke\"\n",
                   {{"env", "3"}, {"path", "C:\\x"}, {"e\n", "caf\xC3\xA9\x01\xff"}});
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kJsonTime +
          R"("level":"error","message":"it \\"broke\\"\\n","env":"3","path":"C:\\\\x",)" +
          "\"e\\\\n\":\"caf\xC3\xA9\\\\u0001\\\\ufffd\"\\}\n$");
}

TEST_F(LogDeathTest, JsonKeysStayUnique) {
  EXPECT_EXIT(
      {
        use(nullptr, "json");
        log::info("m", {{"time", "1"}, {"level", "2"}, {"message", "3"}});
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "^" + kJsonTime +
          R"("level":"info","message":"m","time_":"1","level_":"2","message_":"3"\})" + "\n$");
}

TEST_F(LogDeathTest, ThreadsDoNotMixTheirLines) {
  EXPECT_EXIT(
      {
        use(nullptr, nullptr);
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
          threads.emplace_back([] {
            for (int i = 0; i < 50; ++i) log::info("tick", {{"text", std::string(100, 'x')}});
          });
        }
        for (std::thread& thread : threads) thread.join();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^(" + kTime + "info  tick text=x{100}\n){200}$");
}

}  // namespace
}  // namespace flotilla
