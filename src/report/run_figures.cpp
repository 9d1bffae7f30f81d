#include "flotilla/report/run_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "flotilla/report/run_facts.h"
#include "flotilla/report/scale.h"

namespace flotilla {
namespace {

constexpr size_t kMostEnvPanels = 20;
constexpr const char* kHalfWidth = "_ci95";  // behind the name of a metric
constexpr size_t kMostBins = 40;             // of the shares of time

const Axis kSteps{.label = "steps", .from_zero = true, .tight = true};

// How many updates a smoothed line is the mean of: a fiftieth of the run, odd, so that there are as
// many before as behind. 1 where a run is too short to be smoothed.
size_t smoothing_window(const RunData& run) {
  constexpr size_t kLeast = 5, kMost = 1001, kShortRun = 50;
  const size_t rows = run.metrics.rows();
  return rows < kShortRun ? 1 : std::clamp(rows / 50, kLeast, kMost) | 1u;
}

// "seed0: cartpole, ppo (not finished)"
std::string title(const RunData& run) {
  const RunFacts facts = facts_of(run);
  std::string text = facts.name;
  if (!facts.env.empty()) text += ": " + facts.env;
  if (!facts.algo.empty()) text += ", " + facts.algo;
  return facts.state == "not finished" ? text + " (not finished)" : text;
}

const std::vector<double>& steps_of(const RunData& run) { return *run.metrics.find("step"); }

// What is set, not measured: a mean would show values that never were.
bool is_schedule(const std::string& name) { return name == "charts/learning_rate"; }

// The metric as it is, pale, and smoothed over it.
std::vector<Series> smoothed(const RunData& run, const std::vector<double>& x,
                             const std::string& name) {
  const size_t window = is_schedule(name) ? 1 : smoothing_window(run);
  Curve curve = present(x, *run.metrics.find(name));
  if (window == 1) return {{.curve = std::move(curve)}};
  Curve mean{curve.x, centred_mean(curve.y, window)};
  return {{.name = "each update", .curve = std::move(curve), .kind = Series::Kind::kFaint},
          {.name = fmt::format("mean of {}", window), .curve = std::move(mean)}};
}

// The evaluations of a metric, with the interval where another metric has its half width.
std::optional<Series> evaluations(const RunData& run, const std::string& metric,
                                  const std::string& half_width) {
  if (!run.metrics.has(metric)) return std::nullopt;
  const std::vector<double>& values = *run.metrics.find(metric);
  const std::vector<double>* widths =
      run.metrics.has(half_width) ? run.metrics.find(half_width) : nullptr;
  Series series{.name = widths != nullptr ? "evaluation, 95 % interval" : "evaluation",
                .kind = Series::Kind::kPoints,
                .look = 1};
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    series.curve.add(steps_of(run)[i], values[i]);
    if (widths == nullptr) continue;
    series.low.push_back(values[i] - (*widths)[i]);
    series.high.push_back(values[i] + (*widths)[i]);
  }
  return series;
}

Panel return_panel(const RunData& run) {
  Panel panel{.title = "return", .x = kSteps};
  if (run.metrics.has("charts/episodic_return")) {
    panel.series.push_back(
        {.name = "each update",
         .curve = present(steps_of(run), *run.metrics.find("charts/episodic_return")),
         .kind = Series::Kind::kFaint});
  }
  if (const std::vector<double> score = run.score(); !score.empty()) {
    panel.series.push_back(
        {.name = "mean of 100 episodes", .curve = present(steps_of(run), score)});
  }
  if (auto series = evaluations(run, "eval/episodic_return", "eval/ci95")) {
    panel.series.push_back(std::move(*series));
  }
  return panel;
}

Panel metric_panel(const RunData& run, const std::string& name, const std::string& title,
                   Axis::Kind kind = Axis::Kind::kLinear) {
  return {.title = title,
          .x = kSteps,
          .y = {.kind = kind},
          .series = smoothed(run, steps_of(run), name)};
}

Panel panel_with_evaluations(const RunData& run, const std::string& name,
                             const std::string& evaluated, const std::string& title) {
  Panel panel = metric_panel(run, name, title);
  if (auto series = evaluations(run, evaluated, evaluated + kHalfWidth)) {
    panel.series.push_back(std::move(*series));
  }
  return panel;
}

// The half width of another metric's interval.
bool is_half_width(const RunData& run, const std::string& name) {
  return name.ends_with(kHalfWidth) &&
         run.metrics.has(name.substr(0, name.size() - std::string_view(kHalfWidth).size()));
}

// Failures are worth a picture only when there are some.
bool is_shown(const RunData& run, const std::string& name) {
  if (!name.starts_with("env/") || !run.metrics.has(name)) return false;
  if (is_half_width(run, name)) return false;
  return name != "env/failures" || extent(*run.metrics.find(name))->high > 0;
}

struct TimePart {
  const char* metric;
  const char* name;
};
constexpr std::array<TimePart, 7> kTimeParts = {{{"time/step_s", "step"},
                                                 {"time/infer_s", "infer"},
                                                 {"time/wait_s", "wait"},
                                                 {"time/gae_s", "gae"},
                                                 {"time/update_s", "update"},
                                                 {"time/eval_s", "eval"},
                                                 {"time/checkpoint_s", "checkpoint"}}};
using Parts = std::array<double, kTimeParts.size() + 1>;  // the last is what is left: "other"

double total(const Parts& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

double number_or_zero(const std::vector<double>* values, size_t row) {
  return values != nullptr && std::isfinite((*values)[row]) ? std::max(0.0, (*values)[row]) : 0;
}

// Where the seconds went that lie between some lines of the metrics.
struct TimeBin {
  double start_s = 0, end_s = 0;
  Parts parts = {};
};

TimeBin bin_of(const RunData& run, size_t first, size_t end, double start_s) {
  const std::vector<double>* wall = run.metrics.find("wall_s");
  TimeBin bin{.start_s = start_s, .end_s = start_s};
  for (size_t row = first; row < end; ++row) {
    bin.end_s = std::max(bin.end_s, number_or_zero(wall, row));
    for (size_t i = 0; i < kTimeParts.size(); ++i) {
      bin.parts[i] += number_or_zero(run.metrics.find(kTimeParts[i].metric), row);
    }
  }
  bin.parts.back() = std::max(0.0, bin.end_s - bin.start_s - total(bin.parts));
  return bin;
}

std::vector<TimeBin> time_bins(const RunData& run) {
  const size_t rows = run.metrics.rows(), count = std::min(rows, kMostBins);
  std::vector<TimeBin> bins;
  for (size_t i = 0; i < count; ++i) {
    const double start_s = bins.empty() ? 0 : bins.back().end_s;
    bins.push_back(bin_of(run, rows * i / count, rows * (i + 1) / count, start_s));
  }
  return bins;
}

// One part's area: from the sum of the parts below it to that with its own, in per cent. A bin is
// flat, for it is a mean.
Series share_series(const std::vector<TimeBin>& bins, size_t part, const TimeAxis& axis) {
  const bool is_other = part == kTimeParts.size();
  Series series{.kind = Series::Kind::kArea,
                .look = is_other ? Series::kGrey : static_cast<int>(part)};
  for (const TimeBin& bin : bins) {
    const double all = total(bin.parts);
    double below = 0;
    for (size_t i = 0; i < part; ++i) below += bin.parts[i];
    const double low = all > 0 ? 100 * below / all : kNaN;
    const double high = all > 0 ? 100 * (below + bin.parts[part]) / all : kNaN;
    for (const double at_s : {bin.start_s, bin.end_s}) {
      series.curve.add(at_s / axis.unit_s, kNaN);
      series.low.push_back(low);
      series.high.push_back(high);
    }
  }
  return series;
}

Panel share_panel(const RunData& run, const TimeAxis& axis) {
  const std::vector<TimeBin> bins = time_bins(run);
  Parts sums = {};
  for (const TimeBin& bin : bins) {
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += bin.parts[i];
  }
  Panel panel{.title = "share of time (%)",
              .x = {.label = axis.label, .from_zero = true, .tight = true},
              .y = {.from_zero = true, .tight = true}};
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(sums[i] > 0.0005 * total(sums))) continue;  // would be "0.0 %"
    Series series = share_series(bins, i, axis);
    series.name = fmt::format("{} {:.1f} %", i < kTimeParts.size() ? kTimeParts[i].name : "other",
                              100 * sums[i] / total(sums));
    panel.series.push_back(std::move(series));
  }
  return panel;
}

}  // namespace

