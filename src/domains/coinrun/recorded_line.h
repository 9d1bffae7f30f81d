// One line of a recording: fields that say what was played, and those that are compared with what
// came of it here. Each comparison is a fact of the Verification; the first that differs is noted.
//
// Throws Error(kData) for a field that is missing or no such thing.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/core/json_fields.h"
#include "flotilla/domains/coinrun/state.h"
#include "flotilla/domains/coinrun/verify.h"

namespace flotilla::coinrun {

class RecordedLine {
 public:
  // `where` is the file and the line. All three must outlive this.
  RecordedLine(const Json& json, const std::string& where, Verification& result)
      : fields_(json, where), where_(where), result_(result), json_(json) {}

  const std::string& where() const { return where_; }
  const JsonFields& fields() const { return fields_; }
  bool has(const char* name) const { return json_.contains(name); }

  Mode mode() const;
  int32_t level_seed() const;
  std::vector<int> actions() const;

  void same_text(const char* name, const std::string& got) const;
  void same_number(const char* name, float got) const;
  void same_numbers(const char* name, const std::vector<float>& got) const;
  void same_numbers(const char* name, const Json& list, const std::vector<float>& got) const;
  void same_count(const char* name, size_t expected, size_t got) const;
  // A list of lists: how many there are, and each of them.
  void same_lists(const char* name, const std::vector<std::vector<float>>& got) const;
  // One character of `actions` for each.
  void same_count_of_actions(size_t got) const;

  // Counts a fact, and notes it where it differs.
  template <class T>
  void compare(std::string_view name, const T& expected, const T& got, bool same) const {
    ++result_.facts;
    if (same || result_.mismatches++ > 0) return;
    result_.first_mismatch =
        fmt::format("{}, {}: expected {}, got {}", where_, name, expected, got);
  }

 private:
  JsonFields fields_;
  const std::string& where_;
  Verification& result_;
  const Json& json_;
};

}  // namespace flotilla::coinrun
