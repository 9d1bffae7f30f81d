#include "flotilla/train/curriculum.h"

#include <fmt/format.h>

#include <sstream>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

constexpr const char* kUntilSteps = "until_steps";
constexpr const char* kUntilScore = "until_score";

[[noreturn]] void refuse(size_t index, const std::string& why) {
  throw Error(ErrorCode::kUsage, fmt::format("curriculum: phase {}: {}", index + 1, why));
}

const Schema& end_schema() {
  static const Schema schema = Schema()
                                   .integer(kUntilSteps, 0, {0, INT64_MAX}, "steps of the phase")
                                   .number(kUntilScore, 0, {}, "mean return of 100 episodes");
  return schema;
}

CurriculumPhase parse_phase(const std::string& text, size_t index) {
  CurriculumPhase phase;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::string name = word.substr(0, word.find('='));
    if (name == word) refuse(index, "expected key=value, got " + in_quotes(word));
    if (name != kUntilSteps && name != kUntilScore) {
      phase.settings.push_back(word);
      continue;
    }
    Config end(end_schema());
    try {
      end.apply_override(word);
    } catch (const Error& error) {
      refuse(index, error.what());
    }
    if (name == kUntilSteps) phase.until_steps = end.get_integer(kUntilSteps);
    if (name == kUntilScore) phase.until_score = end.get_number(kUntilScore);
  }
  return phase;
}

bool has_end(const CurriculumPhase& phase) { return phase.until_steps > 0 || phase.until_score; }

void require_same_spaces(const EnvSpec& first, const EnvSpec& spec, size_t index) {
  const bool same =
      spec.obs.elements() == first.obs.elements() && spec.obs.type == first.obs.type &&
      spec.action.describe() == first.action.describe() && spec.masked() == first.masked();
  if (!same) refuse(index, "has other spaces than the first");
}

}  // namespace

std::vector<CurriculumPhase> phases_of(const RunConfig& run) {
  const std::string& text = run.config.get_text("curriculum");
  std::vector<CurriculumPhase> phases;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(';', from), text.size());
    phases.push_back(parse_phase(text.substr(from, end - from), phases.size()));
    from = end + 1;
  }
  for (size_t i = 0; i < phases.size(); ++i) {
    const bool is_last = i + 1 == phases.size();
    if (!is_last && !has_end(phases[i])) {
      refuse(i, "has no end: give until_steps or until_score");
    }
    if (is_last && has_end(phases[i])) refuse(i, "is the last one, which lasts as long as the run");
  }
  return phases;
}

RunConfig in_phase(const RunConfig& run, const std::vector<CurriculumPhase>& phases, size_t index,
                   const Algorithms& algorithms) {
  if (phases.size() == 1 && phases[0].settings.empty()) return run;
  Config config = run.config;
  for (const std::string& setting : phases[index].settings) {
    try {
      apply_setting(config, setting);
    } catch (const Error& error) {
      refuse(index, error.what());
    }
  }
  for (const Key& key : config.schema().keys()) {
    if (config.text(key.name) == run.config.text(key.name)) continue;
    const bool may_change =
        key.name.starts_with("env.") || key.name.starts_with(run.algorithm.name + ".");
    if (!may_change) refuse(index, key.name + " cannot change within a run");
  }
  RunConfig result(run.type, config, algorithms);
  require_same_spaces(run.spec, result.spec, index);
  result.policy_factory = run.policy_factory;
  result.cluster.collective = run.cluster.collective;
  result.env_seed = run.seed + index * 0x9E3779B97F4A7C15;
  return result;
}

}  // namespace flotilla
