#include "flotilla/env/libenv/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/env/libenv/abi.h"

namespace flotilla::libenv {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGame = "env_name";
constexpr const char* kAssets = "resource_root";

enum class Type : uint8_t { kInteger, kBoolean, kText, kMode };

struct KnownOption {
  const char* name;
  Type type;
  const char* help;
};

// Those of procgen, the best known libenv. Other libraries have others: the key `options`.
constexpr KnownOption kKnown[] = {
    {kGame, Type::kText, "the game; of several, separated by commas, envs take turns"},
    {"num_levels", Type::kInteger, "different levels; 0: no limit"},
    {"start_level", Type::kInteger, "the first of them"},
    {"distribution_mode", Type::kMode, "easy, hard, extreme, memory, or its number"},
    {"num_actions", Type::kInteger, "choices of the action"},
    {"use_sequential_levels", Type::kBoolean, "the next level follows within an episode"},
    {"center_agent", Type::kBoolean, "the view follows the player"},
    {"use_backgrounds", Type::kBoolean, "pictures behind the game, or black"},
    {"use_monochrome_assets", Type::kBoolean, "plain colours instead of pictures"},
    {"restrict_themes", Type::kBoolean, "one theme for all levels"},
    {"use_generated_assets", Type::kBoolean, "pictures made at random"},
    {"paint_vel_info", Type::kBoolean, "the player's speed in a corner of the picture"},
    {"debug_mode", Type::kInteger, "of the game, where it has one"},
    {"num_threads", Type::kInteger, "threads of the library for each env"},
    {kAssets, Type::kText, "folder of the game's pictures"}};

const char* kind_of(Type type) {
  switch (type) {
    case Type::kInteger:
      return "integer";
    case Type::kBoolean:
      return "true or false";
    case Type::kMode:
    case Type::kText:
      break;
  }
  return "text";
}

[[noreturn]] void expected(const std::string& key, const char* what, const std::string& text) {
  throw Error(ErrorCode::kUsage,
              fmt::format("{}: expected {}, got {}", key, what, in_quotes(text)));
}

std::optional<int32_t> integer_in(const std::string& text) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end ? std::optional(value) : std::nullopt;
}

std::optional<bool> boolean_in(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

int32_t mode_in(const std::string& key, const std::string& text) {
  constexpr std::pair<const char*, int32_t> kModes[] = {
      {"easy", 0}, {"hard", 1}, {"extreme", 2}, {"memory", 10}};
  for (const auto& [name, number] : kModes) {
    if (text == name) return number;
  }
  if (const auto number = integer_in(text)) return *number;
  expected(key, "easy, hard, extreme, memory or an integer", text);
}

OptionValue value_of(const std::string& key, Type type, const std::string& text) {
  switch (type) {
    case Type::kInteger:
      if (const auto value = integer_in(text)) return *value;
      expected(key, "an integer of 32 bits", text);
    case Type::kBoolean:
      if (const auto value = boolean_in(text)) return *value;
      expected(key, "true or false", text);
    case Type::kMode:
      return mode_in(key, text);
    case Type::kText:
      break;
  }
  return text;
}

bool has(const OptionList& options, const std::string& name) {
  return std::ranges::count(options, name, &OptionList::value_type::first) > 0;
}

void add(OptionList& options, const std::string& name, OptionValue value) {
  if (name.empty() || name.size() >= static_cast<size_t>(kNameBytes)) {
    throw Error(ErrorCode::kUsage, fmt::format("options: expected a name of 1 to {} bytes, got {}",
                                               kNameBytes - 1, in_quotes(name)));
  }
  if (has(options, name)) {
    throw Error(ErrorCode::kUsage, "options: " + in_quotes(name) + " is given twice");
  }
  options.emplace_back(name, std::move(value));
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? std::string()
                                    : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

// "name=value": an integer, true or false, or a text, whichever it looks like; "name:text=5" says.
void add_assignment(OptionList& options, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos) expected("options", "name=value, ...", assignment);
  const std::string text = assignment.substr(equals + 1);
  std::string name = assignment.substr(0, equals);
  const size_t colon = name.find(':');
  if (colon == std::string::npos) {
    if (const auto number = integer_in(text)) return add(options, name, *number);
    if (const auto flag = boolean_in(text)) return add(options, name, *flag);
    return add(options, name, text);
  }
  const std::string type = name.substr(colon + 1);
  name.resize(colon);
  const std::string key = "options: " + name;
  if (type == "int") return add(options, name, value_of(key, Type::kInteger, text));
  if (type == "bool") return add(options, name, value_of(key, Type::kBoolean, text));
  if (type == "text") return add(options, name, text);
  expected(key, "the type int, bool or text", type);
}

// A procgen that pip has installed has its pictures beside the folder of the library.
std::string assets_beside(const std::string& library) {
  std::error_code none;
  const fs::path folder = fs::weakly_canonical(library, none).parent_path().parent_path();
  const fs::path assets = folder / "assets";
  return fs::is_directory(assets, none) ? assets.string() + "/" : "";
}

// What procgen has no defaults for, and what its own package gives it: without them levels are easy
// and the view of some games stands still.
void complete(OptionList& options, const std::string& library) {
  if (!has(options, kGame)) return;
  if (!has(options, kAssets)) {
    const std::string found = assets_beside(library);
    if (found.empty()) return;
    add(options, kAssets, found);
  }
  const std::pair<const char*, OptionValue> all[] = {
      {"num_levels", 0},  {"start_level", 0},       {"num_actions", 15},
      {"num_threads", 0}, {"distribution_mode", 1}, {"center_agent", true}};
  for (const auto& [name, value] : all) {
    if (!has(options, name)) add(options, name, value);
  }
}

}  // namespace

Schema Settings::schema() {
  Schema schema;
  schema.text("library", "", "path of the shared library");
  for (const KnownOption& each : kKnown) {
    schema.text(each.name, "",
                fmt::format("option of the library, {}: {}; empty: not given", kind_of(each.type),
                            each.help));
  }
  schema.text("options", "", "other options: name=value, name=value (docs/libenv.md)")
      .text("seed_option", "rand_seed", "the integer option that an env's seed is; empty: none")
      .boolean("save_state", true,
               "checkpoints have the states of the envs, where the library has get_state");
  return schema;
}

Settings Settings::from(const Config& config) {
  Settings settings{.library = config.get_text("library"),
                    .options = {},
                    .seed_option = config.get_text("seed_option"),
                    .saves_states = config.get_boolean("save_state")};
  if (settings.library.empty()) {
    throw Error(ErrorCode::kUsage, "library: expected the path of a shared library, got ''");
  }
  for (const KnownOption& each : kKnown) {
    const std::string& text = config.get_text(each.name);
    if (!text.empty()) add(settings.options, each.name, value_of(each.name, each.type, text));
  }
  if (const std::string& more = config.get_text("options"); !more.empty()) {
    for (const std::string& each : split(more, ',')) add_assignment(settings.options, each);
  }
  complete(settings.options, settings.library);
  if (!settings.seed_option.empty()) settings.options_of(0, 0);  // refuses what is given twice
  return settings;
}

OptionList Settings::options_of(int env, int32_t seed) const {
  OptionList all = options;
  for (auto& [name, value] : all) {
    const auto* games = name == kGame ? std::get_if<std::string>(&value) : nullptr;
    if (games == nullptr) continue;
    const std::vector<std::string> each = split(*games, ',');
    value = each[static_cast<size_t>(env) % each.size()];
  }
  if (!seed_option.empty()) add(all, seed_option, seed);
  return all;
}

}  // namespace flotilla::libenv
