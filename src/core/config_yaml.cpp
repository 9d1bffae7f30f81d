#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "flotilla/core/config_detail.h"
#include "flotilla/core/text.h"

namespace flotilla::config_detail {
namespace {

int line_of(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

// Takes the parser's events instead of building its tree of nodes: every key has its line, and
// depth and aliases are refused as they appear, before they can cost anything.
class Flattener : public YAML::EventHandler {
 public:
  Flattener(const Schema& schema, const std::string& origin) : schema_(schema), origin_(origin) {}

  const std::vector<YamlEntry>& entries() const { return entries_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) fail(mark, "expected one YAML document, found another");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (prefixes_.empty()) return;  // an empty document
    if (list_) fail(mark, "expected a value in the list, got nothing");
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
    if (list_) return item_.empty() ? add_to_list(mark, value) : add_to_item(mark, value);
    if (!name_) return set_name(mark, value);
    std::string name = take_name();
    if (schema_.find(name) == nullptr && schema_.find(name + ".name") != nullptr) name += ".name";
    if (schema_.find(name) == nullptr) {
      check_not_group(name, in_quotes(value));
      unknown_key(schema_, name, origin_);
    }
    entries_.push_back({name, value, name_line_});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    if (prefixes_.empty()) fail(mark, "expected lines 'key: value', got a list");
    if (list_) fail(mark, "expected a value in the list, got a list");
    if (!name_) fail(mark, "expected the name of a key, got a list");
    const std::string name = take_name();
    const Key* key = schema_.find(name);
    if (key != nullptr) {
      const bool is_text =
          std::holds_alternative<std::string>(key->default_value) && key->options.empty();
      if (!is_text) fail_value(expected(*key) + ", got a list");
      list_ = YamlEntry{name, "", name_line_};
      of_maps_ = key->holds_maps;
      return;
    }
    check_not_group(name, "a list");
    unknown_key(schema_, name, origin_);
  }
  void OnSequenceEnd() override {
    entries_.push_back(*list_);
    list_.reset();
  }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    if (prefixes_.empty()) {
      prefixes_.emplace_back();
      return;
    }
    if (list_ && of_maps_) return begin_item(mark);
    if (list_) fail(mark, "expected a value in the list, got a map");
    if (!name_) fail(mark, "expected the name of a key, got a map");
    const std::string name = take_name();
    const Key* key = schema_.find(name);
    if (key != nullptr) fail_value(expected(*key) + ", got a map");
    if (prefixes_.size() == kDeepest) fail(mark, "maps are nested too deeply");
    prefixes_.push_back(name + ".");
    sizes_.push_back(seen_.size());
  }

  void OnMapEnd() override {
    if (!item_.empty()) return item_.pop_back();
    const std::string prefix = prefixes_.back();
    prefixes_.pop_back();
    if (prefix.empty()) return;
    const bool was_empty = sizes_.back() == seen_.size();
    sizes_.pop_back();
    const std::string name = prefix.substr(0, prefix.size() - 1);
    if (was_empty && first_below(schema_, name) == nullptr) unknown_key(schema_, name, origin_);
  }

 private:
  // A map of a list of them, or one within it.
  void begin_item(const YAML::Mark& mark) {
    if (item_.size() == kDeepest) fail(mark, "maps are nested too deeply");
    if (item_.empty()) {
      if (!list_->text.empty()) list_->text += ";";
      item_.emplace_back();
    } else if (item_name_) {
      item_.push_back(*std::exchange(item_name_, std::nullopt) + ".");
    } else {
      fail(mark, "expected the name of a key, got a map");
    }
  }

  void add_to_item(const YAML::Mark& mark, const std::string& word) {
    if (word.find_first_of(" \t\n;") != word.npos) {
      fail(mark, "a blank or ';' in " + in_quotes(word));
    }
    if (!item_name_) {
      item_name_ = item_.back() + word;
    } else {
      list_->text += (list_->text.empty() ? "" : " ") + *item_name_ + "=" + word;
      item_name_.reset();
    }
  }

  // [64, 64] is the text 64,64.
  void add_to_list(const YAML::Mark& mark, const std::string& value) {
    if (of_maps_) fail(mark, "expected a map, got " + in_quotes(value));
    if (value.find(',') != value.npos) fail(mark, "a comma in a value of a list");
    list_->text += (list_->text.empty() ? "" : ",") + value;
  }

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
  std::vector<YamlEntry> entries_;
  std::optional<YamlEntry> list_;  // that is open
  bool of_maps_ = false;           // what it may hold
  std::vector<std::string> item_;  // prefixes of the maps that are open in it: "", "env."
  std::optional<std::string> item_name_;
};

}  // namespace

std::string at_line(const std::string& origin, int line) {
  return line > 0 ? fmt::format("{}:{}: ", origin, line) : origin + ": ";
}

std::vector<YamlEntry> parse_yaml(const Schema& schema, const std::string& yaml,
                                  const std::string& origin) {
  if (yaml.size() > kLargestFile) {
    usage(origin + ": a config of more than " + human_bytes(kLargestFile) + " is not read");
  }
  check_yaml_characters(yaml, origin);
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
          "not valid YAML: " + (open_quote ? "a quoted text does not end" : printable(error.msg)));
  }
  return flattener.entries();
}

}  // namespace flotilla::config_detail

namespace flotilla {

// yaml-cpp takes a byte 0x04 for the end of the file, a NUL for the begin of an escape, and
// replaces bytes that are not UTF-8, all without a word.
void check_yaml_characters(std::string_view text, const std::string& origin) {
  int line = 1;
  while (!text.empty()) {
    const unsigned char byte = static_cast<unsigned char>(text[0]);
    const std::optional<char32_t> point = next_code_point(text);
    if (!point)
      config_detail::usage(config_detail::at_line(origin, line) +
                           fmt::format("byte 0x{:02x} is not UTF-8", byte));
    if (*point == '\n') ++line;
    if (*point < 0x20 && *point != '\n' && *point != '\r' && *point != '\t') {
      config_detail::usage(config_detail::at_line(origin, line) +
                           fmt::format("control character 0x{:02x} in the text", byte));
    }
  }
}

}  // namespace flotilla
