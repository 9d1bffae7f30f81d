#include "flotilla/algo/algorithms.h"

#include <algorithm>

#include "flotilla/algo/a3c.h"
#include "flotilla/algo/impala.h"
#include "flotilla/algo/ppo.h"
#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {

void Algorithms::add(Algorithm algorithm) {
  if (std::ranges::count(all_, algorithm.name, &Algorithm::name) > 0) {
    throw Error(ErrorCode::kInternal, "algorithm '" + algorithm.name + "' is registered twice");
  }
  all_.push_back(std::move(algorithm));
}

const Algorithm& Algorithms::find(const std::string& name) const {
  const auto found = std::ranges::find(all_, name, &Algorithm::name);
  if (found != all_.end()) return *found;
  throw Error(ErrorCode::kUsage, "algo: expected one of " + join(names(), ", ") + ", got " +
                                     in_quotes(name) + did_you_mean(name, names()));
}

std::vector<std::string> Algorithms::names() const {
  std::vector<std::string> names;
  for (const Algorithm& each : all_) names.push_back(each.name);
  return names;
}

const Algorithms& built_in_algorithms() {
  static const Algorithms built_in = [] {
    Algorithms all;
    all.add(ppo_algorithm());
    all.add(appo_algorithm());
    all.add(impala_algorithm());
    all.add(a3c_algorithm());
    return all;
  }();
  return built_in;
}

const Algorithm& default_algorithm() { return built_in_algorithms().all().front(); }

}  // namespace flotilla
