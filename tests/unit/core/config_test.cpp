#include "flotilla/core/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/sha256.h"

namespace flotilla {
namespace {

constexpr int64_t kSmallest = std::numeric_limits<int64_t>::lowest();
constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

Schema sample() {
  Schema ppo;
  ppo.number("lr", 2.5e-4, {0, 1}, "learning rate")
      .integer("epochs", 4, {1, 100}, "passes over a rollout");
  Schema schema;
  schema.integer("time_limit", 500, {1, 1'000'000}, "steps after which an episode is truncated")
      .choice("reward", "sparse", {"sparse", "dense"}, "when reward is paid")
      .include("ppo", ppo)
      .boolean("render", false, "draw the env")
      .text("name", "run", "name of the run")
      .integer("threads", 0, {0}, "worker threads, 0 for all cores")
      .execution();
  return schema;
}

template <class F>
std::string error_of(F&& call, ErrorCode code = ErrorCode::kUsage) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "no error";
}

std::string set_error(std::string_view name, std::string_view text) {
  Config config(sample());
  return error_of([&] { config.set(name, text); });
}

std::string yaml_error(const std::string& yaml) {
  Config config(sample());
  const std::string before = config.to_yaml();
  const std::string message = error_of([&] { config.load_yaml_text(yaml, "run.yaml"); });
  EXPECT_EQ(config.to_yaml(), before) << "a refused text left something behind";
  return message;
}

// ---- Schema.

TEST(Schema, KeysKeepTheirOrder) {
  const Schema schema = sample();
  std::vector<std::string> names;
  for (const Key& key : schema.keys()) names.push_back(key.name);
  EXPECT_EQ(names, (std::vector<std::string>{"time_limit", "reward", "ppo.lr", "ppo.epochs",
                                             "render", "name", "threads"}));
  EXPECT_TRUE(schema.at("threads").execution);
  EXPECT_FALSE(schema.at("name").execution);
  EXPECT_EQ(schema.at("ppo.lr").help, "learning rate");
  EXPECT_EQ(schema.find("lr"), &schema.at("ppo.lr"));
  EXPECT_EQ(schema.find("r"), nullptr);
}

TEST(Schema, AtSuggests) {
  const Schema schema = sample();
  EXPECT_EQ(error_of([&] { schema.at("time_limt"); }),
            "unknown key 'time_limt'; did you mean 'time_limit'?");
  EXPECT_EQ(error_of([&] { schema.at("pp.lr"); }), "unknown key 'pp.lr'; did you mean 'ppo.lr'?");
  EXPECT_EQ(error_of([&] { schema.at("lrr"); }), "unknown key 'lrr'; did you mean 'lr'?");
  EXPECT_EQ(error_of([&] { schema.at("banana"); }), "unknown key 'banana'");
  EXPECT_EQ(error_of([&] { schema.at(""); }), "unknown key ''");
}

TEST(Schema, MistakesInItAreBugs) {
  const auto bug = [](auto&& call) {
    Schema schema = sample();
    return error_of([&] { call(schema); }, ErrorCode::kInternal);
  };
  EXPECT_EQ(bug([](Schema& s) { s.boolean("render", true, ""); }),
            "config key 'render' is defined twice");
  EXPECT_EQ(bug([](Schema& s) { s.boolean("ppo", true, ""); }),
            "config keys 'ppo.lr' and 'ppo' exclude each other in YAML");
  EXPECT_EQ(bug([](Schema& s) { s.boolean("name.x", true, ""); }),
            "config keys 'name' and 'name.x' exclude each other in YAML");
  EXPECT_EQ(bug([](Schema& s) {
              s.integer("n", 0, {1, 9}, "");
            }),
            "n: expected an integer from 1 to 9, the default is 0");
  EXPECT_EQ(bug([](Schema& s) {
              s.number("x", 1.5, {0, 1}, "");
            }),
            "x: expected a number from 0 to 1, the default is 1.5");
  EXPECT_EQ(bug([](Schema& s) { s.number("x", std::numeric_limits<double>::quiet_NaN(), {}, ""); }),
            "x: expected a number, the default is nan");
  EXPECT_EQ(bug([](Schema& s) { s.number("x", std::numeric_limits<double>::infinity(), {}, ""); }),
            "x: expected a number, the default is inf");
  EXPECT_EQ(bug([](Schema& s) {
              s.choice("c", "z", {"a", "b"}, "");
            }),
            "c: expected one of a, b, the default is 'z'");
  EXPECT_EQ(bug([](Schema& s) { s.choice("c", "", {}, ""); }), "c: a choice without options");
  EXPECT_EQ(bug([](Schema& s) { s.text("t", "\xff", ""); }), "t: the default '\\xff' is not UTF-8");
  EXPECT_EQ(error_of([] { Schema().execution(); }, ErrorCode::kInternal),
            "execution() before the first config key");
  for (const char* name : {"", ".", "a.", ".a", "a..b", "a b", "a=b", "a:b"}) {
    EXPECT_EQ(bug([&](Schema& s) { s.boolean(name, true, ""); }),
              "bad name of a config key: '" + std::string(name) + "'");
  }
}

TEST(Schema, Help) {
  EXPECT_EQ(sample().help(), R"(  time_limit  integer from 1 to 1000000; default 500
              steps after which an episode is truncated
  reward      one of sparse, dense; default sparse
              when reward is paid
  ppo.lr      number from 0 to 1; default 0.00025
              learning rate
  ppo.epochs  integer from 1 to 100; default 4
              passes over a rollout
  render      true or false; default false
              draw the env
  name        text; default run
              name of the run
  threads     integer of at least 0; default 0
              worker threads, 0 for all cores
)");
}

TEST(Schema, HelpFitsTheTerminal) {
  std::string words, wide;
  for (int i = 0; i < 60; ++i) words += "word" + std::to_string(i) + " ";
  Schema schema;
  schema.integer("n", 1, {}, words)
      .text("a_name_that_is_longer_than_the_column", "", "long")
      .choice("c", "option_0",
              {"option_0", "option_1", "option_2", "option_3", "option_4", "option_5", "option_6",
               "option_7", "option_8", "option_9"},
              "");
  const std::string help = schema.help();
  size_t longest = 0, start = 0;
  while (start < help.size()) {
    const size_t end = help.find('\n', start);
    longest = std::max(longest, end - start);
    start = end + 1;
  }
  EXPECT_LE(longest, 100u);
  EXPECT_GT(longest, 90u);
  EXPECT_NE(
      help.find("  a_name_that_is_longer_than_the_column\n     text; default \"\"\n     long\n"),
      std::string::npos)
      << help;
  EXPECT_NE(help.find("word59\n"), std::string::npos);
}

// ---- Values.

TEST(Config, StartsWithTheDefaults) {
  const Config config(sample());
  EXPECT_EQ(config.get_integer("time_limit"), 500);
  EXPECT_EQ(config.get_text("reward"), "sparse");
  EXPECT_EQ(config.get_number("ppo.lr"), 2.5e-4);
  EXPECT_EQ(config.get_integer("ppo.epochs"), 4);
  EXPECT_FALSE(config.get_boolean("render"));
  EXPECT_EQ(config.get_text("name"), "run");
}

TEST(Config, AskingForTheWrongTypeIsABug) {
  const Config config(sample());
  EXPECT_EQ(error_of([&] { config.get_integer("ppo.lr"); }, ErrorCode::kInternal),
            "config key 'ppo.lr' is a number, not an integer");
  EXPECT_EQ(error_of([&] { config.get_number("time_limit"); }, ErrorCode::kInternal),
            "config key 'time_limit' is an integer, not a number");
  EXPECT_EQ(error_of([&] { config.get_boolean("reward"); }, ErrorCode::kInternal),
            "config key 'reward' is a text, not a boolean");
  EXPECT_EQ(error_of([&] { config.get_text("render"); }, ErrorCode::kInternal),
            "config key 'render' is a boolean, not a text");
  EXPECT_EQ(error_of([&] { config.get_text("nam"); }, ErrorCode::kInternal), "no config key 'nam'");
}

TEST(Config, Integers) {
  Config config(Schema().integer("n", 0, {}, ""));
  const std::vector<std::pair<std::string, int64_t>> good = {{"1000", 1000},
                                                             {"-7", -7},
                                                             {"+7", 7},
                                                             {"007", 7},
                                                             {"0", 0},
                                                             {"-0", 0},
                                                             {"1e6", 1'000'000},
                                                             {"1E+3", 1000},
                                                             {"1.5e3", 1500},
                                                             {"1500e-2", 15},
                                                             {"2.0", 2},
                                                             {"2.", 2},
                                                             {".5e1", 5},
                                                             {"0e99999", 0},
                                                             {"0.000e-5", 0},
                                                             {"000000000000000000000000001", 1},
                                                             {"9223372036854775807", kLargest},
                                                             {"-9223372036854775808", kSmallest},
                                                             {"9223372036854775.807e3", kLargest}};
  for (const auto& [text, value] : good) {
    config.set("n", "123456");
    ASSERT_EQ(error_of([&] { config.set("n", text); }), "no error") << text;
    EXPECT_EQ(config.get_integer("n"), value) << text;
  }
  for (const char* text : {"",      " ",
                           "abc",   "1.5",
                           "15e-1", "0x10",
                           "1_000", "1 ",
                           " 1",    "1,000",
                           "1e",    "1e+",
                           "e5",    ".",
                           "-",     "+",
                           "+-1",   "--1",
                           "1-",    "1e6x",
                           "1e+-2", "1e99999999999",
                           "inf",   "nan",
                           "true",  ".e1",
                           "1.2.3"}) {
    EXPECT_EQ(error_of([&] { config.set("n", text); }),
              "n: expected an integer, got '" + std::string(text) + "'");
  }
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "1e19", "1e2000000000",
                           "99999999999999999999999999"}) {
    EXPECT_EQ(
        error_of([&] { config.set("n", text); }),
        "n: expected an integer, got '" + std::string(text) + "', which does not fit in 64 bits");
  }
}

