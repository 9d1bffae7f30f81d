// The settings of a run as its config.yaml has them: dotted keys and texts. Unlike Config this
// needs no schema, so that runs of unknown environments and other versions can be read.
#pragma once

#include <map>
#include <string>

namespace flotilla {

using Settings = std::map<std::string, std::string>;  // "ppo.gamma" and "0.98"

// A YAML file of maps; a list is one text, its parts with commas between them. Throws Error(kData)
// that names the line.
Settings parse_settings(const std::string& yaml, const std::string& origin);

}  // namespace flotilla
