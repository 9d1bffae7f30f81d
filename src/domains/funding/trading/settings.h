// How a trader may trade: five numbers, fixed or drawn at the beginning of an episode. They are the
// first of what a policy sees.
#pragma once

#include <cstdint>

#include "flotilla/core/config.h"
#include "flotilla/core/rng.h"

namespace flotilla::funding {

constexpr int kMostPairs = 5;

struct TradingConfig {
  double leverage;
  double utilization;  // part of the margin that is spread over the pairs
  int32_t max_positions;
  double stop_loss;           // a pair that has lost more, as a part of its 2 S, is closed
  double liquidation_buffer;  // distance from liquidation below which there is a penalty
};

bool is_valid(const TradingConfig& config);

// The keys, and what they say.
class TradingSettings {
 public:
  static void add_to(Schema& schema);
  explicit TradingSettings(const Config& config);

  // Of an episode. Draws nothing where nothing is random.
  TradingConfig draw(Rng& rng) const;

 private:
  enum class Draw : uint8_t { kNothing, kModerate, kAll };
  TradingConfig config_{};
  Draw draw_ = Draw::kNothing;
};

}  // namespace flotilla::funding