TEST(Config, Numbers) {
  Config config(Schema().number("x", 0, {}, ""));
  const std::vector<std::pair<std::string, double>> good = {
      {"1", 1},           {"1e-3", 1e-3},
      {"-2.5", -2.5},     {"+3", 3},
      {".5", 0.5},        {"5.", 5},
      {"1E5", 1e5},       {"0.1", 0.1},
      {"5e-324", 5e-324}, {"1.7976931348623157e308", std::numeric_limits<double>::max()}};
  for (const auto& [text, value] : good) {
    ASSERT_EQ(error_of([&] { config.set("x", text); }), "no error") << text;
    EXPECT_EQ(config.get_number("x"), value) << text;
  }
  for (const char* text : {"", "abc", "nan", "inf", "-inf", "infinity", "1e400", "0x1p3", "1.5x",
                           " 1", "1 ", "+-1", "+", "1,5", "true"}) {
    EXPECT_EQ(error_of([&] { config.set("x", text); }),
              "x: expected a number, got '" + std::string(text) + "'");
  }
}

TEST(Config, NumbersAreFiniteWhateverTheRange) {
  const double infinity = std::numeric_limits<double>::infinity();
  Config config(Schema().number("x", 0, {-infinity, infinity}, ""));
  for (const char* text : {"inf", "-inf", "nan"}) {
    EXPECT_EQ(error_of([&] { config.set("x", text); }),
              "x: expected a number, got '" + std::string(text) + "'");
  }
}

