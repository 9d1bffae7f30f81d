#include "flotilla/report/settings.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr size_t kDeepest = 32;  // maps within maps

// Takes the parser's events, so that neither depth nor aliases can cost anything.
class SettingsReader : public YAML::EventHandler {
 public:
  const Settings& settings() const { return settings_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnAnchor(const YAML::Mark&, const std::string&) override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (!levels_.empty()) value(mark, "");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw YAML::ParserException(mark, "aliases (*name) are not read");
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string& text) override {
    value(mark, text);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    begin(mark, true);
  }
  void OnSequenceEnd() override { levels_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    begin(mark, false);
  }
  void OnMapEnd() override { levels_.pop_back(); }

 private:
  struct Level {
    bool is_list;
    std::string name;      // dotted, of the map or list
    std::string key = {};  // of the map: whose value comes next
    bool has_key = false;
  };

  // The dotted name of what comes next.
  std::string take_name() {
    Level& level = levels_.back();
    if (level.is_list) return level.name;
    level.has_key = false;
    return level.name.empty() ? level.key : level.name + "." + level.key;
  }

  void value(const YAML::Mark& mark, const std::string& text) {
    if (levels_.empty()) throw YAML::ParserException(mark, "expected lines 'key: value'");
    Level& level = levels_.back();
    if (!level.is_list && !level.has_key) {
      level.key = text;
      level.has_key = true;
      return;
    }
    const bool is_list = level.is_list;
    std::string& setting = settings_[take_name()];
    setting = is_list && !setting.empty() ? setting + "," + text : text;
  }

  void begin(const YAML::Mark& mark, bool is_list) {
    if (levels_.empty()) {
      if (is_list) throw YAML::ParserException(mark, "expected lines 'key: value'");
      levels_.push_back({.is_list = false, .name = ""});
      return;
    }
    if (!levels_.back().is_list && !levels_.back().has_key) {
      throw YAML::ParserException(mark, "expected the name of a key");
    }
    if (levels_.size() == kDeepest) throw YAML::ParserException(mark, "nested too deeply");
    levels_.push_back({.is_list = is_list, .name = take_name()});
  }

  Settings settings_;
  std::vector<Level> levels_;
};

}  // namespace

Settings parse_settings(const std::string& yaml, const std::string& origin) {
  SettingsReader reader;
  try {
    std::istringstream stream(yaml);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& problem) {
    throw Error(ErrorCode::kData, fmt::format("{}:{}: not valid YAML: {}", origin,
                                              problem.mark.is_null() ? 1 : problem.mark.line + 1,
                                              printable(problem.msg)));
  }
  return reader.settings();
}

}  // namespace flotilla
