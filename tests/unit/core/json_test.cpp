#include "flotilla/core/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "flotilla/core/json_events.h"
#include "flotilla/core/json_fields.h"
#include "flotilla/core/rng.h"
#include "support/build.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using Other = nlohmann::ordered_json;  // whose texts were written and read before
using test::error_text;

constexpr auto kReplace = Json::StrayBytes::kReplace;

TEST(Json, BuildsWhatListsSay) {
  const std::map<std::string, int> map = {{"one", 1}, {"two", 2}};
  const Json json = {{"null", nullptr},
                     {"yes", true},
                     {"int", -3},
                     {"count", size_t{7}},
                     {"small", int8_t{-1}},
                     {"float", 0.1F},
                     {"double", 0.1},
                     {"text", "a \"quote\""},
                     {"view", std::string_view("view")},
                     {"pair", {1.5, 2}},
                     {"texts", {"a", "b"}},
                     {"vector", std::vector<int>{1, 2, 3}},
                     {"nested", std::vector<std::vector<double>>{{1}, {}}},
                     {"map", map},
                     {"empty", Json::array()},
                     {"nothing", Json::object()},
                     {"inner", {{"a", 1}}}};
  EXPECT_EQ(json.dump(),
            R"({"null":null,"yes":true,"int":-3,"count":7,"small":-1,"float":0.10000000149011612,)"
            R"("double":0.1,"text":"a \"quote\"","view":"view","pair":[1.5,2],"texts":["a","b"],)"
            R"("vector":[1,2,3],"nested":[[1.0],[]],"map":{"one":1,"two":2},"empty":[],)"
            R"("nothing":{},"inner":{"a":1}})");
  EXPECT_EQ(json.dump(2), Other::parse(json.dump()).dump(2));
  EXPECT_EQ(Json().dump(), "null");
  // As an object only where every element is a pair with a key.
  EXPECT_EQ((Json{{"a", 1}, {2, 3}}).dump(), R"([["a",1],[2,3]])");
  EXPECT_EQ((Json{{"a", 1}, {"b", 2, 3}}).dump(), R"([["a",1],["b",2,3]])");
  EXPECT_EQ((Json{{"a", 1}, {"a", 2}}).dump(), (Other{{"a", 1}, {"a", 2}}).dump());
}

TEST(Json, Members) {
  Json json;
  json["b"] = 1;
  json["a"] = {{"x", 1}, {"y", 2}};
  json["b"] = "again";
  json["list"].push_back(1);
  json["list"].push_back({2, 3});
  json["list"][0] = nullptr;
  EXPECT_EQ(json.dump(), R"({"b":"again","a":{"x":1,"y":2},"list":[null,[2,3]]})");
  EXPECT_EQ(json.size(), 3U);
  EXPECT_TRUE(json.contains("a"));
  EXPECT_FALSE(json.contains("x"));
  EXPECT_EQ(json.find("x"), nullptr);
  EXPECT_EQ(Json(1).find("x"), nullptr);
  EXPECT_EQ(json["a"].items()[1].first, "y");
  EXPECT_EQ(json.at("list")[1][1].get<int>(), 3);
  json["a"] = json["list"];  // a part of itself
  json = json["a"];
  EXPECT_EQ(json.dump(), "[null,[2,3]]");
  json = Json{{"a", 1}, {"b", 2}, {"c", 3}};
  json.erase("b");
  json.erase("none");
  EXPECT_EQ(json.dump(), R"({"a":1,"c":3})");
  int elements = 0;
  for (const Json& element : json) elements += element.get<int>();
  EXPECT_EQ(elements, 0);  // an object has none
  for (const Json& element : Json{4, 5}) elements += element.get<int>();
  EXPECT_EQ(elements, 9);
}

