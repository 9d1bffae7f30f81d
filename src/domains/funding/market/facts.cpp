#include "flotilla/domains/funding/market/facts.h"

#include <algorithm>
#include <limits>

namespace flotilla::funding {

MarketFacts facts_of(const Market& market) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  MarketFacts facts{.times = market.times(),
                    .symbols = market.symbols(),
                    .lowest_price = kInfinity,
                    .highest_price = -kInfinity,
                    .lowest_rate = kInfinity,
                    .highest_rate = -kInfinity,
                    .features = fit_scaler(market, {0, market.times()})};
  for (int t = 0; t < market.times(); ++t) {
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      const Cell& cell = market.at(t, symbol);
      for (int venue = 0; venue < kVenues; ++venue) {
        facts.lowest_price = std::min(facts.lowest_price, cell.quote.price[venue]);
        facts.highest_price = std::max(facts.highest_price, cell.quote.price[venue]);
        if (!is_payment(t * kStepSeconds, cell.hours[venue])) continue;
        facts.lowest_rate = std::min(facts.lowest_rate, cell.quote.rate[venue]);
        facts.highest_rate = std::max(facts.highest_rate, cell.quote.rate[venue]);
      }
      const int rows = cell.listed[0] + cell.listed[1];
      facts.rows += rows;
      if (rows == kDirections) facts.both_directions += rows;
    }
  }
  facts.rows_per_time = static_cast<double>(facts.rows) / market.times();
  return facts;
}

}  // namespace flotilla::funding
