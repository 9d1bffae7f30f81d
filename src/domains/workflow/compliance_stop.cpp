#include "flotilla/domains/workflow/compliance_stop.h"

#include <algorithm>
#include <numeric>

namespace flotilla::workflow {

ComplianceStop::ComplianceStop(const Options& options, int envs)
    : options_(options), envs_(static_cast<size_t>(envs)) {}

void ComplianceStop::note(int env, double compliance, double acts) {
  Env& each = envs_[static_cast<size_t>(env)];
  ++each.episodes;
  acts_ += acts;
  each.last.push_back(compliance);
  if (each.last.size() > static_cast<size_t>(options_.window)) each.last.pop_front();
}

double ComplianceStop::compliance() const {
  double sum = 0;
  int envs = 0;
  for (const Env& env : envs_) {
    if (env.last.empty()) continue;
    sum += std::accumulate(env.last.begin(), env.last.end(), 0.0) /
           static_cast<double>(env.last.size());
    ++envs;
  }
  return envs == 0 ? 0 : sum / envs;
}

bool ComplianceStop::reached() const {
  const bool played = std::ranges::all_of(
      envs_, [this](const Env& env) { return env.episodes >= options_.min_episodes; });
  return played && acts_ >= options_.min_acts && compliance() >= options_.threshold;
}

}  // namespace flotilla::workflow
