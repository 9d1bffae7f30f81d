#include "flotilla/domains/coinrun/recorded_line.h"

#include <algorithm>

#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/replay.h"

namespace flotilla::coinrun {
namespace {

// The numbers of a list, each as a float of 32 bits.
std::vector<float> floats(const JsonFields& fields, const char* name, const Json& list) {
  if (!list.is_array()) fields.refuse_field(name);
  std::vector<float> values;
  for (const Json& value : list) {
    if (!value.is_number()) fields.refuse_field(name);
    values.push_back(value.get<float>());
  }
  return values;
}

}  // namespace

Mode RecordedLine::mode() const {
  const std::string name = fields_.text("mode");
  if (name != "easy" && name != "hard") fields_.refuse_field("mode");
  return mode_named(name);
}

int32_t RecordedLine::level_seed() const {
  const uint64_t seed = fields_.count("level_seed");
  if (seed >= kLevelSeeds) fields_.refuse_field("level_seed");
  return static_cast<int32_t>(seed);
}

std::vector<int> RecordedLine::actions() const {
  return parse_actions(fields_.text("actions"), where_);
}

void RecordedLine::same_text(const char* name, const std::string& got) const {
  const std::string expected = fields_.text(name);
  compare(name, expected, got, expected == got);
}

void RecordedLine::same_number(const char* name, float got) const {
  const auto expected = static_cast<float>(fields_.number(name));
  compare(name, expected, got, expected == got);
}

void RecordedLine::same_numbers(const char* name, const std::vector<float>& got) const {
  same_numbers(name, fields_.list(name), got);
}

void RecordedLine::same_numbers(const char* name, const Json& list,
                                const std::vector<float>& got) const {
  const std::vector<float> expected = floats(fields_, name, list);
  compare(name, Json(expected).dump(), Json(got).dump(), expected == got);
}

void RecordedLine::same_count(const char* name, size_t expected, size_t got) const {
  compare(fmt::format("number of {}", name), expected, got, expected == got);
}

void RecordedLine::same_lists(const char* name, const std::vector<std::vector<float>>& got) const {
  const Json& expected = fields_.list(name);
  same_count(name, expected.size(), got.size());
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i) {
    same_numbers(name, expected[i], got[i]);
  }
}

void RecordedLine::same_count_of_actions(size_t got) const {
  same_count("actions", fields_.text("actions").size(), got);
}

}  // namespace flotilla::coinrun
