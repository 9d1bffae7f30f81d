// Times of files: ISO 8601 in UTC.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flotilla::funding {

// "2025-09-01T00:05:00Z"
std::string time_text(int64_t seconds);
// Of the Unix clock. A space may stand for the T, "+00:00" or nothing for the Z, and parts of a
// second are left out. Nothing: it is no such time.
std::optional<int64_t> parse_time(std::string_view text);

// From one moment to another, both included, in seconds of the Unix clock.
struct Period {
  int64_t first = 0, last = 0;
};
inline bool overlap(const Period& a, const Period& b) {
  return a.first <= b.last && b.first <= a.last;
}
// "2025-09-01T00:00:00Z/2025-10-06T23:55:00Z"
std::string period_text(const Period& period);
std::optional<Period> parse_period(std::string_view text);

}  // namespace flotilla::funding
