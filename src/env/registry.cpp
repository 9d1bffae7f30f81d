#include "flotilla/env/registry.h"

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {

void Registry::add(EnvType type) {
  if (std::ranges::count(types_, type.name, &EnvType::name) > 0) {
    throw Error(ErrorCode::kInternal, "environment '" + type.name + "' is registered twice");
  }
  types_.push_back(std::move(type));
}

const EnvType& Registry::find(const std::string& name) const {
  const auto found = std::ranges::find(types_, name, &EnvType::name);
  if (found != types_.end()) return *found;
  std::vector<std::string> names;
  for (const EnvType& type : types_) names.push_back(type.name);
  throw Error(ErrorCode::kUsage, "unknown environment '" + name + "'" + did_you_mean(name, names) +
                                     " ('flotilla list' shows all)");
}

}  // namespace flotilla
