#include "flotilla/env/registry.h"

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/env/libenv/libenv.h"
#include "flotilla/env/python_env.h"

namespace flotilla {

bool is_outside_env(const std::string& name) { return is_python_env(name) || name == kLibenv; }

void Registry::add(EnvType type) {
  if (std::ranges::count(types_, type.name, &EnvType::name) > 0) {
    throw Error(ErrorCode::kInternal, "environment '" + type.name + "' is registered twice");
  }
  types_.push_back(std::move(type));
}

const EnvType& Registry::find(const std::string& name) const {
  const auto found = std::ranges::find(types_, name, &EnvType::name);
  if (found != types_.end()) return *found;
  if (is_outside_env(name)) {
    const auto made = std::ranges::find(outside_types_, name, &EnvType::name);
    if (made != outside_types_.end()) return *made;
    return outside_types_.emplace_back(name == kLibenv ? libenv_type() : python_env_type(name));
  }
  std::vector<std::string> names;
  for (const EnvType& type : types_) names.push_back(type.name);
  throw Error(ErrorCode::kUsage, "unknown environment '" + name + "'" + did_you_mean(name, names) +
                                     " ('flotilla list' shows all)");
}

void Registry::add_recipe(Recipe recipe) {
  const auto file_of = [](const Recipe& each) { return each.name + ".yaml"; };
  const auto at = std::ranges::lower_bound(recipes_, file_of(recipe), {}, file_of);
  if (at != recipes_.end() && at->name == recipe.name) {
    throw Error(ErrorCode::kInternal, "recipe '" + recipe.name + "' is registered twice");
  }
  recipes_.insert(at, std::move(recipe));
}

const Recipe* Registry::find_recipe(const std::string& name) const {
  const auto found = std::ranges::find(recipes_, name, &Recipe::name);
  return found == recipes_.end() ? nullptr : &*found;
}

void Registry::add_foreign_directory(ForeignDirectory kind) {
  if (std::ranges::count(foreign_, kind.file, &ForeignDirectory::file) == 0) {
    foreign_.push_back(std::move(kind));
  }
}

}  // namespace flotilla
