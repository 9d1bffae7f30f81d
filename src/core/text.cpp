#include "flotilla/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace flotilla {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Insertions, deletions, substitutions and swaps of neighbours; a swapped pair is not edited again
// ("optimal string alignment").
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + substitution});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

// Takes the first character off `text`: as it is, or escaped where it would break a line or drive a
// terminal.
std::string next_visible(std::string_view& text) {
  const std::string_view rest = text;
  const std::optional<char32_t> point = next_code_point(text);
  if (point == U'\n') return "\\n";
  if (point == U'\t') return "\\t";
  if (!point || *point < 0x20 || *point == 0x7F) {
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(rest[0]));
  }
  if ((*point >= 0x80 && *point < 0xA0) || *point == 0x2028 || *point == 0x2029) {
    return fmt::format("\\u{:04x}", static_cast<uint32_t>(*point));
  }
  return std::string(rest.substr(0, rest.size() - text.size()));
}

// The characters of a word, without the middle of a very long one.
std::string cut_word(const std::vector<std::string>& characters) {
  constexpr size_t kLongest = 300, kKept = 140;  // at either end
  if (characters.size() <= kLongest) return join(characters, "");
  const std::vector<std::string> begin(characters.begin(), characters.begin() + kKept),
      end(characters.end() - kKept, characters.end());
  return join(begin, "") + "..." + join(end, "");
}

}  // namespace

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const size_t shorter = std::min(word.size(), candidate.size());
    const size_t longer = std::max(word.size(), candidate.size());
    // One slip in every three characters is the most that still reads as the same word.
    const size_t limit = (longer + 1) / 3;
    if (longer - shorter > limit) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance > limit || (best && distance >= best_distance)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::optional<std::string> candidate = nearest(word, candidates);
  return candidate ? "; did you mean '" + *candidate + "'?" : "";
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string grouped(int64_t number) {
  std::string digits = std::to_string(number);
  const int64_t first = number < 0 ? 1 : 0;
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > first; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string number_or_dash(const char* format, double number) {
  return std::isfinite(number) ? fmt::format(fmt::runtime(format), number) : "-";
}

std::string rate(double per_second) {
  if (!std::isfinite(per_second)) return "-";
  if (per_second < 0.0995) return fmt::format("{:.2g}", per_second);
  if (per_second < 9.995) return fmt::format("{:.2f}", per_second);
  if (per_second < 99.95) return fmt::format("{:.1f}", per_second);
  if (per_second < 99'999.5) return grouped(std::llround(per_second));
  // 999.6 k would print as 1e+03 k.
  return per_second < 999'500 ? fmt::format("{:.3g} k", per_second * 1e-3)
                              : fmt::format("{:.3g} M", per_second * 1e-6);
}

std::string with_interval(double mean, double half_width) {
  std::string text = number_or_dash("{:.2f}", mean);
  if (std::isfinite(mean) && std::isfinite(half_width))
    text += fmt::format(" +- {:.2f}", half_width);
  return text;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::optional<char32_t> next_code_point(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80             ? 1
                        : (lead & 0xE0) == 0xC0 ? 2
                        : (lead & 0xF0) == 0xE0 ? 3
                        : (lead & 0xF8) == 0xF0 ? 4
                                                : 0;
  constexpr std::array<unsigned char, 5> kLeadBits = {0, 0x7F, 0x1F, 0x0F, 0x07};
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  bool valid = length > 0 && length <= text.size();
  char32_t point = lead & kLeadBits[length];
  for (size_t i = 1; valid && i < length; ++i) {
    valid = (byte(i) & 0xC0) == 0x80;
    point = (point << 6) | (byte(i) & 0x3F);
  }
  const bool surrogate = point >= 0xD800 && point <= 0xDFFF;
  if (!valid || point < kSmallest[length] || point > 0x10FFFF || surrogate) {
    text.remove_prefix(1);
    return std::nullopt;
  }
  text.remove_prefix(length);
  return point;
}

std::string printable(std::string_view text) {
  constexpr int kLongest = 80;
  std::string out;
  for (int shown = 0; !text.empty(); ++shown) {
    if (shown == kLongest) return out + "...";
    out += next_visible(text);
  }
  return out;
}

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

std::string for_terminal(std::string_view message, Lines lines) {
  std::string out;
  std::vector<std::string> word;
  while (!message.empty()) {
    const char c = message[0];
    if (c != ' ' && !(c == '\n' && lines == Lines::kMany)) {
      word.push_back(next_visible(message));
      continue;
    }
    out += cut_word(word) + c;
    word.clear();
    message.remove_prefix(1);
  }
  return out + cut_word(word);
}

}  // namespace flotilla
