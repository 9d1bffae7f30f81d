// A made-up market, the same for the same options: coins that move and jump, a gap between the two
// venues that comes back, and spells in which one venue's funding is rich while the gap stands
// against those who would earn it. Its pooled signals are like those of Binance and Bybit in autumn
// 2025: docs/funding.md.
//
// Determinism: a symbol depends on the seed and its number alone.
#pragma once

#include "flotilla/domains/funding/market/market.h"

namespace flotilla::funding {

struct SyntheticOptions {
  int days = 60, symbols = 100;
  uint64_t seed = 1;
};
constexpr int kMostDays = 1000, kMostSymbols = 1000;

Market make_market(const SyntheticOptions& options);

}  // namespace flotilla::funding
