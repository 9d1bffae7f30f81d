// What a market is like, for who has to decide whether to trust it.
#pragma once

#include "flotilla/domains/funding/market/scaler.h"

namespace flotilla::funding {

struct MarketFacts {
  int times = 0, symbols = 0;
  int64_t rows = 0, both_directions = 0;  // of the scanner; of them, those of symbols listed twice
  double rows_per_time = 0;
  double lowest_price = 0, highest_price = 0;
  double lowest_rate = 0, highest_rate = 0;  // at a payment
  Scaler features;                           // moments of all rows
};

MarketFacts facts_of(const Market& market);

}  // namespace flotilla::funding
