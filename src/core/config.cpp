#include "core/config.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/sha256.h"
#include "core/text.h"

namespace flotilla {
namespace {

constexpr size_t kDeepest = 16;             // levels of a dotted name and of nested maps
constexpr size_t kLargestFile = 1u << 20u;  // a config is written by people

[[noreturn]] void usage(const std::string& message) { throw Error(ErrorCode::kUsage, message); }
[[noreturn]] void bug(const std::string& message) { throw Error(ErrorCode::kInternal, message); }

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    if (!next_code_point(text)) return false;
  }
  return true;
}

// ---- What a key expects, in words.

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

// ---- Text to values.

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

template <class T>
bool inside(const Range<T>& range, T value) {
  return value >= range.low && value <= range.high;
}

// `where` goes in front of an error: "run.yaml:3: " or "".
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
    remark = did_you_mean(text, key.options);
  } else {
    if (is_utf8(text)) return std::string(text);
    remark = ", which is not UTF-8";
  }
  usage(where + expected(key) + ", got " + in_quotes(text) + remark);
}

// ---- Values to text.

// Shortest digits that read back to the same number, always with a point: other YAML readers take
// "1e-05" for a string.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
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

// The one text of a value that hashes are made of.
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

// ---- Key names.

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t dot = name.find('.');
    parts.emplace_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
}

bool is_below(std::string_view name, std::string_view group) {
  return name.size() > group.size() && name.starts_with(group) && name[group.size()] == '.';
}

const Key* first_below(const Schema& schema, std::string_view group) {
  for (const Key& key : schema.keys()) {
    if (is_below(key.name, group)) return &key;
  }
  return nullptr;
}

void check_name(const std::string& name) {
  const std::vector<std::string> parts = parts_of(name);
  bool good = parts.size() <= kDeepest;
  for (const std::string& part : parts) {
    good = good && !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
             return std::isalnum(c) || c == '_' || c == '-';
           });
  }
  if (!good) bug("bad name of a config key: " + in_quotes(name));
}

// "lr" for "ppo.lr" is the commonest slip and far in edits, so it is looked for by itself.
std::string suggestion(const Schema& schema, std::string_view name) {
  std::vector<std::string> names, ending;
  for (const Key& key : schema.keys()) {
    names.push_back(key.name);
    if (key.name.ends_with("." + std::string(name))) ending.push_back(key.name);
  }
  if (!name.empty() && ending.size() == 1) return "; did you mean '" + ending[0] + "'?";
  return did_you_mean(name, names);
}

[[noreturn]] void unknown_key(const Schema& schema, std::string_view name,
                              const std::string& origin) {
  const std::string in = origin.empty() ? "" : " in " + origin;
  usage("unknown key " + in_quotes(name) + in + suggestion(schema, name));
}

// ---- YAML.

std::string at_line(const std::string& origin, int line) {
  return line > 0 ? fmt::format("{}:{}: ", origin, line) : origin + ": ";
}

