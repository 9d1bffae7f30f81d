#include "flotilla/train/metrics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <iterator>
#include <span>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"

namespace flotilla {
namespace {

constexpr const char* kLines = "metrics.jsonl";
constexpr size_t kLongestLine = size_t{1} << 24U;  // far more than a thousand names take

double unix_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void append_number(std::string& text, double value) {
  if (std::isfinite(value)) {
    fmt::format_to(std::back_inserter(text), "{}", value);
  } else {
    text += "null";
  }
}

void append_name(std::string& text, const std::string& name) {
  text += Json(name).dump(-1, Json::StrayBytes::kReplace);
}

// Of a line; nothing where it is not one of ours.
struct Place {
  int64_t step = 0;
  std::optional<int64_t> update;
};

std::optional<Place> place_of(std::string_view line) {
  const std::optional<Json> json = Json::try_parse(std::string(line));
  const auto number = [&json](const char* name) -> std::optional<int64_t> {
    const Json* value = json ? json->find(name) : nullptr;
    if (value == nullptr || !value->is_number_integer()) return std::nullopt;
    return value->get<int64_t>();
  };
  const auto step = number("step");
  if (!step) return std::nullopt;
  return Place{*step, number("update")};
}

// The beginning of a file, up to the last whole line that is not of a later step.
struct Stretch {
  int64_t bytes = 0;
  Place last;
  int64_t missing = 0;  // updates that have no line
};

[[noreturn]] void refuse_line(const Directory& directory, int64_t number, const std::string& what) {
  throw Error(ErrorCode::kData, fmt::format("{}:{}: {}: mend or remove this line, or move the file "
                                            "away",
                                            directory.path(kLines), number, what));
}

// Fills `to`, or a part of it; 0: the file has ended. A read that fails is no end: what lies behind
// it would be cut.
size_t read_some(const Directory& directory, const Descriptor& file, std::span<char> to) {
  for (;;) {
    const ssize_t got = ::read(file.get(), to.data(), to.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) throw_errno(ErrorCode::kData, "cannot read " + directory.path(kLines));
  }
}

// Calls see(line, its number) for whole lines until it returns false; a torn last one is none.
template <class See>
void for_each_line(const Directory& directory, const See& see) {
  const Descriptor file = directory.open_to_read(kLines);
  std::vector<char> piece(size_t{1} << 16U);
  std::string text;  // not seen yet
  int64_t number = 1;
  while (const size_t got = read_some(directory, file, piece)) {
    text.append(piece.data(), got);
    size_t begin = 0;
    for (size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
      if (!see(std::string_view(text).substr(begin, end - begin), number++)) return;
    }
    text.erase(0, begin);
    if (text.size() > kLongestLine) {
      refuse_line(directory, number, fmt::format("is longer than {} bytes", kLongestLine));
    }
  }
}

Stretch lines_up_to(const Directory& directory, int64_t last_step) {
  Stretch kept;
  if (!directory.holds(kLines)) return kept;
  for_each_line(directory, [&](std::string_view line, int64_t number) {
    const auto place = place_of(line);
    if (!place && kept.last.step < last_step) {
      refuse_line(directory, number, "is damaged; what is behind it would be lost");
    }
    if (!place || place->step > last_step) return false;
    if (place->step <= kept.last.step) {
      refuse_line(directory, number,
                  fmt::format("step {} comes after step {}", place->step, kept.last.step));
    }
    if (place->update) kept.missing += *place->update - kept.last.update.value_or(0) - 1;
    kept.bytes += static_cast<int64_t>(line.size()) + 1;
    kept.last = *place;
    return true;
  });
  return kept;
}

}  // namespace

Mark mark_of(const Trainer& trainer) {
  const Timing timing = trainer.timing();
  return {.steps = trainer.progress().steps, .wall_s = timing.total_s(), .timing = timing};
}

std::vector<Metric> metrics_of(const Trainer& trainer, const Mark& before, const Mark& now,
                               const std::optional<Evaluation>& eval) {
  const Progress& progress = trainer.progress();
  std::vector<Metric> metrics;
  const auto add = [&metrics](std::string name, double value) {
    metrics.emplace_back(std::move(name), value);
  };
  const double seconds = std::max(now.wall_s - before.wall_s, 1e-9);
  add("charts/SPS", static_cast<double>(now.steps - before.steps) / seconds);
  if (progress.ended.count > 0) {
    add("charts/episodic_return", progress.ended.return_mean);
    add("charts/episodic_length", progress.ended.length_mean);
  }
  if (std::isfinite(progress.return_mean)) add("charts/return_mean_100", progress.return_mean);
  metrics.insert(metrics.end(), progress.update.metrics.begin(), progress.update.metrics.end());
  add("time/step_s", now.timing.step_s - before.timing.step_s);
  if (now.timing.stage_s > 0) add("time/stage_s", now.timing.stage_s - before.timing.stage_s);
  add("time/infer_s", now.timing.infer_s - before.timing.infer_s);
  add("time/wait_s", now.timing.wait_s - before.timing.wait_s);
  add("time/gae_s", now.timing.advantage_s - before.timing.advantage_s);
  add("time/update_s", now.timing.update_s - before.timing.update_s);
  add("time/eval_s", now.timing.eval_s - before.timing.eval_s);
  add("time/checkpoint_s", now.timing.checkpoint_s - before.timing.checkpoint_s);
  add("memory/rss_mb", static_cast<double>(resident_bytes()) * 1e-6);
  add("env/failures", static_cast<double>(progress.env_failures));
  const EnvSpec& env = trainer.env_spec();
  const auto add_all = [&](const std::string& prefix, const std::vector<double>& means,
                           const std::vector<double>& ci95) {
    for (size_t i = 0; i < env.metrics.size(); ++i) {
      add(prefix + env.metrics[i], means[i]);
      if (env.metrics[i] == env.headline) add(prefix + env.headline + "_ci95", ci95[i]);
    }
  };
  if (progress.ended.count > 0) {
    add_all("env/", progress.ended.metrics, progress.ended.metrics_ci95);
  }
  for (const auto& [name, value] : trainer.memory_facts()) add(name, value);
  if (eval) {
    add("eval/episodic_return", eval->mean);
    add("eval/std", eval->std);
    add("eval/ci95", eval->ci95);
    add("eval/episodic_length", eval->mean_length);
    add("eval/episodes", eval->episodes);
    add_all("eval/", eval->metrics, eval->metrics_ci95);
  }
  return metrics;
}

MetricsLog::MetricsLog(const Directory& directory, int64_t last_step)
    : lines_((cut_metrics(directory, last_step), directory), kLines),
      events_(EventFile::reopen(directory, last_step)),
      flushed_ns_(now_ns()) {}

void MetricsLog::write(const Progress& progress, double wall_s,
                       const std::vector<Metric>& metrics) {
  line_ = fmt::format(R"({{"step": {}, "update": {}, "episodes": {}, "wall_s": )", progress.steps,
                      progress.updates, progress.episodes);
  append_number(line_, wall_s);
  for (const auto& [name, value] : metrics) {
    line_ += ", ";
    append_name(line_, name);
    line_ += ": ";
    append_number(line_, value);
  }
  line_ += "}\n";
  lines_.append(line_);
  events_.add(unix_time(), progress.steps, metrics);
  constexpr uint64_t kFlushNs = 1'000'000'000;
  if (now_ns() - flushed_ns_ >= kFlushNs) flush();
}

void MetricsLog::write_text(const std::string& name, const std::string& text, int64_t step) {
  events_.add_text(unix_time(), step, name, text);
}

void MetricsLog::flush() {
  lines_.flush();
  events_.flush();
  flushed_ns_ = now_ns();
}

void MetricsLog::sync_lines() const { lines_.sync(); }

bool has_metrics(const Directory& directory) {
  char first = 0;
  return directory.holds(kLines) &&
         read_some(directory, directory.open_to_read(kLines), {&first, 1}) > 0;
}

void require_whole_metrics(const Directory& directory, int64_t last_step) {
  lines_up_to(directory, last_step);
}

void cut_metrics(const Directory& directory, int64_t last_step) {
  const Stretch kept = lines_up_to(directory, last_step);
  if (kept.last.step < last_step || kept.missing > 0) {
    log::warn("metrics.jsonl lacks updates before the checkpoint",
              {{"file", directory.path(kLines)},
               {"last_step", std::to_string(kept.last.step)},
               {"checkpoint", std::to_string(last_step)},
               {"missing_before_last", std::to_string(kept.missing)}});
  }
  if (!directory.holds(kLines)) return;
  const Descriptor file = directory.open_to_write(kLines, Directory::Place::kAnywhere);
  if (::ftruncate(file.get(), kept.bytes) != 0) {
    throw_errno(ErrorCode::kData, "cannot cut " + directory.path(kLines));
  }
}

}  // namespace flotilla