TEST(Config, Booleans) {
  Config config(Schema().boolean("b", false, ""));
  for (const char* text : {"true", "yes", "on", "1", "True", "YES"}) {
    config.set("b", "false");
    config.set("b", text);
    EXPECT_TRUE(config.get_boolean("b")) << text;
  }
  for (const char* text : {"false", "no", "off", "0", "False", "OFF"}) {
    config.set("b", "true");
    config.set("b", text);
    EXPECT_FALSE(config.get_boolean("b")) << text;
  }
  for (const char* text : {"", "maybe", "2", "tru", "y"}) {
    EXPECT_EQ(error_of([&] { config.set("b", text); }),
              "b: expected true or false, got '" + std::string(text) + "'");
  }
}

TEST(Config, WrongValuesAreNamed) {
  EXPECT_EQ(set_error("time_limit", "abc"),
            "time_limit: expected an integer from 1 to 1000000, got 'abc'");
  EXPECT_EQ(set_error("time_limit", "0"),
            "time_limit: expected an integer from 1 to 1000000, got '0'");
  EXPECT_EQ(set_error("time_limit", "1000001"),
            "time_limit: expected an integer from 1 to 1000000, got '1000001'");
  EXPECT_EQ(set_error("ppo.lr", "1.01"), "ppo.lr: expected a number from 0 to 1, got '1.01'");
  EXPECT_EQ(set_error("reward", "spares"),
            "reward: expected one of sparse, dense, got 'spares'; did you mean 'sparse'?");
  EXPECT_EQ(set_error("reward", "hourly"), "reward: expected one of sparse, dense, got 'hourly'");
  EXPECT_EQ(set_error("name", "\xff"), "name: expected text, got '\\xff', which is not UTF-8");
  EXPECT_EQ(set_error("name", std::string("a\0b", 3)),
            "name: expected text, got 'a\\x00b', which has a NUL in it");
  EXPECT_EQ(set_error("threads", "-1\n"),
            "threads: expected an integer of at least 0, got '-1\\n'");
  EXPECT_EQ(set_error("time_limit", "1"), "no error");
  EXPECT_EQ(set_error("time_limit", "1000000"), "no error");
}

