// Configuration: one typed schema of keys, from which come YAML loading, `key=value` overrides,
// help text, validation with suggestions, and a dump of the effective values with a hash.
//
//   Schema schema;
//   schema.integer("time_limit", 500, {1, 1'000'000}, "steps after which an episode is truncated")
//         .choice("reward", "sparse", {"sparse", "dense"}, "when reward is paid");
//   Config config(schema);
//   config.load_yaml_file("run.yaml");
//   config.apply_override("time_limit=200");
//   config.get_integer("time_limit");
//
// Keys are dotted names ("ppo.lr"); nested YAML maps are the same keys written as a tree. The
// groups in front may be left out where only one key ends so. A key may have other names besides,
// those of other libraries and of earlier versions; it is written and hashed by its first one, and
// may be given by one of them only. Every error is an Error(kUsage) of one line that names the key,
// the value, what was expected, and the nearest known key where the key is unknown.
//
// Thread safety: const members may be called from any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace flotilla {

template <class T>
struct Range {
  T low = std::numeric_limits<T>::lowest();
  T high = std::numeric_limits<T>::max();
};

using Value = std::variant<int64_t, double, bool, std::string>;

struct Key {
  std::string name;
  std::string help;
  Value default_value;  // its alternative is the key's type
  Range<int64_t> integer_range;
  Range<double> number_range;
  std::vector<std::string> options;  // non-empty: one of these texts
  bool execution = false;  // how a run is carried out, not what it computes: left out of the hash
  std::vector<std::string> aliases = {};                           // other names
  std::vector<std::pair<std::string, std::string>> synonyms = {};  // of options: other, option
  bool holds_maps = false;
};

// "integer from 1 to 9; default 3"
std::string summary(const Key& key);

class Schema {
 public:
  Schema& integer(std::string name, int64_t value, Range<int64_t> range, std::string help);
  Schema& number(std::string name, double value, Range<double> range, std::string help);
  Schema& boolean(std::string name, bool value, std::string help);
  Schema& text(std::string name, std::string value, std::string help);
  Schema& choice(std::string name, std::string value, std::vector<std::string> options,
                 std::string help);

  // Tags the key added last as an execution key.
  Schema& execution();
  // Another name for the key added last.
  Schema& alias(const std::string& name);
  // Another word for an option of the key added last.
  Schema& synonym(std::string word, std::string option);
  // Adds all keys of another schema as "prefix.key", or as they are for an empty prefix.
  Schema& include(const std::string& prefix, const Schema& other);
  // The text of the key added last may be given in YAML as a list of maps: [{a: 1, b: {c: 2}},
  // {a: 3}] is the text "a=1 b.c=2; a=3".
  Schema& holds_maps();
  // Gives a key that is there already another name; the present one stays as an alias.
  Schema& rename(std::string_view name, std::string to);
  // Changes the default of a key that is there already, or what is said about it.
  Schema& set_default(std::string_view name, std::string_view text);
  Schema& set_help(std::string_view name, std::string help);

  const std::vector<Key>& keys() const { return keys_; }
  // By its name, another name, or the end of either where that is one key's alone; else nullptr.
  const Key* find(std::string_view name) const;
  const Key& at(std::string_view name) const;  // throws Error(kUsage) "did you mean"

  // One paragraph per key: name, type and range, default, help. For --help.
  std::string help(size_t width = 100) const;  // in lines of so many columns

 private:
  Schema& add(Key key);
  std::vector<Key> keys_;
};

// Bytes of a config file; load_yaml_text() refuses longer ones.
constexpr size_t kLargestConfig = size_t{1} << 20U;

// The text of a config file, for load_yaml_text(). Throws Error(kUsage) that names the file.
std::string read_config_file(const std::string& path);
// What no YAML parser is given here: bytes that are not UTF-8, control characters. Throws
// Error(kUsage) "run.yaml:3: ...". load_yaml_text() asks this itself.
void check_yaml_characters(std::string_view text, const std::string& origin);

class Config {
 public:
  explicit Config(Schema schema);

  const Schema& schema() const { return schema_; }

  // By any name of a key.
  int64_t get_integer(std::string_view name) const;
  double get_number(std::string_view name) const;
  bool get_boolean(std::string_view name) const;
  const std::string& get_text(std::string_view name) const;  // text and choice keys

  // The value of a key of any type, as to_yaml() writes it.
  std::string text(std::string_view name) const;
  // The same as set() takes it: a text without quotes.
  std::string input_text(std::string_view name) const;

  // The values of the keys under `prefix` as a config of its own, whose schema was included there.
  Config part(const std::string& prefix, const Schema& schema) const;

  // Parses and validates `text` as the key's type.
  void set(std::string_view name, std::string_view text);
  // "key=value". Throws where the same key was overridden by another name before.
  void apply_override(std::string_view assignment);
  void load_yaml_text(const std::string& yaml, const std::string& origin);
  void load_yaml_file(const std::string& path);

  // Whether apply_override() set the key, whether a YAML text did.
  bool is_overridden(std::string_view name) const;
  bool is_loaded(std::string_view name) const;

  // Every key with its effective value, as YAML that load_yaml_text() reads back to an equal
  // config.
  std::string to_yaml() const;
  // SHA-256 over the semantic keys whose values are not the defaults; independent of the order of
  // the schema, and the same when a key is added that nobody has set.
  std::string sha256() const;

 private:
  const Value& value(std::string_view name) const;
  Schema schema_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> overridden_;  // by which name
  std::set<std::string, std::less<>> loaded_;
};

}  // namespace flotilla
