#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "flotilla/core/config_detail.h"
#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::config_detail {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

template <class T>
std::string describe_range(const char* kind, const Range<T>& range) {
  const bool bounded_below = range.low > std::numeric_limits<T>::lowest();
  const bool bounded_above = range.high < std::numeric_limits<T>::max();
  if (bounded_below && bounded_above) {
    return fmt::format("{} from {} to {}", kind, range.low, range.high);
  }
  if (bounded_below) return fmt::format("{} of at least {}", kind, range.low);
  if (bounded_above) return fmt::format("{} of at most {}", kind, range.high);
  return kind;
}

struct ParsedInteger {
  std::optional<int64_t> value;
  bool too_large = false;  // an integer, but not one of 64 bits
};

// Decimal digits with an optional fraction and exponent, taken exactly: "1e6" is an integer, "1.5"
// is not, and no value passes through a double.
ParsedInteger parse_integer(std::string_view text) {
  constexpr ParsedInteger kNotAnInteger{};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string number;  // sign and digits
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    if (text[0] == '-') number = "-";
    text.remove_prefix(1);
  }
  const size_t sign = number.size();
  int64_t exponent = 0;
  const auto take_digits = [&] {
    size_t count = 0;
    while (count < text.size() && is_digit(text[count])) ++count;
    number += text.substr(0, count);
    text.remove_prefix(count);
    return count;
  };
  size_t digits = take_digits();
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    const size_t fraction = take_digits();
    digits += fraction;
    exponent -= static_cast<int64_t>(fraction);
  }
  if (digits == 0) return kNotAnInteger;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    if (text.size() > 1 && text[0] == '+' && is_digit(text[1])) text.remove_prefix(1);
    int32_t written = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), written);
    if (status != std::errc()) return kNotAnInteger;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    exponent += written;
  } else if (text == "k" || text == "M" || text == "G") {
    exponent += text == "k" ? 3 : text == "M" ? 6 : 9;
    text = {};
  }
  if (!text.empty()) return kNotAnInteger;

  number.erase(sign, std::min(number.find_first_not_of('0', sign), number.size()) - sign);
  if (number.size() == sign) return {0, false};
  for (; exponent < 0; ++exponent) {
    if (number.back() != '0') return kNotAnInteger;
    number.pop_back();
  }
  constexpr size_t kMostDigits = std::numeric_limits<int64_t>::digits10 + 1;
  if (number.size() - sign + static_cast<uint64_t>(exponent) > kMostDigits) return {{}, true};
  number.append(static_cast<size_t>(exponent), '0');
  int64_t value = 0;
  const auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (status != std::errc() || end != number.data() + number.size()) return {{}, true};
  return {value, false};
}

std::optional<double> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<bool> parse_boolean(std::string_view text) {
  const std::string word = lower(text);
  if (is_one_of(word, {"true", "yes", "on", "1"})) return true;
  if (is_one_of(word, {"false", "no", "off", "0"})) return false;
  return std::nullopt;
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::string_view rest = text;
    const char32_t point = next_code_point(text).value_or(0xFFFD);
    if (point == '"' || point == '\\') {
      out += '\\';
      out += rest[0];
    } else if (point == '\n') {
      out += "\\n";
    } else if (point == '\t') {
      out += "\\t";
    } else if (point < 0x20 || (point >= 0x7F && point < 0xA0)) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(point));
    } else if (point == 0x2028 || point == 0x2029 || point == 0xFEFF) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(point));
    } else {
      out += rest.substr(0, rest.size() - text.size());
    }
  }
  return out + '"';
}

// Whether every YAML reader takes the bare text for this same string.
bool is_plain(std::string_view text) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' ||
           c == '/';
  };
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_word)) return false;
  if (!std::isalpha(static_cast<unsigned char>(text[0])) && text[0] != '/') return false;
  return !is_one_of(lower(text), {"null", "true", "false", "yes", "no", "on", "off", "y", "n"});
}

}  // namespace

void usage(const std::string& message) { throw Error(ErrorCode::kUsage, message); }
void bug(const std::string& message) { throw Error(ErrorCode::kInternal, message); }

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (!next_code_point(text)) return false;
  }
  return true;
}

std::string describe(const Key& key) {
  if (!key.options.empty()) return "one of " + join(key.options, ", ");
  if (std::holds_alternative<int64_t>(key.default_value)) {
    return describe_range("integer", key.integer_range);
  }
  if (std::holds_alternative<double>(key.default_value)) {
    return describe_range("number", key.number_range);
  }
  return std::holds_alternative<bool>(key.default_value) ? "true or false" : "text";
}

std::string expected(const Key& key) {
  const char* article = std::holds_alternative<int64_t>(key.default_value)  ? "an "
                        : std::holds_alternative<double>(key.default_value) ? "a "
                                                                            : "";
  return key.name + ": expected " + article + describe(key);
}

Value parse_value(const Key& key, std::string_view text, const std::string& where) {
  std::string remark;
  if (std::holds_alternative<int64_t>(key.default_value)) {
    const ParsedInteger parsed = parse_integer(text);
    if (parsed.value && inside(key.integer_range, *parsed.value)) return *parsed.value;
    if (parsed.too_large) remark = ", which does not fit in 64 bits";
  } else if (std::holds_alternative<double>(key.default_value)) {
    const std::optional<double> value = parse_number(text);
    if (value && inside(key.number_range, *value)) return *value;
  } else if (std::holds_alternative<bool>(key.default_value)) {
    const std::optional<bool> value = parse_boolean(text);
    if (value) return *value;
  } else if (!key.options.empty()) {
    if (std::find(key.options.begin(), key.options.end(), text) != key.options.end()) {
      return std::string(text);
    }
    for (const auto& [word, option] : key.synonyms) {
      if (word == text) return option;
    }
    remark = did_you_mean(text, key.options);
  } else {
    const bool has_nul = text.find('\0') != text.npos;  // would end a path, and be no part of it
    if (is_utf8(text) && !has_nul) return std::string(text);
    remark = has_nul ? ", which has a NUL in it" : ", which is not UTF-8";
  }
  usage(where + expected(key) + ", got " + in_quotes(text) + remark);
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

std::string canonical(const Value& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean ? "true" : "false";
  return double_quoted(std::get<std::string>(value));
}

std::string yaml_scalar(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && is_plain(*text) ? *text : canonical(value);
}

}  // namespace flotilla::config_detail
