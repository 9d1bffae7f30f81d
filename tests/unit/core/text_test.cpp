#include "flotilla/core/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace flotilla {
namespace {

TEST(Text, NearestFindsEverySingleSlip) {
  const std::vector<std::string> words = {"cartpole", "pendulum", "gridworld"};
  EXPECT_EQ(nearest("cartpol", words), "cartpole");    // deletion
  EXPECT_EQ(nearest("carttpole", words), "cartpole");  // insertion
  EXPECT_EQ(nearest("cortpole", words), "cartpole");   // substitution
  EXPECT_EQ(nearest("cratpole", words), "cartpole");   // swap
  EXPECT_EQ(nearest("CartPole", words), "cartpole");   // case
  EXPECT_EQ(nearest("pendulum", words), "pendulum");
}

TEST(Text, NearestRefusesWhatIsFar) {
  EXPECT_EQ(nearest("coinrun", {"cartpole", "pendulum"}), std::nullopt);
  EXPECT_EQ(nearest("a", {"b"}), std::nullopt);
  EXPECT_EQ(nearest("", {"lr"}), std::nullopt);
  EXPECT_EQ(nearest("lr", {}), std::nullopt);
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), {"cartpole"}), std::nullopt);
}

TEST(Text, ASwapIsOneEdit) {
  // Two edits would be too many for words of four letters, of which one in three may be wrong.
  EXPECT_EQ(nearest("tset", {"test"}), "test");
  EXPECT_EQ(nearest("tbct", {"test"}), std::nullopt);
}

TEST(Text, NearestTakesTheNearerAndThenTheFirst) {
  EXPECT_EQ(nearest("reward_a", {"reward_bb", "reward_b", "reward_c"}), "reward_b");
}

TEST(Text, DidYouMean) {
  EXPECT_EQ(did_you_mean("cartpol", {"cartpole"}), "; did you mean 'cartpole'?");
  EXPECT_EQ(did_you_mean("zzz", {"cartpole"}), "");
}

TEST(Text, Join) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
}

TEST(Text, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(12897485), "12.3 MiB");
  EXPECT_EQ(human_bytes((1u << 20u) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(uint64_t{5} << 30u), "5.0 GiB");
  EXPECT_EQ(human_bytes(~uint64_t{0}), "16.0 EiB");
}

// The code points of a text, with 0xFFFFFFFF for each byte that is not UTF-8.
std::vector<uint32_t> code_points(std::string_view text) {
  std::vector<uint32_t> points;
  while (!text.empty()) {
    points.push_back(static_cast<uint32_t>(next_code_point(text).value_or(char32_t{0xFFFFFFFF})));
  }
  return points;
}

TEST(Text, CodePointsOfEveryLength) {
  EXPECT_EQ(code_points("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x9A\xA2"),
            (std::vector<uint32_t>{'a', 0xE9, 0x20AC, 0x1F6A2}));
  EXPECT_EQ(code_points(std::string_view("\0", 1)), std::vector<uint32_t>{0});
  EXPECT_EQ(code_points("\xF4\x8F\xBF\xBF"), std::vector<uint32_t>{0x10FFFF});
}

TEST(Text, BytesThatAreNotUtf8) {
  const uint32_t bad = 0xFFFFFFFF;
  EXPECT_EQ(code_points("\xFFz"), (std::vector<uint32_t>{bad, 'z'}));
  EXPECT_EQ(code_points("\x80"), std::vector<uint32_t>{bad});                      // no lead
  EXPECT_EQ(code_points("\xE2\x82"), (std::vector<uint32_t>{bad, bad}));           // cut short
  EXPECT_EQ(code_points("\xE2\x82z"), (std::vector<uint32_t>{bad, bad, 'z'}));     // interrupted
  EXPECT_EQ(code_points("\xC0\xAF"), (std::vector<uint32_t>{bad, bad}));           // overlong
  EXPECT_EQ(code_points("\xED\xA0\x80"), (std::vector<uint32_t>{bad, bad, bad}));  // surrogate
  EXPECT_EQ(code_points("\xF4\x90\x80\x80"), (std::vector<uint32_t>{bad, bad, bad, bad}));
}

