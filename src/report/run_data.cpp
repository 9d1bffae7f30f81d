#include "flotilla/report/run_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "flotilla/core/config.h"
#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/report/settings_report.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargestMetrics = size_t{1} << 30;
constexpr size_t kLargestSummary = size_t{1} << 24;
constexpr size_t kEpisodes = 100;  // that a score is the mean of

Json parse_summary(const std::string& text, const std::string& origin) {
  std::optional<Json> summary = Json::try_parse(text);
  if (summary && summary->is_object()) return std::move(*summary);
  throw Error(ErrorCode::kData, origin + ": expected a JSON object");
}

// What stands at "/eval/mean", or nullptr.
const Json* find_at(const Json& json, std::string_view pointer) {
  const Json* found = &json;
  while (found != nullptr && !pointer.empty()) {
    pointer.remove_prefix(1);
    const size_t end = std::min(pointer.find('/'), pointer.size());
    found = found->find(pointer.substr(0, end));
    pointer.remove_prefix(end);
  }
  return found;
}

constexpr const char *kConfig = "config.yaml", *kMetrics = "metrics.jsonl",
                     *kSummary = "summary.json";

RunData read_directory(const std::string& path) {
  const Directory directory(path);
  if (!directory.holds(kConfig) && !directory.holds(kMetrics) && !directory.holds(kSummary)) {
    throw Error(
        ErrorCode::kUsage,
        in_quotes(path) + " is no run: it has no config.yaml, metrics.jsonl or summary.json");
  }
  RunData run;
  run.path = path;
  run.directory = directory;
  // In this order: a run that ends meanwhile has at least the metrics that its summary tells of.
  const auto read = [&](const char* name, size_t limit, const auto& parse) {
    if (directory.holds(name)) parse(directory.read(name, limit), directory.path(name));
  };
  read(kSummary, kLargestSummary, [&run](const std::string& text, const std::string& origin) {
    run.summary = parse_summary(text, origin);
  });
  read(kMetrics, kLargestMetrics, [&run](const std::string& text, const std::string& origin) {
    run.metrics = parse_metrics(text, origin);
  });
  read(kConfig, kLargestConfig, [&run](const std::string& text, const std::string& origin) {
    run.settings = in_present_names(parse_settings(text, origin));
  });
  return run;
}

}  // namespace

std::string RunData::name() const {
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path last = whole.has_filename() ? whole.filename() : whole.parent_path().filename();
  if (last != "." && last != ".." && !last.empty()) return last.string();
  std::error_code error;
  const fs::path absolute = fs::canonical(path, error);
  return error || absolute.filename().empty() ? path : absolute.filename().string();
}

std::optional<double> RunData::summary_number(const char* pointer) const {
  const Json* found = find_at(summary, pointer);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string RunData::summary_text(const char* pointer) const {
  const Json* found = find_at(summary, pointer);
  return found != nullptr && found->is_string() ? found->text() : "";
}

std::string RunData::setting(const std::string& key) const {
  const auto found = settings.find(key);
  return found == settings.end() ? "" : found->second;
}

std::vector<double> RunData::score() const {
  if (metrics.has("charts/return_mean_100")) return *metrics.find("charts/return_mean_100");
  if (metrics.has("charts/episodic_return")) {
    return trailing_mean(*metrics.find("charts/episodic_return"), kEpisodes);
  }
  return {};
}

RunData read_run(const std::string& path) {
  if (!path_exists(path)) throw Error(ErrorCode::kUsage, "there is no " + in_quotes(path));
  if (fs::is_directory(path)) return read_directory(path);
  if (path.ends_with(".csv")) {
    RunData run;
    run.path = path;
    run.from_csv = true;
    run.metrics = read_metrics_csv(path);
    return run;
  }
  throw Error(ErrorCode::kUsage,
              in_quotes(path) + " is no run: expected a run directory or a .csv file");
}

void require_metrics(const RunData& run) {
  if (!run.metrics.empty()) return;
  const std::string file = run.from_csv ? run.path : run.path + "/metrics.jsonl";
  throw Error(ErrorCode::kData, file + (path_exists(file) ? " has no line yet" : " is missing"));
}

}  // namespace flotilla