int line_of(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

// yaml-cpp takes a byte 0x04 for the end of the file and replaces bytes that are not UTF-8, both
// without a word.
void check_characters(std::string_view text, const std::string& origin) {
  int line = 1;
  while (!text.empty()) {
    const unsigned char byte = static_cast<unsigned char>(text[0]);
    const std::optional<char32_t> point = next_code_point(text);
    if (!point) usage(at_line(origin, line) + fmt::format("byte 0x{:02x} is not UTF-8", byte));
    if (*point == '\n') ++line;
    if (*point < 0x20 && *point != '\n' && *point != '\r' && *point != '\t') {
      usage(at_line(origin, line) + fmt::format("control character 0x{:02x} in the text", byte));
    }
  }
}

struct Entry {
  std::string name;
  std::string text;
  int line;
};

// Takes the parser's events instead of building its tree of nodes: every key has its line, and
// depth and aliases are refused as they appear, before they can cost anything.
class Flattener : public YAML::EventHandler {
 public:
  Flattener(const Schema& schema, const std::string& origin) : schema_(schema), origin_(origin) {}

  const std::vector<Entry>& entries() const { return entries_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) fail(mark, "expected one YAML document, found another");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (prefixes_.empty()) return;  // an empty document
    if (!name_) fail(mark, "expected the name of a key, got nothing");
    const std::string name = take_name();
    const Key* key = schema_.find(name);
    if (key != nullptr) fail_value(expected(*key) + ", got nothing");
    if (first_below(schema_, name) == nullptr) unknown_key(schema_, name, origin_);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases (*name) are not supported");
  }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& value) override {
    if (prefixes_.empty()) fail(mark, "expected lines 'key: value', got " + in_quotes(value));
    if (!name_) return set_name(mark, value);
    const std::string name = take_name();
    if (schema_.find(name) == nullptr) {
      check_not_group(name, in_quotes(value));
      unknown_key(schema_, name, origin_);
    }
    entries_.push_back({name, value, name_line_});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    if (prefixes_.empty()) fail(mark, "expected lines 'key: value', got a list");
    if (!name_) fail(mark, "expected the name of a key, got a list");
    const std::string name = take_name();
    const Key* key = schema_.find(name);
    if (key != nullptr) fail_value(expected(*key) + ", got a list");
    check_not_group(name, "a list");
    unknown_key(schema_, name, origin_);
  }
  void OnSequenceEnd() override {}

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (prefixes_.empty()) {
      prefixes_.emplace_back();
      return;
    }
    if (!name_) fail(mark, "expected the name of a key, got a map");
    const std::string name = take_name();
    const Key* key = schema_.find(name);
    if (key != nullptr) fail_value(expected(*key) + ", got a map");
    if (prefixes_.size() == kDeepest) fail(mark, "maps are nested too deeply");
    prefixes_.push_back(name + ".");
    sizes_.push_back(seen_.size());
  }

  void OnMapEnd() override {
    const std::string prefix = prefixes_.back();
    prefixes_.pop_back();
    if (prefix.empty()) return;
    const bool was_empty = sizes_.back() == seen_.size();
    sizes_.pop_back();
    const std::string name = prefix.substr(0, prefix.size() - 1);
    if (was_empty && first_below(schema_, name) == nullptr) unknown_key(schema_, name, origin_);
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    usage(at_line(origin_, line_of(mark)) + message);
  }

  // An error in the value of the key that was named last.
  [[noreturn]] void fail_value(const std::string& message) const {
    usage(at_line(origin_, name_line_) + message);
  }

  void set_name(const YAML::Mark& mark, const std::string& part) {
    if (part.empty()) fail(mark, "expected the name of a key, got ''");
    name_ = prefixes_.back() + part;
    name_line_ = line_of(mark);
    const auto [first, is_new] = seen_.emplace(*name_, name_line_);
    if (!is_new) {
      fail(mark, fmt::format("key {} is already set on line {}", in_quotes(*name_), first->second));
    }
  }

  std::string take_name() { return *std::exchange(name_, std::nullopt); }

  void check_not_group(const std::string& name, const std::string& got) const {
    const Key* key = first_below(schema_, name);
    if (key == nullptr) return;
    fail_value(
        fmt::format("{}: expected a map of keys, such as '{}', got {}", name, key->name, got));
  }

  const Schema& schema_;
  const std::string& origin_;
  int documents_ = 0;
  std::vector<std::string> prefixes_;  // of the maps that are open: "", "ppo."
  std::vector<size_t> sizes_;          // seen_.size() when each of them but the first was opened
  std::optional<std::string> name_;    // the key whose value comes next
  int name_line_ = 0;
  std::map<std::string, int> seen_;  // keys and groups, and their lines
  std::vector<Entry> entries_;
};

