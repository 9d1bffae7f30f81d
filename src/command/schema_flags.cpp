#include "flotilla/command/schema_flags.h"

#include <algorithm>

namespace flotilla {

void SchemaFlags::add_to(Command& command,
                         const std::vector<std::pair<std::string, std::string>>& aliases) {
  for (const Key& key : config_.schema().keys()) {
    std::string names = "--" + key.name;
    std::ranges::replace(names, '_', '-');
    for (const auto& [name, alias] : aliases) {
      if (name == key.name) names += "," + alias;
    }
    const auto take = [this, name = key.name](const std::string& value) {
      given_.emplace_back(name, value);
    };
    if (const bool* is_on = std::get_if<bool>(&key.default_value)) {
      if (*is_on) names += ",!--no-" + names.substr(2, names.find(',') - 2);
      command.flag(
          names, [take](bool on) { take(on ? "true" : "false"); }, key.help);
    } else {
      command.option(names, take, key.help + " (" + summary(key) + ")");
    }
  }
}

Config SchemaFlags::config() const {
  Config config = config_;
  for (const auto& [name, value] : given_) config.set(name, value);
  return config;
}

}  // namespace flotilla
