#include "flotilla/domains/funding/market/scaler.h"

#include <cmath>

namespace flotilla::funding {

Scaler fit_scaler(const Market& market, Times times) {
  Scaler scaler;
  std::array<double, kFeatures> squares{};  // of differences from the mean: Welford (1962)
  double count = 0;
  for (int t = times.begin; t < times.end; ++t) {
    for (int symbol = 0; symbol < market.symbols(); ++symbol) {
      const Cell& cell = market.at(t, symbol);
      for (int direction = 0; direction < kDirections; ++direction) {
        if (cell.listed[direction] == 0) continue;
        const Features row = features_of(cell.signals, direction);
        ++count;
        for (size_t i = 0; i < row.size(); ++i) {
          const double difference = static_cast<double>(row[i]) - scaler.mean[i];
          scaler.mean[i] += difference / count;
          squares[i] += difference * (static_cast<double>(row[i]) - scaler.mean[i]);
        }
      }
    }
  }
  for (size_t i = 0; i < squares.size(); ++i) {
    const double variance = count > 0 ? squares[i] / count : 0;
    scaler.deviation[i] = variance > 0 ? std::sqrt(variance) : 1;
  }
  return scaler;
}

}  // namespace flotilla::funding
