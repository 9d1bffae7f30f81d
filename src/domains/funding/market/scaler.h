// The scale of what policies see of the scanner: mean and deviation of each feature over the rows
// of the training part alone.
#pragma once

#include <array>
#include <string>

#include "flotilla/domains/funding/market/market.h"

namespace flotilla::funding {

struct Scaler {
  std::array<double, kFeatures> mean{}, deviation{};

  Features scaled(const Features& row) const {
    Features result{};
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = static_cast<float>((static_cast<double>(row[i]) - mean[i]) / deviation[i]);
    }
    return result;
  }
};

// "mean/deviation" of each feature, with spaces between: the same bits when it is read.
std::string to_text(const Scaler& scaler);
// Throws Error(kUsage) that says what was expected.
Scaler scaler_of(const std::string& text);

// Of all listed rows of these times. A feature that never varies keeps its unit.
Scaler fit_scaler(const Market& market, Times times);

}  // namespace flotilla::funding
