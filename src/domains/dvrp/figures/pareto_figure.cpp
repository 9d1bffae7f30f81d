#include "flotilla/domains/dvrp/figures/pareto_figure.h"

#include <algorithm>

#include "flotilla/report/chart.h"

namespace flotilla::dvrp {
namespace {

Series series_of(const char* name, std::vector<Trade> trades, int look) {
  std::ranges::sort(trades, {}, &Trade::asked);
  Series series{.name = name, .kind = Series::Kind::kPoints, .look = look};
  for (const Trade& trade : trades) {
    series.curve.add(trade.asked, trade.saved.mean);
    series.low.push_back(trade.saved.mean - trade.saved.ci95);
    series.high.push_back(trade.saved.mean + trade.saved.ci95);
  }
  return series;
}

}  // namespace

std::string pareto_svg(const std::vector<TradePanel>& panels) {
  Figure figure{.title = "Minutes of a day: saved by vehicles, asked of travellers",
                .columns = 2,
                .one_legend = true};
  for (const TradePanel& trades : panels) {
    Panel panel{.title = trades.title,
                .x = {.label = "traveller minutes asked", .from_zero = true},
                .y = {.label = "vehicle minutes saved", .from_zero = true}};
    panel.series = {series_of("least detour", {trades.least_detour}, 0),
                    series_of("random allowed offers", {trades.random}, 1),
                    series_of("trained", trades.trained, 2)};
    if (trades.ceiling) panel.series.push_back(series_of("S*", {*trades.ceiling}, 3));
    figure.panels.push_back(std::move(panel));
  }
  return render_svg(figure);
}

}  // namespace flotilla::dvrp
