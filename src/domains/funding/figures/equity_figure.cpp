#include "flotilla/domains/funding/figures/equity_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "flotilla/core/text.h"
#include "flotilla/report/chart.h"

namespace flotilla::funding {
namespace {

// A number of every window at each step. Windows that ended early keep their last one.
using Column = std::function<double(const Trace& trace, size_t step)>;

double profit_pct(const Trace& trace, size_t step) {
  const std::vector<double>& equity = trace.equity;
  return 100 * (equity[std::min(step, equity.size() - 1)] / equity.front() - 1);
}

double drawdown_pct(const Trace& trace, size_t step) {
  return trace.drawdown[std::min(step, trace.drawdown.size() - 1)];
}

size_t longest(const std::vector<Trace>& traces) {
  size_t steps = 0;
  for (const Trace& trace : traces) steps = std::max(steps, trace.equity.size());
  return steps;
}

std::vector<double> sorted_column(const TracedTrader& trader, const Column& column, size_t step) {
  std::vector<double> numbers;
  for (const Trace& trace : trader.traces) numbers.push_back(column(trace, step));
  std::ranges::sort(numbers);
  return numbers;
}

Series series_of(const TracedTrader& trader, const Column& column, int look) {
  constexpr double kLow = 0.1, kHigh = 0.9;
  Series series{.name = trader.name, .look = look};
  const size_t steps = longest(trader.traces);
  for (size_t step = 0; step < steps; ++step) {
    const std::vector<double> sorted = sorted_column(trader, column, step);
    const auto at = [&sorted](double share) {
      return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
    };
    double sum = 0;
    for (const double number : sorted) sum += number;
    series.curve.add(static_cast<double>(step) / kStepsPerDay,
                     sum / static_cast<double>(sorted.size()));
    if (look != 0) continue;
    series.low.push_back(at(kLow));
    series.high.push_back(at(kHigh));
  }
  return series;
}

Panel panel_of(const std::vector<TracedTrader>& traders, const char* title, const char* label,
               const Column& column) {
  Panel panel{.title = title, .x = {.label = "days", .tight = true}, .y = {.label = label}};
  for (size_t i = 0; i < traders.size(); ++i) {
    panel.series.push_back(series_of(traders[i], column, static_cast<int>(i)));
  }
  return panel;
}

}  // namespace

std::string equity_svg(const std::vector<TracedTrader>& traders) {
  const auto windows = static_cast<int64_t>(traders.front().traces.size());
  return render_svg({.title = fmt::format("{}: means, and 8 of 10 of {}",
                                          counted(windows, "window"), traders.front().name),
                     .panels = {panel_of(traders, "equity", "P&L, %", profit_pct),
                                panel_of(traders, "drawdown", "below the peak, %", drawdown_pct)},
                     .columns = 2,
                     .one_legend = true});
}

}  // namespace flotilla::funding
