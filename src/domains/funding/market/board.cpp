#include "flotilla/domains/funding/market/board.h"

#include <algorithm>

namespace flotilla::funding {
namespace {

struct Candidate {
  float apr;
  uint16_t symbol;
  uint8_t direction;
};

// Of two that promise the same, the first in the list of symbols.
bool is_better(const Candidate& a, const Candidate& b) {
  if (a.apr != b.apr) return a.apr > b.apr;
  return a.symbol != b.symbol ? a.symbol < b.symbol : a.direction < b.direction;
}

void add_candidates(const Cell& cell, int symbol, bool both, std::vector<Candidate>& all) {
  Candidate found[kDirections];
  int count = 0;
  for (int direction = 0; direction < kDirections; ++direction) {
    if (cell.listed[direction] == 0) continue;
    found[count++] = {apr_of_row(cell, direction), static_cast<uint16_t>(symbol),
                      static_cast<uint8_t>(direction)};
  }
  if (count == kDirections && !both) {
    found[0] = std::min(found[0], found[1], is_better);
    count = 1;
  }
  all.insert(all.end(), found, found + count);
}

}  // namespace

Row row_of(const Market& market, const Scaler& scaler, int time, int symbol, int direction) {
  const Cell& cell = market.at(time, symbol);
  return {.features = scaler.scaled(features_of(cell.signals, direction)),
          .apr = apr_of_row(cell, direction),
          .symbol = static_cast<uint16_t>(symbol),
          .direction = static_cast<uint8_t>(direction)};
}

Board::Board(const Market& market, const Scaler& scaler, bool both_directions)
    : rankings_(static_cast<size_t>(market.times())) {
  std::vector<Candidate> all;
  for (int t = 0; t < market.times(); ++t) {
    all.clear();
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      add_candidates(market.at(t, symbol), symbol, both_directions, all);
    }
    const size_t count = std::min<size_t>(all.size(), kRanked);
    std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                      is_better);
    Ranking& ranking = rankings_[static_cast<size_t>(t)];
    ranking.count = static_cast<int32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      ranking.rows[i] = row_of(market, scaler, t, all[i].symbol, all[i].direction);
    }
  }
}

}  // namespace flotilla::funding
