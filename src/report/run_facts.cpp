#include "flotilla/report/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "flotilla/report/scale.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

std::optional<double> last(const MetricsTable& metrics, const char* name) {
  const std::vector<double>* values = metrics.find(name);
  if (values == nullptr) return std::nullopt;
  for (size_t i = values->size(); i-- > 0;) {
    if (std::isfinite((*values)[i])) return (*values)[i];
  }
  return std::nullopt;
}

std::optional<double> largest(const MetricsTable& metrics, const char* name) {
  const std::vector<double>* values = metrics.find(name);
  const auto range = values != nullptr ? extent(*values) : std::nullopt;
  return range ? std::optional(range->high) : std::nullopt;
}

std::optional<double> last_score(const RunData& run) {
  const std::vector<double> score = run.score();
  for (size_t i = score.size(); i-- > 0;) {
    if (std::isfinite(score[i])) return score[i];
  }
  return std::nullopt;
}

std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool whole = !text.empty() && *end == '\0' && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::optional<double> either(std::optional<double> first, std::optional<double> second) {
  return first ? first : second;
}

std::string either(const std::string& first, const std::string& second) {
  return first.empty() ? second : first;
}

// Not by way of a double, which has not all of them.
std::optional<uint64_t> seed_of(const RunData& run) {
  if (run.summary.is_object()) {
    const auto told = run.summary.find("seed");
    if (told != run.summary.end() && told->is_number_unsigned()) return told->get<uint64_t>();
  }
  const std::string text = run.setting("seed");
  uint64_t seed = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool whole = problem == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(seed) : std::nullopt;
}

std::string machine_of(const RunData& run) {
  std::string text = run.summary_text("/machine/cpu");
  if (const auto cores = run.summary_number("/machine/cores"); cores && !text.empty()) {
    text += fmt::format(", {} cores", *cores);
  }
  if (const std::string gpu = run.summary_text("/machine/gpu"); !gpu.empty()) text += ", " + gpu;
  return text;
}

std::optional<double> speed_of(const RunData& run) {
  const auto steps = last(run.metrics, "step"), wall_s = last(run.metrics, "wall_s");
  if (const auto told = run.summary_number("/steps_per_s")) return told;
  return steps && wall_s && *wall_s > 0 ? std::optional(*steps / *wall_s) : std::nullopt;
}

void add_returns(const RunData& run, RunFacts& facts) {
  facts.return_mean_100 = either(run.summary_number("/return_mean_100"), last_score(run));
  if (run.summary_number("/eval/episodes").value_or(0) > 0) {
    facts.eval_mean = run.summary_number("/eval/mean");
    facts.eval_ci95 = run.summary_number("/eval/ci95");
  } else {
    facts.eval_mean = last(run.metrics, "eval/episodic_return");
    facts.eval_ci95 = last(run.metrics, "eval/ci95");
  }
}

// The last `parts` parts of a path, or all of it.
std::string tail(const fs::path& path, size_t parts) {
  std::vector<fs::path> names(path.begin(), path.end());
  while (!names.empty() && names.back().empty()) names.pop_back();  // behind a slash
  fs::path result;
  for (size_t i = names.size() > parts ? names.size() - parts : 0; i < names.size(); ++i) {
    result /= names[i];
  }
  return result.string();
}

}  // namespace

RunFacts facts_of(const RunData& run) {
  RunFacts facts;
  facts.name = run.name();
  facts.path = run.path;
  facts.state = run.from_csv ? "table" : run.finished() ? "finished" : "not finished";
  facts.env = either(run.summary_text("/domain"), run.setting("env.name"));
  facts.algo = either(run.summary_text("/algo"), run.setting("algo"));
  facts.backend = either(run.summary_text("/backend"), run.setting("backend"));
  facts.version = run.summary_text("/version");
  facts.machine = machine_of(run);
  facts.config_sha256 = run.summary_text("/config_sha256");
  const auto number = [&](const char* name) {
    return either(run.summary_number(("/" + std::string(name)).c_str()),
                  number_in(run.setting(name)));
  };
  facts.seed = seed_of(run);
  facts.num_envs = number("num_envs");
  facts.threads = number("threads");
  // The settings of a run without worker processes have a number for them all the same.
  facts.workers = facts.backend.empty() || facts.backend == "processes" ? number("workers") : 0;
  // The settings have the steps that were asked for, which is something else.
  facts.steps = either(run.summary_number("/steps"), last(run.metrics, "step"));
  facts.updates = either(run.summary_number("/updates"), last(run.metrics, "update"));
  facts.wall_s = either(run.summary_number("/wall_s"), last(run.metrics, "wall_s"));
  facts.steps_per_s = speed_of(run);
  facts.peak_rss_mb =
      either(run.summary_number("/peak_rss_mb"), largest(run.metrics, "memory/rss_mb"));
  add_returns(run, facts);
  return facts;
}

std::vector<std::string> distinct_names(const std::vector<std::string>& paths) {
  std::vector<fs::path> whole;
  for (const std::string& path : paths) {
    std::error_code error;
    const fs::path absolute = fs::absolute(path, error);
    whole.push_back((error ? fs::path(path) : absolute).lexically_normal());
  }
  constexpr size_t kDeepest = 64;
  std::vector<std::string> names;
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto is_taken = [&](size_t parts) {
      for (size_t j = 0; j < whole.size(); ++j) {
        if (j != i && tail(whole[j], parts) == tail(whole[i], parts)) return true;
      }
      return false;
    };
    size_t parts = 1;
    while (parts < kDeepest && is_taken(parts)) ++parts;
    std::string name = tail(whole[i], parts < kDeepest ? parts : 1);
    // The same path given twice is the same to the last part.
    const auto again =
        std::ranges::count(whole.begin(), whole.begin() + static_cast<long>(i), whole[i]);
    names.push_back(again == 0 ? name : fmt::format("{} ({})", name, again + 1));
  }
  return names;
}

}  // namespace flotilla