TEST(Text, QuotedStaysOnOneLine) {
  EXPECT_EQ(in_quotes("abc"), "'abc'");
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\nb\tc"), "'a\\nb\\tc'");
  EXPECT_EQ(in_quotes("\x1b[31m\r\x7f"), "'\\x1b[31m\\x0d\\x7f'");
  EXPECT_EQ(in_quotes("\xFF"), "'\\xff'");
  EXPECT_EQ(in_quotes("\xC2\x85 \xE2\x80\xA8"), "'\\u0085 \\u2028'");
  EXPECT_EQ(in_quotes("caf\xC3\xA9"), "'caf\xC3\xA9'");
}

TEST(Text, QuotedCutsALongText) {
  EXPECT_EQ(in_quotes(std::string(80, 'a')), "'" + std::string(80, 'a') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'a')), "'" + std::string(80, 'a') + "...'");
  EXPECT_EQ(printable(std::string(81, 'a')), std::string(80, 'a') + "...");
}

TEST(Text, NumbersThatDoNotExistAreDashes) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(number_or_dash("{:.2f}", 1.5), "1.50");
  EXPECT_EQ(number_or_dash("{:.2f}", none), "-");
  EXPECT_EQ(with_interval(none, none), "-");
  EXPECT_EQ(with_interval(2.41, none), "2.41");
  EXPECT_EQ(with_interval(2.41, 0.3), "2.41 +- 0.30");
}

TEST(Text, RatesHaveDigitsThatMeanSomething) {
  EXPECT_EQ(rate(0), "0");
  EXPECT_EQ(rate(0.0042), "0.0042");
  EXPECT_EQ(rate(0.37), "0.37");
  EXPECT_EQ(rate(12.44), "12.4");
  EXPECT_EQ(rate(99.96), "100");
  EXPECT_EQ(rate(1234.4), "1,234");
  EXPECT_EQ(rate(312'345), "312 k");
  EXPECT_EQ(rate(999'600), "1 M");
  EXPECT_EQ(rate(13.24e6), "13.2 M");
  EXPECT_EQ(rate(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Text, DigitsAreGrouped) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(Text, PrintableIsQuotedWithoutQuotes) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a 'b'\n\x01\xff"), "a 'b'\\n\\x01\\xff");
}

TEST(Text, MessagesDriveNoTerminal) {
  EXPECT_EQ(for_terminal("no file 'a b'", Lines::kOne), "no file 'a b'");
  EXPECT_EQ(for_terminal("", Lines::kOne), "");
  EXPECT_EQ(for_terminal("caf\xC3\xA9 \x1b[31m\r\xff\xC2\x9b\t", Lines::kOne),
            "caf\xC3\xA9 \\x1b[31m\\x0d\\xff\\u009b\\t");
  EXPECT_EQ(for_terminal("a\nb", Lines::kOne), "a\\nb");
  EXPECT_EQ(for_terminal("a\nb\x01\n", Lines::kMany), "a\nb\\x01\n");
}

TEST(Text, OfALongWordTheMiddleIsCut) {
  const std::string longest(300, 'x');
  EXPECT_EQ(for_terminal("a " + longest + "  b", Lines::kOne), "a " + longest + "  b");
  const std::string half(140, 'x');
  EXPECT_EQ(for_terminal("a " + longest + "y b", Lines::kOne),
            "a " + half + "..." + half.substr(1) + "y b");
  std::string accents;
  for (int i = 0; i < 301; ++i) accents += "\xC3\xA9";
  EXPECT_EQ(for_terminal(accents, Lines::kOne).size(), 2 * 280 + 3u) << "cut between characters";
}

}  // namespace
}  // namespace flotilla