std::vector<Entry> parse_yaml(const Schema& schema, const std::string& yaml,
                              const std::string& origin) {
  if (yaml.size() > kLargestFile) {
    usage(origin + ": a config of more than " + human_bytes(kLargestFile) + " is not read");
  }
  check_characters(yaml, origin);
  Flattener flattener(schema, origin);
  const int lines = 1 + static_cast<int>(std::count(yaml.begin(), yaml.end(), '\n'));
  try {
    // yaml-cpp 0.7 closes an open quote at the end of the file by itself; not at a document's end.
    std::istringstream stream(yaml + "\n...\n");
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(flattener)) {
    }
  } catch (const YAML::Exception& error) {
    const int line = line_of(error.mark);
    const bool open_quote = line > lines && error.msg == YAML::ErrorMsg::DOC_IN_SCALAR;
    usage(at_line(origin, std::min(line, lines)) +
          "not valid YAML: " + (open_quote ? "a quoted text does not end" : error.msg));
  }
  return flattener.entries();
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw_errno(ErrorCode::kUsage, "cannot read " + path);
  std::string text(kLargestFile + 1, '\0');  // one more than is accepted
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) throw_errno(ErrorCode::kUsage, "cannot read " + path);
  return text;
}

// ---- Help.

// Appends `text` broken at spaces so that lines end before column kWidth; `column` is where the
// first line starts and `indent` where the others do.
void append_wrapped(std::string& out, std::string_view text, size_t column, size_t indent) {
  constexpr size_t kWidth = 100;
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!first && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    first = false;
  }
  out += '\n';
}

std::string default_text(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return yaml_scalar(value);
}

}  // namespace

// ---- Schema.

Schema& Schema::add(Key key) {
  check_name(key.name);
  for (const Key& other : keys_) {
    if (other.name == key.name) bug("config key '" + key.name + "' is defined twice");
    if (is_below(other.name, key.name) || is_below(key.name, other.name)) {
      bug("config keys '" + other.name + "' and '" + key.name + "' exclude each other in YAML");
    }
  }
  keys_.push_back(std::move(key));
  return *this;
}

Schema& Schema::integer(std::string name, int64_t value, Range<int64_t> range, std::string help) {
  Key key{std::move(name), std::move(help), value, range, {}, {}};
  if (!inside(range, value)) bug(fmt::format("{}, the default is {}", expected(key), value));
  return add(std::move(key));
}

Schema& Schema::number(std::string name, double value, Range<double> range, std::string help) {
  Key key{std::move(name), std::move(help), value, {}, range, {}};
  if (!inside(range, value) || !std::isfinite(value)) {
    bug(fmt::format("{}, the default is {}", expected(key), value));
  }
  return add(std::move(key));
}

Schema& Schema::boolean(std::string name, bool value, std::string help) {
  return add({std::move(name), std::move(help), value, {}, {}, {}});
}

Schema& Schema::text(std::string name, std::string value, std::string help) {
  if (!is_utf8(value)) bug(name + ": the default " + in_quotes(value) + " is not UTF-8");
  return add({std::move(name), std::move(help), std::move(value), {}, {}, {}});
}

Schema& Schema::choice(std::string name, std::string value, std::vector<std::string> options,
                       std::string help) {
  if (options.empty()) bug(name + ": a choice without options");
  if (!std::all_of(options.begin(), options.end(), is_utf8)) {
    bug(name + ": an option is not UTF-8");
  }
  Key key{std::move(name), std::move(help), value, {}, {}, std::move(options)};
  if (std::find(key.options.begin(), key.options.end(), value) == key.options.end()) {
    bug(expected(key) + ", the default is " + in_quotes(value));
  }
  return add(std::move(key));
}

Schema& Schema::execution() {
  if (keys_.empty()) bug("execution() before the first config key");
  keys_.back().execution = true;
  return *this;
}

Schema& Schema::include(const std::string& prefix, const Schema& other) {
  const std::vector<Key> keys = other.keys_;  // `other` may be *this
  for (Key key : keys) {
    key.name = prefix + "." + key.name;
    add(std::move(key));
  }
  return *this;
}

