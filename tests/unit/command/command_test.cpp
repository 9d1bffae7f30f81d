// Commands: which values options take, what is refused and how, and which action runs.
#include "flotilla/command/command.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

class CommandTest : public testing::Test {
 protected:
  void parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "program");
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    root_.parse(static_cast<int>(argv.size()), argv.data());
  }
  std::string refusal(const std::vector<std::string>& arguments) {
    return error_text(ErrorCode::kUsage, [&] { parse(arguments); });
  }

  Command root_{{.name = "program", .description = "", .version = "1", .footer = ""}};
};

TEST_F(CommandTest, OptionsKeepTheirDefaultsOrTakeWhatIsGiven) {
  std::string text = "none", other = "none";
  int number = 1;
  uint64_t seed = 2;
  double share = 0.5;
  std::optional<int> most;
  std::vector<int> sizes = {7};
  std::vector<std::string> words;
  bool flag = false, ran = false;
  Command& run = root_.add("run", "runs");
  run.option("--text", text, "");
  run.option("--other", other, "");
  run.option("--number,--alias", number, "");
  run.option("--seed", seed, "");
  run.option("--share", share, "");
  run.option("--most", most, "");
  run.option("--sizes", sizes, "").comma_separated();
  run.option("words", words, "");
  run.flag("--flag", flag, "");
  run.action([&ran] { ran = true; });
  parse({"run", "--text", "", "--alias", "-3", "--seed", "18446744073709551615", "--share", "1e-3",
         "--sizes", "4,5", "a=b", "c d"});
  EXPECT_TRUE(ran);
  EXPECT_EQ(text, "");
  EXPECT_EQ(other, "none");
  EXPECT_EQ(number, -3);
  EXPECT_EQ(seed, UINT64_MAX);
  EXPECT_EQ(share, 1e-3);
  EXPECT_EQ(most, std::nullopt);
  EXPECT_EQ(sizes, (std::vector<int>{4, 5}));
  EXPECT_EQ(words, (std::vector<std::string>{"a=b", "c d"})) << "they may follow a list";
  EXPECT_FALSE(flag);
  EXPECT_TRUE(run.given("--text"));
  EXPECT_FALSE(run.given("--other"));
}

TEST_F(CommandTest, WhatIsNotAllowedIsRefused) {
  int number = 1;
  double share = 0.5;
  std::string mode, name;
  bool a = false, b = false;
  Command& run = root_.add("run", "runs");
  run.option("--number", number, "").range(1, 30);
  run.option("--share", share, "").range(0.0, 1.0);
  run.option("--mode", mode, "").choices({"fast", "slow"});
  run.option("--name", name, "").check([](const std::string& text) {
    return text.empty() ? std::string("expected a name") : std::string();
  });
  const Option first = run.flag("--first", a, "");
  run.flag("--second", b, "").excludes(first);
  // Behind "range" versions of CLI11 write it differently.
  EXPECT_EQ(refusal({"run", "--number", "31"}).find("--number: Value 31 not in range"), 0u);
  EXPECT_EQ(refusal({"run", "--share", "1.5"}).find("--share: Value 1.5 not in range"), 0u);
  EXPECT_EQ(refusal({"run", "--share", "nan"}).find("--share: Value nan not in range"), 0u);
  EXPECT_EQ(refusal({"run", "--share", "x"}).find("--share: Value x not in range"), 0u);
  EXPECT_EQ(refusal({"run", "--mode", "other"}), "--mode: other not in {fast,slow}");
  EXPECT_EQ(refusal({"run", "--name", ""}), "--name: expected a name");
  EXPECT_EQ(refusal({"run", "--first", "--second"}), "--first excludes --second");
  EXPECT_EQ(refusal({"run", "--nmber", "3"}), "unknown option '--nmber'; did you mean '--number'?");
  EXPECT_EQ(refusal({"rum"}), "unknown command 'rum'; did you mean 'run'? (commands: run)");
  EXPECT_EQ(refusal({}), "a command is missing (commands: run)");
}

