#include "flotilla/core/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "flotilla/core/config_detail.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/sha256.h"
#include "flotilla/core/text.h"

namespace flotilla {

using namespace config_detail;

namespace {

std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t dot = name.find('.');
    parts.emplace_back(name.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    name.remove_prefix(dot + 1);
  }
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

// Whether "lr" stands for "ppo.lr", or for another name of it.
bool ends_key(const Key& key, std::string_view name) {
  const auto ends = [&name](const std::string& whole) {
    return whole.size() > name.size() && whole.ends_with(name) &&
           whole[whole.size() - name.size() - 1] == '.';
  };
  return ends(key.name) || std::ranges::any_of(key.aliases, ends);
}

std::string suggestion(const Schema& schema, std::string_view name) {
  std::vector<std::string> names, ending;
  for (const Key& key : schema.keys()) {
    names.push_back(key.name);
    names.insert(names.end(), key.aliases.begin(), key.aliases.end());
    if (ends_key(key, name)) ending.push_back(in_quotes(key.name));
  }
  for (size_t i = names.size(); i-- > 0;) {
    std::string end = parts_of(names[i]).back();
    if (schema.find(end) != nullptr) names.push_back(std::move(end));
  }
  if (!name.empty() && !ending.empty()) return "; did you mean " + join(ending, " or ") + "?";
  return did_you_mean(name, names);
}

// Appends `text` broken at spaces so that lines end before column `width`; `column` is where the
// first line starts and `indent` where the others do.
void append_wrapped(std::string& out, std::string_view text, size_t column, size_t indent,
                    size_t width) {
  bool first = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!first && column + 1 + word.size() > width) {
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

namespace config_detail {

bool is_below(std::string_view name, std::string_view group) {
  return name.size() > group.size() && name.starts_with(group) && name[group.size()] == '.';
}

const Key* first_below(const Schema& schema, std::string_view group) {
  for (const Key& key : schema.keys()) {
    if (is_below(key.name, group)) return &key;
  }
  return nullptr;
}

void unknown_key(const Schema& schema, std::string_view name, const std::string& origin) {
  const std::string in = origin.empty() ? "" : " in " + origin;
  usage("unknown key " + in_quotes(name) + in + suggestion(schema, name));
}

}  // namespace config_detail

std::string read_config_file(const std::string& path) {
  try {
    return read_whole_file(path, kLargestFile);
  } catch (const Error& error) {
    usage(error.what());
  }
}

std::string summary(const Key& key) {
  return describe(key) + "; default " + default_text(key.default_value);
}

Schema& Schema::add(Key key) {
  check_name(key.name);
  for (const Key& other : keys_) {
    if (other.name == key.name || std::ranges::count(other.aliases, key.name) > 0) {
      bug("config key '" + key.name + "' is defined twice");
    }
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

Schema& Schema::synonym(std::string word, std::string option) {
  if (keys_.empty()) bug("synonym() before the first config key");
  if (std::ranges::count(keys_.back().options, option) == 0) bug("no option " + in_quotes(option));
  keys_.back().synonyms.emplace_back(std::move(word), std::move(option));
  return *this;
}

Schema& Schema::holds_maps() {
  if (keys_.empty()) bug("holds_maps() before the first config key");
  keys_.back().holds_maps = true;
  return *this;
}

Schema& Schema::rename(std::string_view name, std::string to) {
  const auto key = std::ranges::find(keys_, name, &Key::name);
  if (key == keys_.end()) bug("no config key " + in_quotes(name) + " to rename");
  check_name(to);
  key->aliases.insert(key->aliases.begin(), std::exchange(key->name, std::move(to)));
  return *this;
}

Schema& Schema::alias(const std::string& name) {
  if (keys_.empty()) bug("alias() before the first config key");
  check_name(name);
  for (const Key& other : keys_) {
    if (other.name == name || std::ranges::count(other.aliases, name) > 0) {
      bug("config key '" + name + "' is defined twice");
    }
  }
  keys_.back().aliases.push_back(name);
  return *this;
}

Schema& Schema::include(const std::string& prefix, const Schema& other) {
  const std::vector<Key> keys = other.keys_;  // `other` may be *this
  for (Key key : keys) {
    const std::vector<std::string> aliases = std::exchange(key.aliases, {});
    const auto below = [&prefix](const std::string& name) {
      return prefix.empty() ? name : prefix + "." + name;
    };
    key.name = below(key.name);
    add(std::move(key));
    for (const std::string& name : aliases) alias(below(name));
  }
  return *this;
}

Schema& Schema::set_default(std::string_view name, std::string_view text) {
  const auto key = std::ranges::find(keys_, name, &Key::name);
  if (key == keys_.end()) bug("no config key '" + std::string(name) + "' to set a default of");
  key->default_value = parse_value(*key, text, "");
  return *this;
}

Schema& Schema::set_help(std::string_view name, std::string help) {
  const auto key = std::ranges::find(keys_, name, &Key::name);
  if (key == keys_.end()) bug("no config key '" + std::string(name) + "' to say anything about");
  key->help = std::move(help);
  return *this;
}

const Key* Schema::find(std::string_view name) const {
  for (const Key& key : keys_) {
    if (key.name == name || std::ranges::count(key.aliases, name) > 0) return &key;
  }
  const Key* found = nullptr;
  for (const Key& key : keys_) {
    if (name.empty() || !ends_key(key, name)) continue;
    if (found != nullptr) return nullptr;
    found = &key;
  }
  return found;
}

const Key& Schema::at(std::string_view name) const {
  const Key* key = find(name);
  if (key == nullptr) unknown_key(*this, name, "");
  return *key;
}

std::string Schema::help(size_t width) const {
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
    append_wrapped(out, summary(key), indent, indent, width);
    if (!key.aliases.empty()) {
      out.append(indent, ' ');
      append_wrapped(out, "also " + join(key.aliases, ", "), indent, indent, width);
    }
    if (key.help.empty()) continue;
    out.append(indent, ' ');
    append_wrapped(out, key.help, indent, indent, width);
  }
  return out;
}

Config::Config(Schema schema) : schema_(std::move(schema)) {
  for (const Key& key : schema_.keys()) values_.emplace(key.name, key.default_value);
}

Config Config::part(const std::string& prefix, const Schema& schema) const {
  Config part(schema);
  for (auto& [name, value] : part.values_) {
    const std::string whole = prefix + "." + name;
    value = this->value(whole);
    if (overridden_.contains(whole)) part.overridden_.emplace(name, name);
    if (loaded_.contains(whole)) part.loaded_.insert(name);
  }
  return part;
}

const Value& Config::value(std::string_view name) const {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  const Key* key = schema_.find(name);
  if (key == nullptr) bug("no config key " + in_quotes(name));
  return values_.find(key->name)->second;
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
  const std::string name(assignment.substr(0, equals));
  const auto [given, is_new] = overridden_.emplace(schema_.at(name).name, name);
  if (!is_new && given->second != name) {
    usage(fmt::format("{} and {} are the same key: give one", in_quotes(given->second),
                      in_quotes(name)));
  }
  set(name, assignment.substr(equals + 1));
}

void Config::load_yaml_text(const std::string& yaml, const std::string& origin) {
  auto values = values_;                     // all keys of the text or none
  std::map<std::string, std::string> names;  // by which a key was given
  for (const YamlEntry& entry : parse_yaml(schema_, yaml, origin)) {
    const Key& key = schema_.at(entry.name);
    const auto [given, is_new] = names.emplace(key.name, entry.name);
    if (!is_new) {
      usage(at_line(origin, entry.line) + fmt::format("{} and {} are the same key: give one",
                                                      in_quotes(given->second),
                                                      in_quotes(entry.name)));
    }
    values[key.name] = parse_value(key, entry.text, at_line(origin, entry.line));
  }
  values_ = std::move(values);
  for (const auto& [key, name] : names) loaded_.insert(key);
}

bool Config::is_overridden(std::string_view name) const {
  return overridden_.contains(schema_.at(name).name);
}

bool Config::is_loaded(std::string_view name) const {
  return loaded_.contains(schema_.at(name).name);
}

void Config::load_yaml_file(const std::string& path) {
  load_yaml_text(read_config_file(path), path);
}

std::string Config::text(std::string_view name) const { return yaml_scalar(value(name)); }

std::string Config::input_text(std::string_view name) const {
  const auto* words = std::get_if<std::string>(&value(name));
  return words != nullptr ? *words : text(name);
}

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
    const Key& key = schema_.at(name);
    if (key.execution) continue;
    const bool names_the_schema = key.options.size() == 1;  // its default is what was asked for
    if (!names_the_schema && value == key.default_value) continue;
    hash.update(name + ": " + canonical(value) + "\n");
  }
  return hash.hex();
}

}  // namespace flotilla