TimeAxis::TimeAxis(double longest_s)
    : unit_s(longest_s > 3 * 3600 ? 3600
             : longest_s > 300    ? 60
                                  : 1),
      label(unit_s == 3600 ? "wall time (h)"
            : unit_s == 60 ? "wall time (min)"
                           : "wall time (s)") {}

Figure learning_figure(const RunData& run) {
  Figure figure{.title = title(run)};
  if (Panel panel = return_panel(run); !panel.series.empty()) figure.panels.push_back(panel);
  if (run.metrics.has("charts/episodic_length")) {
    figure.panels.push_back(panel_with_evaluations(run, "charts/episodic_length",
                                                   "eval/episodic_length", "episode length"));
  }
  size_t shown = 0;
  for (const std::string& name : run.metrics.names()) {
    if (!is_shown(run, name) || ++shown > kMostEnvPanels) continue;
    const std::string short_name = name.substr(name.find('/') + 1);
    figure.panels.push_back(panel_with_evaluations(run, name, "eval/" + short_name, short_name));
  }
  return figure;
}

Figure losses_figure(const RunData& run) {
  struct Loss {
    const char* metric;
    const char* title;
    Axis::Kind kind = Axis::Kind::kLinear;
  };
  constexpr std::array<Loss, 8> kLosses = {
      {{"losses/policy_loss", "policy loss"},
       {"losses/value_loss", "value loss", Axis::Kind::kAuto},
       {"losses/entropy", "entropy"},
       {"losses/approx_kl", "approximate KL"},
       {"losses/clipfrac", "clipped fraction"},
       {"losses/explained_variance", "explained variance"},
       {"losses/grad_norm", "gradient norm", Axis::Kind::kAuto},
       {"charts/learning_rate", "learning rate"}}};
  Figure figure{.title = title(run), .one_legend = true};
  for (const Loss& loss : kLosses) {
    if (!run.metrics.has(loss.metric)) continue;
    figure.panels.push_back(metric_panel(run, loss.metric, loss.title, loss.kind));
  }
  return figure;
}

Figure timing_figure(const RunData& run) {
  Figure figure{.title = title(run)};
  if (!run.metrics.has("wall_s")) return figure;
  std::vector<double> wall = *run.metrics.find("wall_s");
  const TimeAxis axis(extent(wall)->high);
  for (double& value : wall) value /= axis.unit_s;
  const auto panel = [&](const char* metric, const char* title) {
    if (!run.metrics.has(metric)) return;
    figure.panels.push_back({.title = title,
                             .x = {.label = axis.label, .from_zero = true, .tight = true},
                             .y = {.from_zero = true},
                             .series = smoothed(run, wall, metric)});
  };
  panel("charts/SPS", "steps per second");
  const bool has_parts = std::ranges::any_of(
      kTimeParts, [&](const TimePart& part) { return run.metrics.has(part.metric); });
  if (has_parts) figure.panels.push_back(share_panel(run, axis));
  panel("memory/rss_mb", "resident memory (MB)");
  return figure;
}

}  // namespace flotilla