const Key* Schema::find(std::string_view name) const {
  for (const Key& key : keys_) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const Key& Schema::at(std::string_view name) const {
  const Key* key = find(name);
  if (key == nullptr) unknown_key(*this, name, "");
  return *key;
}

std::string Schema::help() const {
  constexpr size_t kWidestName = 28;  // a longer one has a line of its own
  size_t widest = 0;
  for (const Key& key : keys_) {
    if (key.name.size() <= kWidestName) widest = std::max(widest, key.name.size());
  }
  const size_t indent = widest + 4;
  std::string out;
  for (const Key& key : keys_) {
    const size_t before = out.size();
    out += "  " + key.name;
    if (key.name.size() > widest) {
      out += "\n" + std::string(indent, ' ');
    } else {
      out.append(before + indent - out.size(), ' ');
    }
    append_wrapped(out, describe(key) + "; default " + default_text(key.default_value), indent,
                   indent);
    if (key.help.empty()) continue;
    out.append(indent, ' ');
    append_wrapped(out, key.help, indent, indent);
  }
  return out;
}

// ---- Config.

Config::Config(Schema schema) : schema_(std::move(schema)) {
  for (const Key& key : schema_.keys()) values_.emplace(key.name, key.default_value);
}

const Value& Config::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) bug("no config key " + in_quotes(name));
  return found->second;
}

namespace {

template <class T>
const T& typed(const Value& value, std::string_view name, const char* type) {
  const T* found = std::get_if<T>(&value);
  if (found == nullptr) {
    constexpr std::array kNames = {"an integer", "a number", "a boolean", "a text"};
    bug(fmt::format("config key '{}' is {}, not {}", name, kNames[value.index()], type));
  }
  return *found;
}

}  // namespace

int64_t Config::get_integer(std::string_view name) const {
  return typed<int64_t>(value(name), name, "an integer");
}

double Config::get_number(std::string_view name) const {
  return typed<double>(value(name), name, "a number");
}

bool Config::get_boolean(std::string_view name) const {
  return typed<bool>(value(name), name, "a boolean");
}

const std::string& Config::get_text(std::string_view name) const {
  return typed<std::string>(value(name), name, "a text");
}

void Config::set(std::string_view name, std::string_view text) {
  const Key& key = schema_.at(name);
  values_[key.name] = parse_value(key, text, "");
}

void Config::apply_override(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) usage("expected key=value, got " + in_quotes(assignment));
  if (equals == 0) usage("expected key=value, got " + in_quotes(assignment) + " without a key");
  set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

void Config::load_yaml_text(const std::string& yaml, const std::string& origin) {
  auto values = values_;  // all keys of the text or none
  for (const Entry& entry : parse_yaml(schema_, yaml, origin)) {
    const Key& key = schema_.at(entry.name);
    values[key.name] = parse_value(key, entry.text, at_line(origin, entry.line));
  }
  values_ = std::move(values);
}

void Config::load_yaml_file(const std::string& path) { load_yaml_text(read_file(path), path); }

std::string Config::to_yaml() const {
  // Keys of one group stand together, where the first of them stands in the schema.
  std::vector<const Key*> rest;
  for (const Key& key : schema_.keys()) rest.push_back(&key);
  std::string out;
  std::vector<std::string> open;  // groups the last line lies in
  while (!rest.empty()) {
    // Of the keys left, the next is the first that lies deepest in the open groups.
    size_t best = 0, best_shared = 0;
    for (size_t i = 0; i < rest.size(); ++i) {
      const std::vector<std::string> parts = parts_of(rest[i]->name);
      const size_t most = std::min(open.size(), parts.size() - 1);
      size_t shared = 0;
      while (shared < most && parts[shared] == open[shared]) ++shared;
      if (shared > best_shared) {
        best = i;
        best_shared = shared;
      }
    }
    const std::vector<std::string> parts = parts_of(rest[best]->name);
    for (size_t level = best_shared; level + 1 < parts.size(); ++level) {
      out += std::string(2 * level, ' ') + yaml_scalar(parts[level]) + ":\n";
    }
    out += std::string(2 * (parts.size() - 1), ' ') + yaml_scalar(parts.back()) + ": " +
           yaml_scalar(value(rest[best]->name)) + "\n";
    open.assign(parts.begin(), parts.end() - 1);
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best));
  }
  return out;
}

std::string Config::sha256() const {
  Sha256 hash;
  for (const auto& [name, value] : values_) {  // in the order of names
    if (!schema_.at(name).execution) hash.update(name + ": " + canonical(value) + "\n");
  }
  return hash.hex();
}

}  // namespace flotilla