TEST(Config, OpenRangesReadNaturally) {
  Config config(Schema()
                    .integer("a", 1, {1}, "")
                    .integer("b", 1, {kSmallest, 5}, "")
                    .number("c", 0, {0}, "")
                    .number("d", -1, {std::numeric_limits<double>::lowest(), -0.5}, ""));
  EXPECT_EQ(error_of([&] { config.set("a", "0"); }),
            "a: expected an integer of at least 1, got '0'");
  EXPECT_EQ(error_of([&] { config.set("b", "6"); }),
            "b: expected an integer of at most 5, got '6'");
  EXPECT_EQ(error_of([&] { config.set("c", "-1e-9"); }),
            "c: expected a number of at least 0, got '-1e-9'");
  EXPECT_EQ(error_of([&] { config.set("d", "0"); }),
            "d: expected a number of at most -0.5, got '0'");
}

TEST(Config, Overrides) {
  Config config(sample());
  config.apply_override("time_limit=200");
  config.apply_override("ppo.lr=1e-3");
  config.apply_override("name=a=b c");
  EXPECT_EQ(config.get_integer("time_limit"), 200);
  EXPECT_EQ(config.get_number("ppo.lr"), 1e-3);
  EXPECT_EQ(config.get_text("name"), "a=b c");
  config.apply_override("name=");
  EXPECT_EQ(config.get_text("name"), "");
  const auto error = [&](const char* text) {
    return error_of([&] { config.apply_override(text); });
  };
  EXPECT_EQ(error("time_limit"), "expected key=value, got 'time_limit'");
  EXPECT_EQ(error(""), "expected key=value, got ''");
  EXPECT_EQ(error("=5"), "expected key=value, got '=5' without a key");
  EXPECT_EQ(error("time_limt=5"), "unknown key 'time_limt'; did you mean 'time_limit'?");
  EXPECT_EQ(error("time_limit="), "time_limit: expected an integer from 1 to 1000000, got ''");
}

// ---- YAML.

TEST(ConfigYaml, NestedDottedAndFlowAreTheSame) {
  for (const char* yaml : {"time_limit: 7\nppo:\n  lr: 0.5\n  epochs: 2\nrender: yes\n",
                           "time_limit: 7\nppo.lr: 0.5\nppo.epochs: 2\nrender: true\n",
                           "{time_limit: '7', ppo: {lr: 5e-1, epochs: 2}, render: on}",
                           "# comment\n---\nppo.epochs: 2\nppo: {lr: .5}\ntime_limit: 7\n"
                           "render: 1\n...\n"}) {
    Config config(sample());
    ASSERT_EQ(error_of([&] { config.load_yaml_text(yaml, "run.yaml"); }), "no error") << yaml;
    EXPECT_EQ(config.get_integer("time_limit"), 7);
    EXPECT_EQ(config.get_number("ppo.lr"), 0.5);
    EXPECT_EQ(config.get_integer("ppo.epochs"), 2);
    EXPECT_TRUE(config.get_boolean("render"));
    EXPECT_EQ(config.get_text("reward"), "sparse");
  }
}

TEST(ConfigYaml, NothingInItChangesNothing) {
  for (const char* yaml : {"", "\n", "# only a comment\n", "---\n", "~\n", "{}", "ppo:\n",
                           "ppo: {}\n", "\xEF\xBB\xBF"}) {
    Config config(sample());
    ASSERT_EQ(error_of([&] { config.load_yaml_text(yaml, "run.yaml"); }), "no error") << yaml;
    EXPECT_EQ(config.to_yaml(), Config(sample()).to_yaml());
  }
}

TEST(ConfigYaml, UnknownKeys) {
  EXPECT_EQ(yaml_error("time_limt: 5"),
            "unknown key 'time_limt' in run.yaml; did you mean 'time_limit'?");
  EXPECT_EQ(yaml_error("ppo:\n  lrr: 5"),
            "unknown key 'ppo.lrr' in run.yaml; did you mean 'ppo.lr'?");
  EXPECT_EQ(yaml_error("pppo:\n  lr: 5"),
            "unknown key 'pppo.lr' in run.yaml; did you mean 'ppo.lr'?");
  EXPECT_EQ(yaml_error("epoch: 5"), "unknown key 'epoch' in run.yaml; did you mean 'epochs'?");
  EXPECT_EQ(yaml_error("banana:"), "unknown key 'banana' in run.yaml");
  EXPECT_EQ(yaml_error("banana: {}"), "unknown key 'banana' in run.yaml");
  EXPECT_EQ(yaml_error("banana: [1]"), "unknown key 'banana' in run.yaml");
  EXPECT_EQ(yaml_error("\"a\\nb\": 1"), "unknown key 'a\\nb' in run.yaml");
}