TEST(Json, ValuesAreAskedFor) {
  const Json json = Json::parse(R"([7, -7, 7.5, true, "x", [1, 2.5], null])");
  EXPECT_TRUE(json[0].is_number_unsigned() && json[0].is_number_integer() && json[0].is_number());
  EXPECT_TRUE(!json[1].is_number_unsigned() && json[1].is_number_integer());
  EXPECT_TRUE(!json[2].is_number_integer() && json[2].is_number());
  EXPECT_TRUE(json[3].is_boolean() && !json[3].is_number());
  EXPECT_TRUE(json[4].is_string() && json[5].is_array() && json[6].is_null());
  EXPECT_EQ(json[0].get<double>(), 7);
  EXPECT_EQ(json[1].get<int>(), -7);
  EXPECT_EQ(json[2].get<int>(), 7);
  EXPECT_EQ(json[2].get<float>(), 7.5F);
  EXPECT_EQ(json[3].get<bool>(), true);
  EXPECT_EQ(json[4].get<std::string>(), "x");
  EXPECT_EQ(json[5].get<std::vector<double>>(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ((Json(std::map<std::string, int>{{"a", 1}}).get<std::map<std::string, int>>().at("a")),
            1);
  const auto misuse = [](const auto& call) { return error_text(ErrorCode::kInternal, call); };
  EXPECT_EQ(misuse([&] { json[3].get<int>(); }), "a JSON value is not a number");
  EXPECT_EQ(misuse([&] { json[0].get<bool>(); }), "a JSON value is not a boolean");
  EXPECT_EQ(misuse([&] { json[0].text(); }), "a JSON value is not a text");
  EXPECT_EQ(misuse([&] { json[0].get<std::vector<int>>(); }), "a JSON value is not an array");
  EXPECT_EQ(misuse([&] { json[7]; }), "a JSON value is not that long");
  EXPECT_EQ(misuse([&] { json.at("x"); }), "a JSON value is not an object with 'x'");
  EXPECT_EQ(misuse([&] { json.items(); }), "a JSON value is not an object");
  EXPECT_EQ(misuse([] { Json(1)["x"] = 2; }), "a JSON value is not an object");
  EXPECT_EQ(misuse([] { Json(1).push_back(2); }), "a JSON value is not an array");
}

TEST(Json, NumbersHaveTheTextsOfBefore) {
  Rng rng(1, stream_of(Purpose::kTest, 0));
  std::vector<double> doubles = {0.0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.1,
                                 1e15,
                                 1e16,
                                 1e-5,
                                 1e300,
                                 123456789.125,
                                 std::numeric_limits<double>::denorm_min(),
                                 std::numeric_limits<double>::max(),
                                 std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  for (int i = 0; i < 20'000; ++i) {
    doubles.push_back(std::bit_cast<double>(rng.next_u64()));
    doubles.push_back(static_cast<double>(rng.below(1'000'000)) / 1000);
    doubles.push_back(static_cast<float>(rng.below(1'000'000)) / 997.0F);
  }
  for (const double value : doubles) {
    const std::string text = Json(value).dump();
    ASSERT_EQ(text, Other(value).dump());
    if (std::isfinite(value)) {
      ASSERT_EQ(std::bit_cast<uint64_t>(Json::parse(text).get<double>()),
                std::bit_cast<uint64_t>(value));
    }
  }
  for (const int64_t value : {int64_t{0}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    EXPECT_EQ(Json(value).dump(), Other(value).dump());
  }
  EXPECT_EQ(Json(UINT64_MAX).dump(), "18446744073709551615");
  EXPECT_EQ(Json::parse("18446744073709551615").get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Json::parse("-9223372036854775808").get<int64_t>(), INT64_MIN);
  EXPECT_EQ(Json::parse("18446744073709551616").dump(), "1.8446744073709552e+19");
  EXPECT_EQ(Json::parse("-9223372036854775809").dump(), Other(-9223372036854775809.0).dump());
}

// What one of them reads, the other reads, too, as the same.
TEST(Json, ReadsAndRefusesAsBefore) {
  const std::vector<std::string> texts = {
      "",
      " ",
      "null",
      " true\n",
      "nul",
      "[1,2",
      "[1,]",
      "{}",
      "{\"a\"}",
      "{\"a\":1,}",
      "1 2",
      "{\"a\":1} x",
      "NaN",
      "-",
      "-0",
      "-0.0",
      "01",
      "+1",
      "1.",
      ".5",
      "1e5",
      "1E+5",
      "1e999",
      "-1e999",
      "1e-999",
      "\"\\u00e4\"",
      "\"\\ud83d\\ude00\"",
      "\"\\ud83d\"",
      "\"\\u0000\"",
      "\"\t\"",
      "\"a",
      "'a'",
      "/* */ 1",
      "[1] // x",
      "\xef\xbb\xbf[1]",
      "\xef\xbb[1]",
      "\"\xff\"",
      "\"\xc3\xa4\"",
      "\"\xed\xa0\x80\"",
      std::string("1\0", 2),
      std::string("\"\0\"", 3),
      R"({"a":1,"b":2,"a":3})",
      R"({"b":[1,{"x":null}],"a":{},"b":{"a":1,"a":{"c":[]}},"":0})",
      "[[[]],{},[{}],\"\"]",
      "[1,-1,1.0,1e2,18446744073709551615,18446744073709551616]"};
  for (const std::string& text : texts) {
    const Other other = Other::parse(text, nullptr, false);
    const std::optional<Json> json = Json::try_parse(text);
    ASSERT_EQ(json.has_value(), !other.is_discarded()) << text;
    ASSERT_EQ(is_json(text), !other.is_discarded()) << text;
    if (json) {
      EXPECT_EQ(json->dump(), other.dump()) << text;
      EXPECT_EQ(json->dump(0), other.dump(0)) << text;
      EXPECT_EQ(json->dump(2), other.dump(2)) << text;
      EXPECT_EQ(json->is_number_unsigned(), other.is_number_unsigned()) << text;
    } else {
      std::string why;
      try {
        const Other discarded = Other::parse(text);
      } catch (const nlohmann::json::exception& error) {
        why = error.what();
      }
      EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { Json::parse(text); }), why) << text;
    }
  }
}

TEST(Json, OfTheSameKeyTheLastCounts) {
  EXPECT_EQ(Json::parse(R"({"z":1,"b":2,"z":3,"a":4,"b":[5],"z":6})").dump(),
            R"({"z":6,"b":[5],"a":4})");
  // In little time, also where there are many, all different or all the same.
  std::string different = "{", same = "{";
  for (int i = 0; i < 200'000; ++i) {
    different += "\"" + std::to_string(i) + "\":1,";
    same += "\"k\":" + std::to_string(i) + ",";
  }
  EXPECT_EQ(Json::parse(different + "\"0\":2}").size(), 200'000U);
  EXPECT_EQ(Json::parse(same + "\"x\":0}").dump(), R"({"k":199999,"x":0})");
}

TEST(Json, DepthTakesNoStack) {
  constexpr size_t kLevels = test::kSanitized ? 20'000 : 200'000;
  const std::string lists = std::string(kLevels, '[') + std::string(kLevels, ']');
  std::string objects, end;
  for (size_t i = 0; i < kLevels; ++i) objects += "{\"a\":[";
  for (size_t i = 0; i < kLevels; ++i) end += "]}";
  for (const std::string& text : {lists, objects + end}) {
    Json json = Json::parse(text);
    const Json copy = json;
    json = 1;
    EXPECT_EQ(copy.dump(), text);
  }
  EXPECT_FALSE(Json::try_parse(objects));
  EXPECT_FALSE(is_json(objects));
}

TEST(Json, StrayBytes) {
  for (const std::string text : {"a\xff\xc3z", "\xe2\x82", "\xed\xa0\x80", "fine \xc3\xa4\x01\n"}) {
    const Json json = {{text, text}};
    EXPECT_EQ(json.dump(1, kReplace),
              (Other{{text, text}}).dump(1, ' ', false, Other::error_handler_t::replace));
  }
  EXPECT_EQ(Json("a\xff").dump(), "\"a\xef\xbf\xbd\"") << "unless it is asked to refuse";
  const auto refuse = [] { Json("a\xff").dump(-1, Json::StrayBytes::kRefuse); };
  EXPECT_EQ(error_text(ErrorCode::kInternal, refuse),
            "[json.exception.type_error.316] invalid UTF-8 byte at index 1: 0xFF");
}

// Writes down what it is told, and stops at a text.
class Notes final : public JsonEvents {
 public:
  std::string text;
  size_t position = 0;

  bool null() override { return note("null"); }
  bool boolean(bool value) override { return note(value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return note("i" + std::to_string(value)); }
  bool number_unsigned(uint64_t value) override { return note("u" + std::to_string(value)); }
  bool number_float(double value) override { return note("f" + std::to_string(value)); }
  bool string(std::string&) override { return false; }
  bool start_object() override { return note("{"); }
  bool key(std::string& value) override { return note(value + ":"); }
  bool end_object() override { return note("}"); }
  bool start_array() override { return note("["); }
  bool end_array() override { return note("]"); }
  void error(size_t at, const std::string&) override { position = at; }

 private:
  bool note(const std::string& what) {
    text += what + " ";
    return true;
  }
};

TEST(JsonEvents, InTheirOrder) {
  Notes notes;
  EXPECT_TRUE(read_json(R"({"a": [1, -2, 0.5], "a": null, "b": [true, false]})", notes));
  EXPECT_EQ(notes.text, "{ a: [ u1 i-2 f0.500000 ] a: null b: [ true false ] } ");
  Notes stopped;
  EXPECT_FALSE(read_json(R"([1, "x", 2])", stopped));
  EXPECT_EQ(stopped.text, "[ u1 ");
  EXPECT_EQ(stopped.position, 0U);
  Notes broken;
  EXPECT_FALSE(read_json("[1, ?]", broken));
  EXPECT_EQ(broken.position, 5U);
}

TEST(JsonFields, TakesWhatIsThereOrNamesIt) {
  const Json json = parse_json(
      R"({"x": 1.5, "n": 3, "yes": true, "name": "a", "list": [1], "in": {"n": -1}, "null": null})",
      "f.json");
  const JsonFields fields(json, "f.json");
  EXPECT_EQ(fields.number("x"), 1.5);
  EXPECT_EQ(fields.number("n"), 3);
  EXPECT_EQ(fields.count("n"), 3U);
  EXPECT_TRUE(fields.boolean("yes"));
  EXPECT_EQ(fields.text("name"), "a");
  EXPECT_EQ(fields.list("list").size(), 1U);
  EXPECT_EQ(fields.object("in").number("n"), -1);
  const auto refusal = [](const auto& call) { return error_text(ErrorCode::kData, call); };
  EXPECT_EQ(refusal([&] { fields.count("x"); }), "f.json: 'x' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.number("null"); }), "f.json: 'null' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.text("none"); }), "f.json: 'none' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.boolean("n"); }), "f.json: 'n' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.list("in"); }), "f.json: 'in' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.object("in").count("n"); }),
            "f.json, in: 'n' is missing or wrong");
  EXPECT_EQ(refusal([&] { fields.object("list"); }), "f.json, list: is no object");
  EXPECT_EQ(refusal([] { parse_json("[", "f.json"); }), "f.json: is not JSON");
}

}  // namespace
}  // namespace flotilla
