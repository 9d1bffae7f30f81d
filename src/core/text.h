// Small text helpers for messages people read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla {

// The candidate nearest to `word` by edit distance (Damerau-Levenshtein, case ignored), if it is
// near enough to be a likely slip.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);

// "; did you mean 'cartpole'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

std::string join(const std::vector<std::string>& parts, std::string_view separator);

// "1 thread", "2 threads"
std::string counted(int64_t count, std::string_view noun);

// "1,234,560"
std::string grouped(int64_t number);

// A number in a fmt format such as "{:.2f}"; "-" where there is none yet.
std::string number_or_dash(const char* format, double number);

// How many in a second, with digits that mean something: "0.37", "12.4", "1,234", "312 k".
std::string rate(double per_second);

// "2.41 +- 0.30"; without the interval where it is not known, "-" where the mean is not.
std::string with_interval(double mean, double half_width);

std::string human_bytes(uint64_t bytes);  // "12.3 MiB"

// Takes the first code point off `text`. Where the bytes there are not UTF-8, takes one byte off
// and returns nothing. REQUIRES: text is not empty.
std::optional<char32_t> next_code_point(std::string_view& text);

// The text for a one-line message: control characters and stray bytes escaped, a long text cut.
std::string printable(std::string_view text);
std::string in_quotes(std::string_view text);  // the same as 'text'

// A whole message for the terminal, whatever names are in it: control characters and stray bytes
// are escaped, and of a very long word the middle is cut. A message of one line stays one; of many,
// its newlines are kept.
enum class Lines : uint8_t { kOne, kMany };
std::string for_terminal(std::string_view message, Lines lines);

}  // namespace flotilla
