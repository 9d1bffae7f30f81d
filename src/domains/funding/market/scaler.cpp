#include "flotilla/domains/funding/market/scaler.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string_view>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::funding {

namespace {

// Takes a finite number and the character behind it off the text; "\0": nothing is behind it.
bool take_number(std::string_view& text, char behind, double& number) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || !std::isfinite(number)) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (behind == '\0') return text.empty();
  if (!text.starts_with(behind)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string to_text(const Scaler& scaler) {
  std::string text;
  for (size_t i = 0; i < kFeatures; ++i) {
    text += fmt::format("{}{}/{}", i > 0 ? " " : "", scaler.mean[i], scaler.deviation[i]);
  }
  return text;
}

Scaler scaler_of(const std::string& text) {
  Scaler scaler;
  std::string_view rest = text;
  for (size_t i = 0; i < kFeatures; ++i) {
    const char behind = i + 1 < kFeatures ? ' ' : '\0';
    if (take_number(rest, '/', scaler.mean[i]) && take_number(rest, behind, scaler.deviation[i]) &&
        scaler.deviation[i] > 0) {
      continue;
    }
    throw Error(ErrorCode::kUsage,
                fmt::format("scaler: expected {} times mean/deviation with spaces between, got {}",
                            kFeatures, in_quotes(text)));
  }
  return scaler;
}

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