TEST(ConfigYaml, WrongValuesHaveTheirLine) {
  EXPECT_EQ(yaml_error("render: true\n\ntime_limit: abc\n"),
            "run.yaml:3: time_limit: expected an integer from 1 to 1000000, got 'abc'");
  EXPECT_EQ(yaml_error("time_limit:\n"),
            "run.yaml:1: time_limit: expected an integer from 1 to 1000000, got nothing");
  EXPECT_EQ(yaml_error("name: null\n"), "run.yaml:1: name: expected text, got nothing");
  EXPECT_EQ(yaml_error("time_limit: [1, 2]"),
            "run.yaml:1: time_limit: expected an integer from 1 to 1000000, got a list");
  EXPECT_EQ(yaml_error("reward:\n  - sparse\n"),
            "run.yaml:1: reward: expected one of sparse, dense, got a list");
  EXPECT_EQ(yaml_error("ppo:\n  lr: {a: 1}"),
            "run.yaml:2: ppo.lr: expected a number from 0 to 1, got a map");
  EXPECT_EQ(yaml_error("ppo: 3"),
            "run.yaml:1: ppo: expected a map of keys, such as 'ppo.lr', got '3'");
  EXPECT_EQ(yaml_error("ppo: [3]"),
            "run.yaml:1: ppo: expected a map of keys, such as 'ppo.lr', got a list");
}

TEST(ConfigYaml, KeysSetTwice) {
  EXPECT_EQ(yaml_error("render: on\ntime_limit: 5\ntime_limit: 6\n"),
            "run.yaml:3: key 'time_limit' is already set on line 2");
  EXPECT_EQ(yaml_error("ppo:\n  lr: 0.5\nppo.lr: 0.5\n"),
            "run.yaml:3: key 'ppo.lr' is already set on line 2");
  EXPECT_EQ(yaml_error("ppo:\n  lr: 0.5\nppo:\n  epochs: 2\n"),
            "run.yaml:3: key 'ppo' is already set on line 1");
}

TEST(ConfigYaml, TextsOfTheWrongShape) {
  EXPECT_EQ(yaml_error("time_limit=5"),
            "run.yaml:1: expected lines 'key: value', got 'time_limit=5'");
  EXPECT_EQ(yaml_error("- a\n- b\n"), "run.yaml:1: expected lines 'key: value', got a list");
  EXPECT_EQ(yaml_error("render: on\n---\nrender: off\n"),
            "run.yaml:2: expected one YAML document, found another");
  EXPECT_EQ(yaml_error("? [a]\n: 1\n"), "run.yaml:1: expected the name of a key, got a list");
  EXPECT_EQ(yaml_error("? {a: b}\n: 1\n"), "run.yaml:1: expected the name of a key, got a map");
  EXPECT_EQ(yaml_error("~: 1\n"), "run.yaml:1: expected the name of a key, got nothing");
  EXPECT_EQ(yaml_error("'': 1\n"), "run.yaml:1: expected the name of a key, got ''");
}

TEST(ConfigYaml, SyntaxErrorsHaveTheirLine) {
  EXPECT_EQ(yaml_error("render: on\nname: b: c\n"),
            "run.yaml:2: not valid YAML: illegal map value");
  EXPECT_EQ(yaml_error("render: on\nppo: {lr: 0.5\n"),
            "run.yaml:3: not valid YAML: end of map flow not found");
  for (const char* yaml : {"render: on\nname: \"abc", "render: on\nname: 'abc"}) {
    EXPECT_EQ(yaml_error(yaml), "run.yaml:2: not valid YAML: a quoted text does not end");
  }
  for (const char* yaml : {"name: \"abc\n\n", "name: 'abc\nrender: on\n"}) {
    EXPECT_EQ(yaml_error(yaml), "run.yaml:3: not valid YAML: a quoted text does not end");
  }
  // The parser's own message ends with the character as it is, or with half of it.
  EXPECT_EQ(yaml_error("name: \"\\\x7f\"\n"),
            "run.yaml:1: not valid YAML: unknown escape character: \\x7f");
  EXPECT_EQ(yaml_error("name: \"\\\xc3\xa9\"\n"),
            "run.yaml:1: not valid YAML: unknown escape character: \\xc3");
}

TEST(ConfigYaml, BytesThatAreNotText) {
  EXPECT_EQ(yaml_error("render: on\nname: \xff\n"), "run.yaml:2: byte 0xff is not UTF-8");
  EXPECT_EQ(yaml_error("render: on\n\x04name: x\n"),
            "run.yaml:2: control character 0x04 in the text");
  EXPECT_EQ(yaml_error(std::string("a\0b", 3)), "run.yaml:1: control character 0x00 in the text");
  EXPECT_EQ(yaml_error("render: on\nname: \"a\\0b\"\n"),
            "run.yaml:2: name: expected text, got 'a\\x00b', which has a NUL in it");
}

