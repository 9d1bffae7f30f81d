// What the files of the config share; not for others.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/core/config.h"

namespace flotilla::config_detail {

constexpr size_t kDeepest = 16;             // levels of a dotted name and of nested maps
constexpr size_t kLargestFile = 1u << 20u;  // a config is written by people

[[noreturn]] void usage(const std::string& message);  // Error(kUsage)
[[noreturn]] void bug(const std::string& message);    // Error(kInternal)

bool is_utf8(std::string_view text);

// What a key expects, in words: "integer from 1 to 9", and "lr: expected a number".
std::string describe(const Key& key);
std::string expected(const Key& key);

template <class T>
bool inside(const Range<T>& range, T value) {
  return value >= range.low && value <= range.high;
}

// Text to a value of the key's type. `where` goes in front of an error: "run.yaml:3: " or "".
Value parse_value(const Key& key, std::string_view text, const std::string& where);

// The shortest digits that read back to the same number, always with a point: other YAML readers
// take "1e-05" for a string.
std::string number_text(double value);
// The one text of a value that hashes are made of.
std::string canonical(const Value& value);
std::string yaml_scalar(const Value& value);

// Key names: "ppo.lr" is below "ppo".
bool is_below(std::string_view name, std::string_view group);
const Key* first_below(const Schema& schema, std::string_view group);
[[noreturn]] void unknown_key(const Schema& schema, std::string_view name,
                              const std::string& origin);

// One `key: value` of a YAML text, its name dotted.
struct YamlEntry {
  std::string name;
  std::string text;
  int line;
};
std::vector<YamlEntry> parse_yaml(const Schema& schema, const std::string& yaml,
                                  const std::string& origin);
std::string at_line(const std::string& origin, int line);  // "run.yaml:3: "

}  // namespace flotilla::config_detail
