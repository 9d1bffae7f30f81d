#include "flotilla/domains/funding/market/time_text.h"

#include <fmt/format.h>

#include <chrono>

namespace flotilla::funding {
namespace {

// Takes so many digits off the text.
std::optional<unsigned> take_number(std::string_view& text, size_t digits) {
  if (text.size() < digits) return std::nullopt;
  unsigned number = 0;
  for (const char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = 10 * number + static_cast<unsigned>(c - '0');
  }
  text.remove_prefix(digits);
  return number;
}

bool take_one_of(std::string_view& text, std::string_view signs) {
  if (text.empty() || signs.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// What may follow the seconds.
bool is_end(std::string_view text) {
  if (take_one_of(text, ".")) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0) return false;
    text.remove_prefix(digits);
  }
  return text.empty() || text == "Z" || text == "+00:00";
}

}  // namespace

std::string time_text(int64_t seconds) {
  using namespace std::chrono;
  const sys_seconds time{std::chrono::seconds(seconds)};
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

std::optional<int64_t> parse_time(std::string_view text) {
  using namespace std::chrono;
  struct Piece {
    size_t digits;
    std::string_view before;  // one of these
  };
  constexpr Piece kPieces[] = {{4, ""}, {2, "-"}, {2, "-"}, {2, "T "}, {2, ":"}, {2, ":"}};
  unsigned found[6] = {};
  for (size_t i = 0; i < 6; ++i) {
    if (i > 0 && !take_one_of(text, kPieces[i].before)) return std::nullopt;
    const auto number = take_number(text, kPieces[i].digits);
    if (!number) return std::nullopt;
    found[i] = *number;
  }
  const year_month_day date(year(static_cast<int>(found[0])), month(found[1]), day(found[2]));
  if (!date.ok() || found[3] > 23 || found[4] > 59 || found[5] > 59 || !is_end(text)) {
    return std::nullopt;
  }
  return sys_days(date).time_since_epoch() / seconds(1) + int64_t{found[3]} * 3600 +
         int64_t{found[4]} * 60 + int64_t{found[5]};
}

std::string period_text(const Period& period) {
  return time_text(period.first) + "/" + time_text(period.last);
}

std::optional<Period> parse_period(std::string_view text) {
  const size_t middle = text.find('/');
  if (middle == std::string_view::npos) return std::nullopt;
  const auto first = parse_time(text.substr(0, middle)), last = parse_time(text.substr(middle + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  return Period{*first, *last};
}

}  // namespace flotilla::funding