TEST(ConfigYaml, BombsAreRefusedAtOnce) {
  std::string deep, blocks;
  for (int i = 0; i < 1000; ++i) deep += "{x: ";
  EXPECT_EQ(yaml_error(deep + std::string(1000, '}')), "run.yaml:1: maps are nested too deeply");
  for (int i = 0; i < 40; ++i) blocks += std::string(static_cast<size_t>(i), ' ') + "x:\n";
  EXPECT_EQ(yaml_error(blocks + std::string(40, ' ') + "x: 1\n"),
            "run.yaml:17: maps are nested too deeply");
  for (const char* piece :
       {"[", "{", "{x: ", "- ", "? ", "!", "&a ", "*a ", "\"", "'", "|\n", "x: "}) {
    std::string text;
    while (text.size() < 200'000) text += piece;
    EXPECT_NE(yaml_error(text), "no error") << piece;
  }
  EXPECT_EQ(yaml_error("name: &a x\nreward: *a\n"),
            "run.yaml:2: aliases (*name) are not supported");
  EXPECT_EQ(yaml_error("ppo: &a {lr: 0.5}\n<<: *a\n"),
            "run.yaml:2: aliases (*name) are not supported");
  EXPECT_EQ(yaml_error(std::string((1u << 20u) + 1, '#')),
            "run.yaml: a config of more than 1.0 MiB is not read");
}

TEST(ConfigYaml, MutatedTextsOnlyThrowError) {
  const std::string seed_text =
      "# a config\ntime_limit: 200\nreward: 'dense'\nppo: {lr: 1e-3, epochs: 8}\n"
      "render: true\nname: \"a \\x41 b\"\nthreads: 3\n";
  const std::string alphabet = ":{}[],&*#?|-<>=!%@`'\"\\\n\t ~.ax0\xC3\xA9\x01";
  Rng rng(2, stream_of(Purpose::kTest, 0));
  const auto pick = [&](size_t n) { return rng.below(static_cast<uint32_t>(n)); };
  int refused = 0;
  constexpr int kTexts = 5000;
  for (int i = 0; i < kTexts; ++i) {
    std::string text = seed_text;
    for (uint32_t edits = 1 + rng.below(4); edits > 0; --edits) {
      const size_t at = pick(text.size());
      switch (rng.below(4)) {
        case 0:
          text[at] = alphabet[pick(alphabet.size())];
          break;
        case 1:
          text.insert(at, 1, alphabet[pick(alphabet.size())]);
          break;
        case 2:
          text.erase(at, 1 + rng.below(3));
          break;
        default:
          text.insert(at, text.substr(pick(text.size()), 1 + rng.below(20)));
      }
    }
    Config config(sample());
    try {
      config.load_yaml_text(text, "run.yaml");
      Config again(sample());
      again.load_yaml_text(config.to_yaml(), "again.yaml");
      ASSERT_EQ(again.to_yaml(), config.to_yaml());
    } catch (const Error& error) {
      ++refused;
      const std::string_view what = error.what();
      ASSERT_EQ(what.find('\n'), what.npos) << what;
      ASSERT_NE(what.find("run.yaml"), what.npos) << what;
    }
  }
  EXPECT_GT(refused, kTexts / 2);
  EXPECT_LT(refused, kTexts);
}

TEST(ConfigYaml, Files) {
  const std::string path = testing::TempDir() + "flotilla_config_test.yaml";
  std::ofstream(path) << "time_limit: 9\n";
  Config config(sample());
  config.load_yaml_file(path);
  EXPECT_EQ(config.get_integer("time_limit"), 9);
  std::ofstream(path) << "time_limit: no\n";
  EXPECT_EQ(error_of([&] { config.load_yaml_file(path); }),
            path + ":1: time_limit: expected an integer from 1 to 1000000, got 'no'");
  std::ofstream(path) << std::string((1u << 20u) + 1, '\n');
  EXPECT_EQ(error_of([&] { config.load_yaml_file(path); }),
            "cannot read " + path + ": it has more than 1048576 bytes");
  std::remove(path.c_str());
  EXPECT_EQ(error_of([&] { config.load_yaml_file(path); }),
            "cannot read " + path + ": No such file or directory");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // nobody will ever write to it
  for (const std::string& special : {std::string("/"), std::string("/dev/zero"), path}) {
    EXPECT_EQ(error_of([&] { config.load_yaml_file(special); }),
              "cannot read " + special + ": not a regular file");
  }
  std::remove(path.c_str());
}

TEST(ConfigYaml, Dump) {
  Config config(sample());
  config.set("ppo.lr", "1e-5");
  config.set("name", "first run");
  EXPECT_EQ(config.to_yaml(), R"(time_limit: 500
reward: sparse
ppo:
  lr: 1.0e-05
  epochs: 4
render: false
name: "first run"
threads: 0
)");
}

TEST(ConfigYaml, DumpGathersGroups) {
  Schema schema;
  schema.integer("a.b.x", 1, {}, "")
      .integer("top", 2, {}, "")
      .integer("a.v", 3, {}, "")
      .integer("z.null", 4, {}, "")
      .integer("a.b.w", 5, {}, "")
      .integer("on", 6, {}, "");
  Config config(schema);
  EXPECT_EQ(config.to_yaml(),
            "a:\n  b:\n    x: 1\n    w: 5\n  v: 3\ntop: 2\nz:\n  \"null\": 4\n\"on\": 6\n");
  EXPECT_NO_THROW(config.load_yaml_text(config.to_yaml(), "dump"));
}

TEST(ConfigYaml, TextsRoundTrip) {
  std::vector<std::string> texts = {"",
                                    "plain",
                                    "two words",
                                    " lead",
                                    "trail ",
                                    "null",
                                    "~",
                                    "true",
                                    "No",
                                    "y",
                                    "5",
                                    "1e6",
                                    "-",
                                    "- a",
                                    "a: b",
                                    "a #b",
                                    "#",
                                    "'q'",
                                    "\"q\"",
                                    "back\\",
                                    "{}",
                                    "[x]",
                                    "&a",
                                    "*a",
                                    "!t",
                                    "%d",
                                    "@",
                                    "`",
                                    "a\nb",
                                    "a\n",
                                    "\r\n",
                                    "\t",
                                    "/some/path",
                                    "x.y-z_1",
                                    "caf\xC3\xA9",
                                    "C:\\x",
                                    ".nan",
                                    ".inf",
                                    "0x10",
                                    "\xC2\x85",
                                    "\xE2\x80\xA8",
                                    "=",
                                    "<<",
                                    "...",
                                    "---",
                                    "\xEF\xBB\xBF",
                                    "\xF0\x9F\x9A\xA2",
                                    "?",
                                    "|",
                                    ">",
                                    "a,b",
                                    "2020-01-01",
                                    std::string(5000, 'x'),
                                    std::string(3000, ' ') + "x"};
  for (int c = 0; c < 128; ++c) {
    if (c == 0) continue;  // refused
    texts.push_back(std::string(1, static_cast<char>(c)));
    texts.push_back("a" + std::string(1, static_cast<char>(c)) + "b");
  }
  for (const std::string& text : texts) {
    Config config(sample()), again(sample());
    config.set("name", text);
    ASSERT_EQ(error_of([&] { again.load_yaml_text(config.to_yaml(), "dump"); }), "no error");
    ASSERT_EQ(again.get_text("name"), text) << config.to_yaml();
    ASSERT_EQ(again.sha256(), config.sha256());
  }
}

TEST(ConfigYaml, NumbersRoundTripExactly) {
  Schema schema;
  schema.number("x", 0, {}, "").integer("n", 0, {}, "");
  Rng rng(4, stream_of(Purpose::kTest, 0));
  const auto check = [&](double x, int64_t n) {
    Config config(Schema().number("x", x, {}, "").integer("n", n, {}, ""));
    Config again(schema);
    again.load_yaml_text(config.to_yaml(), "dump");
    ASSERT_EQ(std::bit_cast<uint64_t>(again.get_number("x")), std::bit_cast<uint64_t>(x))
        << config.to_yaml();
    ASSERT_EQ(again.get_integer("n"), n);
  };
  check(-0.0, kSmallest);
  check(std::numeric_limits<double>::max(), kLargest);
  check(std::numeric_limits<double>::denorm_min(), -1);
  check(1e16, 0);
  check(1e22, 0);
  check(0.1, 0);
  for (int i = 0; i < 2000; ++i) {
    const auto x = std::bit_cast<double>(rng.next_u64());
    if (std::isfinite(x)) check(x, static_cast<int64_t>(rng.next_u64()));
  }
}

// ---- Hash.

TEST(ConfigHash, IsOverSortedCanonicalLines) {
  Config config(sample());
  EXPECT_EQ(config.sha256(), sha256_hex(""));
  for (const char* setting : {"time_limit=200", "name=other", "ppo.epochs=8", "ppo.lr=0.5",
                              "render=true", "reward=dense"}) {
    config.apply_override(setting);
  }
  EXPECT_EQ(config.sha256(), sha256_hex("name: \"other\"\n"
                                        "ppo.epochs: 8\n"
                                        "ppo.lr: 0.5\n"
                                        "render: true\n"
                                        "reward: \"dense\"\n"
                                        "time_limit: 200\n"));
}

TEST(ConfigHash, DoesNotDependOnTheOrderOfTheSchema) {
  Schema one, two;
  one.integer("a", 1, {}, "").text("b", "", "").number("c.d", 0, {}, "");
  two.number("c.d", 0, {0, 9}, "other help").integer("a", 1, {0, 5}, "").text("b", "", "");
  Config first(one), second(two);
  first.apply_override("b=x");
  first.apply_override("c.d=1");
  EXPECT_NE(first.sha256(), second.sha256());
  second.apply_override("c.d=1.0");
  second.apply_override("b=x");
  EXPECT_EQ(first.sha256(), second.sha256());
}

TEST(ConfigHash, SpellingDoesNotMatterValuesDo) {
  Config config(sample());
  const std::string before = config.sha256();
  config.set("time_limit", "5e2");
  config.set("ppo.lr", "0.000250");
  config.set("render", "off");
  EXPECT_EQ(config.sha256(), before);
  config.set("time_limit", "501");
  EXPECT_NE(config.sha256(), before);
}

TEST(ConfigHash, ExecutionKeysAreLeftOut) {
  Config config(sample());
  const std::string before = config.sha256();
  config.set("threads", "8");
  EXPECT_EQ(config.get_integer("threads"), 8);
  EXPECT_EQ(config.sha256(), before);
  EXPECT_NE(config.to_yaml().find("threads: 8\n"), std::string::npos);
}

// A key that is added leaves no trace in the hash until somebody sets it.
TEST(ConfigHash, DefaultsAreLeftOut) {
  const Config before(Schema().integer("a", 1, {}, ""));
  Config config(Schema().integer("a", 1, {}, "").choice("b", "near", {"near", "far"}, ""));
  EXPECT_EQ(config.sha256(), before.sha256());
  EXPECT_EQ(config.to_yaml(), "a: 1\nb: near\n");
  config.set("b", "far");
  EXPECT_NE(config.sha256(), before.sha256());
  config.load_yaml_text("b: near", "test");
  EXPECT_EQ(config.sha256(), before.sha256());
}

// The default of a key with one option is what the schema was asked for.
TEST(ConfigHash, ChoicesOfOneAreNotLeftOut) {
  const auto hash = [](const char* name) {
    return Config(Schema().choice("env", name, {name}, "")).sha256();
  };
  EXPECT_NE(hash("pong"), hash("catch"));
}

TEST(ConfigNames, AreAllUnderstood) {
  Schema schema = Schema().choice("scale", "rows", {"none", "rows"}, "").alias("normalise");
  schema.synonym("true", "rows").synonym("false", "none").integer("net.depth", 1, {}, "");
  schema.rename("net.depth", "depth");
  Config config(schema);
  config.load_yaml_text("normalise: false\nnet:\n  depth: 3\n", "old.yaml");
  EXPECT_EQ(config.get_text("normalise"), "none");
  EXPECT_EQ(config.get_integer("net.depth"), 3);
  EXPECT_EQ(config.to_yaml(), "scale: none\ndepth: 3\n");
}

TEST(Config, KnowsWhatWasSaid) {
  Config config(Schema().integer("n", 1, {}, "").alias("count").integer("m", 1, {}, ""));
  config.set("m", "2");
  EXPECT_FALSE(config.is_loaded("n") || config.is_overridden("n"));
  config.load_yaml_text("count: 1\n", "x.yaml");
  EXPECT_TRUE(config.is_loaded("n")) << "by another name, and with the value it had";
  EXPECT_FALSE(config.is_overridden("n"));
  config.apply_override("count=3");
  EXPECT_TRUE(config.is_overridden("n"));
  EXPECT_FALSE(config.is_loaded("m") || config.is_overridden("m"));
}

TEST(ConfigHash, TypesDoNotMeet) {
  const auto hash = [](const Schema& schema, const std::vector<std::string>& settings) {
    Config config(schema);
    for (const std::string& setting : settings) config.apply_override(setting);
    return config.sha256();
  };
  const std::string integer = hash(Schema().integer("a", 0, {}, ""), {"a=1"});
  const std::string number = hash(Schema().number("a", 0, {}, ""), {"a=1"});
  const std::string text = hash(Schema().text("a", "", ""), {"a=1"});
  EXPECT_NE(integer, number);
  EXPECT_NE(integer, text);
  EXPECT_NE(number, text);
  // A value cannot imitate another key.
  EXPECT_NE(hash(Schema().text("a", "", ""), {"a=x\"\nb: \"y"}),
            hash(Schema().text("a", "", "").text("b", "", ""), {"a=x", "b=y"}));
}

}  // namespace
}  // namespace flotilla
