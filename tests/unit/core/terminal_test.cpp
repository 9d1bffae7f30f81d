#include "flotilla/core/terminal.h"

#include <gtest/gtest.h>

#include <string>

namespace flotilla {
namespace {

TEST(Fold, BreaksAtWordsAndHangs) {
  EXPECT_EQ(fold("one two three", 8), "one two\n  three");
  EXPECT_EQ(fold("  one two three\nfour\n", 9), "  one two\n    three\nfour\n");
  EXPECT_EQ(fold("name    one two three", 12, 8), "name    one\n      two\n      three")
      << "no deeper than the half";
  EXPECT_EQ(fold("name    one two three", 16, 8), "name    one two\n        three");
  EXPECT_EQ(fold("one two three", 0), "one two three") << "no terminal";
  EXPECT_EQ(fold("", 8), "");
  EXPECT_EQ(fold("\n\n", 8), "\n\n");
}

TEST(Fold, WhatFitsStays) {
  EXPECT_EQ(fold("12345678", 8), "12345678");
  EXPECT_EQ(fold("1234 678", 8), "1234 678");
  EXPECT_EQ(fold("a  b", 8), "a  b");
}

TEST(Fold, LongWordsStayWhole) {
  EXPECT_EQ(fold("run in /a/long/path now", 8), "run in\n  /a/long/path\n  now");
  EXPECT_EQ(fold("/a/long/path", 8), "/a/long/path");
}

TEST(Fold, CountsWhatIsSeen) {
  EXPECT_EQ(columns_of("\033[31mred\033[0m"), 3U);
  EXPECT_EQ(columns_of("caf\xC3\xA9"), 4U);
  EXPECT_EQ(fold("\033[31mred\033[0m one", 7), "\033[31mred\033[0m one");
}

TEST(Terminal, FilesHaveNeitherWidthNorColours) {
  testing::internal::CaptureStdout();  // into a file
  EXPECT_EQ(terminal_width(Stream::kOut), 0U);
  EXPECT_FALSE(has_escapes(Stream::kOut));
  EXPECT_EQ(coloured(Stream::kOut, Colour::kRed, "red"), "red");
  const std::string line(200, 'x');
  display(line + " " + line + "\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), line + " " + line + "\n");
}

}  // namespace
}  // namespace flotilla
