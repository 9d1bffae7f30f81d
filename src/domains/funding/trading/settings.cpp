#include "flotilla/domains/funding/trading/settings.h"

#include <string_view>

namespace flotilla::funding {
namespace {

struct Preset {
  std::string_view name;
  TradingConfig config;
};
constexpr Preset kPresets[] = {{"conservative", {1, 0.4, 2, -0.01, 0.25}},
                               {"moderate", {3, 0.6, 3, -0.02, 0.15}},
                               {"aggressive", {5, 0.75, 5, -0.03, 0.10}}};

bool is_within(double value, double low, double high) { return value >= low && value <= high; }

}  // namespace

bool is_valid(const TradingConfig& c) {
  return is_within(c.leverage, 1, 10) && is_within(c.utilization, 0, 1) && c.max_positions >= 1 &&
         c.max_positions <= kMostPairs && is_within(c.stop_loss, -0.1, 0) &&
         is_within(c.liquidation_buffer, 0.05, 0.5);
}

void TradingSettings::add_to(Schema& schema) {
  schema.number("max_leverage", 2, {1, 10}, "of every pair; lowers its margin, not its profit")
      .number("target_utilization", 0.8, {0, 1}, "part of the margin that is spread over the pairs")
      .integer("max_positions", 2, {1, kMostPairs}, "pairs that may be open at once")
      .number("stop_loss_threshold", -0.02, {-0.10, 0},
              "a pair whose loss is a larger part of its two sides is closed")
      .number("liquidation_buffer", 0.15, {0.05, 0.50},
              "distance from liquidation, as a part of the price, below which there is a penalty")
      .choice("preset", "none",
              {"none", "conservative", "moderate", "aggressive", "random", "random_moderate"},
              "instead of these five keys; random ones are drawn for every episode");
}

TradingSettings::TradingSettings(const Config& config) {
  config_ = {config.get_number("max_leverage"), config.get_number("target_utilization"),
             static_cast<int32_t>(config.get_integer("max_positions")),
             config.get_number("stop_loss_threshold"), config.get_number("liquidation_buffer")};
  const std::string& name = config.get_text("preset");
  for (const Preset& preset : kPresets) {
    if (name == preset.name) config_ = preset.config;
  }
  if (name == "random") draw_ = Draw::kAll;
  if (name == "random_moderate") draw_ = Draw::kModerate;
}

TradingConfig TradingSettings::draw(Rng& rng) const {
  if (draw_ == Draw::kNothing) return config_;
  const bool all = draw_ == Draw::kAll;
  TradingConfig drawn{};
  drawn.leverage = all ? rng.uniform(1, 10) : rng.uniform(1, 5);
  drawn.utilization = all ? rng.uniform(0.3, 0.8) : rng.uniform(0.4, 0.7);
  drawn.max_positions = static_cast<int32_t>(all ? 1 + rng.below(5) : 2 + rng.below(3));
  drawn.stop_loss = all ? rng.uniform(-0.05, -0.01) : rng.uniform(-0.03, -0.015);
  drawn.liquidation_buffer = all ? rng.uniform(0.1, 0.3) : rng.uniform(0.12, 0.20);
  return drawn;
}

}  // namespace flotilla::funding
