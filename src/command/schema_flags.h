// Options of a command that are the keys of a schema: `num_envs` is --num-envs, and so on.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "flotilla/command/command.h"
#include "flotilla/core/config.h"

namespace flotilla {

class SchemaFlags {
 public:
  explicit SchemaFlags(Schema schema) : config_(std::move(schema)) {}
  // Offers every key as an option; `aliases` maps a key to another name for its option.
  void add_to(Command& command,
              const std::vector<std::pair<std::string, std::string>>& aliases = {});
  // The values given on the command line over the defaults. Throws Error(kUsage).
  Config config() const;
  // Only what was given: names and texts of keys.
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }
  // Takes a text of a key out of what was given; whether it was there.
  bool take(const std::string& name, const std::string& text) {
    return std::erase(given_, std::pair(name, text)) > 0;
  }

 private:
  Config config_;
  std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace flotilla
