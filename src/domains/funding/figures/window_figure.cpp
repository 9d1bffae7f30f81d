#include "flotilla/domains/funding/figures/window_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "flotilla/core/text.h"
#include "flotilla/report/chart.h"

namespace flotilla::funding {
namespace {

constexpr size_t kDrawn = 4;  // symbols
constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
enum Look { kHeld = 0, kEntry = 2, kExit = 1 };

// A number of one symbol at a time of the market.
using Number = std::function<double(const Cell& cell)>;

// In percent of Binance's price.
double price_gap(const Cell& cell) { return 100 * (cell.quote.price[1] / cell.quote.price[0] - 1); }

// Percent of 8 hours for who is long on Binance.
double funding_8h(const Cell& cell) { return percent_of_8h(cell.quote.rate, cell.hours); }

class WindowFigure {
 public:
  WindowFigure(const Funding& env, const Window& window, const Trace& trace)
      : env_(env), window_(window), trace_(trace) {}

  Figure draw(const std::string& trader) const {
    Figure figure{.title = title(trader), .columns = 2, .one_legend = true};
    for (const uint16_t symbol : most_traded()) {
      const std::string& name = env_.tables().market.symbol(symbol);
      figure.panels.push_back(panel(symbol, name, "Bybit over Binance, %", price_gap));
      figure.panels.push_back(
          panel(symbol, name + " funding", "Binance long, % in 8 h", funding_8h));
    }
    const auto profit = [this](size_t i) {
      return 100 * (trace_.equity[i] / trace_.equity.front() - 1);
    };
    figure.panels.push_back(worth("equity", "P&L, %", profit));
    figure.panels.push_back(
        worth("drawdown", "below the peak, %", [this](size_t i) { return trace_.drawdown[i]; }));
    return figure;
  }

 private:
  std::string title(const std::string& trader) const {
    const size_t symbols = realised_by_symbol().size();
    return fmt::format("{}, {}, {}{}", trader, moment(window_.begin),
                       counted(static_cast<int64_t>(trace_.trades.size()), "trade"),
                       symbols > kDrawn ? fmt::format(", {} of {} symbols", kDrawn, symbols) : "");
  }

  std::string moment(int32_t second) const {
    std::string text = time_text(env_.tables().market.begin() + second);
    return text.substr(0, text.size() - 4);  // without seconds
  }

  int32_t end() const {
    return window_.begin + static_cast<int32_t>(trace_.equity.size() - 1) * kStepSeconds;
  }
  double day(int32_t second) const { return static_cast<double>(second - window_.begin) / kDay; }

  // Sums of what was won and of what was lost.
  std::map<uint16_t, double> realised_by_symbol() const {
    std::map<uint16_t, double> sums;
    for (const Trade& trade : trace_.trades) {
      sums[trade.pair.symbol] += std::fabs(realised(trade.pair, env_.rules()));
    }
    return sums;
  }

  std::vector<uint16_t> most_traded() const {
    const auto sums = realised_by_symbol();
    std::vector<uint16_t> symbols;
    for (const auto& [symbol, usd] : sums) symbols.push_back(symbol);
    std::ranges::stable_sort(symbols,
                             [&](uint16_t a, uint16_t b) { return sums.at(a) > sums.at(b); });
    symbols.resize(std::min(symbols.size(), kDrawn));
    return symbols;
  }

  Panel worth(const char* title, const char* label,
              const std::function<double(size_t)>& number) const {
    Series series{.look = kHeld};
    for (size_t i = 0; i < trace_.equity.size(); ++i) {
      series.curve.add(static_cast<double>(i) / kStepsPerDay, number(i));
    }
    return {.title = title,
            .x = {.label = "days", .tight = true},
            .y = {.label = label},
            .series = {series}};
  }

  double at(uint16_t symbol, int32_t second, const Number& number) const {
    return number(env_.tables().market.at(second / kStepSeconds, symbol));
  }

  Panel panel(uint16_t symbol, const std::string& title, const char* label,
              const Number& number) const {
    Series all{.name = "not held", .look = Series::kGrey};
    for (int32_t t = window_.begin; t <= end(); t += kStepSeconds) {
      all.curve.add(day(t), at(symbol, t, number));
    }
    Series held{.name = "held", .look = kHeld};
    Series entries{.name = "entry", .kind = Series::Kind::kPoints, .look = kEntry};
    Series exits{.name = "exit", .kind = Series::Kind::kPoints, .look = kExit};
    for (const Trade& trade : trace_.trades) {
      if (trade.pair.symbol != symbol) continue;
      const int32_t entered = trade.pair.entered;
      for (int32_t t = entered; t <= trade.closed; t += kStepSeconds) {
        held.curve.add(day(t), at(symbol, t, number));
      }
      held.curve.add(day(trade.closed), kGap);
      add_mark(entries, day(entered), at(symbol, entered, number));
      add_mark(exits, day(trade.closed), at(symbol, trade.closed, number));
    }
    return {.title = title,
            .x = {.label = "days", .tight = true},
            .y = {.label = label},
            .series = {all, held, entries, exits}};
  }

  // Without a line to the next one.
  static void add_mark(Series& series, double x, double y) {
    series.curve.add(x, y);
    series.curve.add(x, kGap);
  }

  const Funding& env_;
  const Window& window_;
  const Trace& trace_;
};

}  // namespace

std::string window_svg(const Funding& env, const Window& window, const Trace& trace,
                       const std::string& trader) {
  return render_svg(WindowFigure(env, window, trace).draw(trader));
}

}  // namespace flotilla::funding