TEST_F(CommandTest, IntegersThatDoNotFitAreRefused) {
  uint64_t seed = 0;
  int64_t steps = 0;
  std::optional<int> number;
  std::vector<int> list;
  Command& run = root_.add("run", "runs");
  run.option("--seed", seed, "");
  run.option("--steps", steps, "");
  run.option("--number", number, "");
  run.option("--list", list, "").comma_separated();
  run.action([] {});
  const std::string most = "18446744073709551615", more = "18446744073709551616";
  EXPECT_EQ(refusal({"run", "--seed=-1"}), "--seed: Value -1 not in range 0 to " + most);
  EXPECT_EQ(refusal({"run", "--seed", more}),
            "--seed: Value " + more + " not in range 0 to " + most);
  EXPECT_EQ(refusal({"run", "--steps", more}).find("--steps: Value " + more + " not in"), 0u);
  EXPECT_EQ(refusal({"run", "--number", "2147483648"}).find("--number: Value 2147483648 not"), 0u);
  EXPECT_EQ(refusal({"run", "--list", "1,2147483648"}).find("--list: Value 2147483648 not"), 0u);
  EXPECT_NE(refusal({"run", "--seed", "x"}), "");
  parse({"run", "--seed", most, "--steps=-9223372036854775808", "--number=-2147483648", "--list",
         "1,2"});
  EXPECT_EQ(seed, UINT64_MAX);
  EXPECT_EQ(steps, INT64_MIN);
  EXPECT_EQ(number, INT32_MIN);
  EXPECT_EQ(list, (std::vector<int>{1, 2}));
}

TEST_F(CommandTest, OptionsMayBeWrittenWithUnderscores) {
  int number = 0;
  std::string text, under;
  bool flag = false;
  int told = 0;
  std::vector<std::string> words;
  Command& run = root_.add("run", "runs");
  run.option("--num-envs", number, "");
  run.option("--the-text", text, "");
  run.option("--as_it_is", under, "");
  run.flag("--say-it", flag, "");
  run.flag(
      "--tell-it", [&told] { ++told; }, "");
  run.option("words", words, "");
  run.action([] {});
  parse({"run", "--num_envs=3", "--the_text", "a_b", "--as_it_is", "c", "--say_it", "--tell_it",
         "num_envs=5"});
  EXPECT_EQ(number, 3);
  EXPECT_EQ(text, "a_b");
  EXPECT_EQ(under, "c");
  EXPECT_TRUE(flag);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(words, (std::vector<std::string>{"num_envs=5"}));
  EXPECT_EQ(refusal({"run", "--num_env", "3"}),
            "unknown option '--num_env'; did you mean '--num-envs'?");
}

TEST_F(CommandTest, TheActionOfTheCommandThatIsNamedRuns) {
  std::string ran;
  Command& bench = root_.add("bench", "");
  bench.add("one", "").action([&ran] { ran += "one"; });
  root_.find("bench").add("two", "").action([&ran] { ran += "two"; });
  parse({"bench", "two"});
  EXPECT_EQ(ran, "two");
  EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { root_.find("three"); }),
            "there is no command 'three'");
}

TEST_F(CommandTest, WhatAnActionThrowsArrives) {
  root_.add("run", "").action([] { throw Error(ErrorCode::kData, "damaged"); });
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { parse({"run"}); }), "damaged");
}

TEST_F(CommandTest, HelpShowsWhatBelongsToTheOtherArguments) {
  std::string what, own, general;
  Command& run = root_.add("run", "runs");
  run.option("what", what, "");
  run.option("--general", general, "for all");
  run.show_when(run.option("--own", own, "for one"), [&what] { return what == "one"; });
  run.action([] {});
  const auto help = [this](const std::vector<std::string>& arguments) {
    testing::internal::CaptureStdout();
    parse(arguments);
    return testing::internal::GetCapturedStdout();
  };
  const std::string shown = help({"run", "one", "--help"});
  EXPECT_NE(shown.find("--own"), std::string::npos) << shown;
  for (const auto& arguments :
       {std::vector<std::string>{"run", "two", "--help"}, {"run", "--help"}}) {
    const std::string hidden = help(arguments);
    EXPECT_EQ(hidden.find("--own"), std::string::npos) << hidden;
    EXPECT_NE(hidden.find("--general"), std::string::npos) << hidden;
  }
  parse({"run", "two", "--own", "word"});
  EXPECT_EQ(own, "word") << "it can be given all the same";
}

}  // namespace
}  // namespace flotilla
