// The funding-rate market as an environment: open and close hedged pairs, in steps of 5 minutes.
// docs/funding.md: the accounting, the options, the observation.
#pragma once

#include <memory>
#include <optional>

#include "flotilla/domains/funding/market/tables.h"
#include "flotilla/domains/funding/market/time_text.h"
#include "flotilla/domains/funding/observation.h"
#include "flotilla/domains/funding/trading/portfolio.h"
#include "flotilla/env/env.h"

namespace flotilla::funding {

// A row of the scanner that is on the screen.
struct Shown {
  float apr;
  uint16_t symbol;
  uint8_t direction;
  uint8_t rank;  // on the board; kRanked: not there
};

class Funding {
 public:
  // Times are in seconds of the market.
  struct State {
    Portfolio book;
    TradingConfig config;
    double funding_before;  // of the pairs that were open a step ago: the era's reward needs it
    int32_t begin, end, now;
    int32_t shown_count;
    Shown shown[kShown];
  };

  static Schema schema();
  // Fits the scaler on the training part, and notes what windows are drawn from.
  static void fill_in(Config& config);
  explicit Funding(const Config& config);

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const;
  Outcome step(State& s, ActionRow action, Rng& g) const;
  void observe(const State& s, ObsRow row) const;
  void mask(const State& s, MaskRow m) const;
  void metrics(const State& s, MetricRow m) const;
  bool valid(const State& s) const;

  const Tables& tables() const { return tables_->get(); }
  const Rules& rules() const { return rules_; }
  double initial_capital() const { return capital_; }
  int steps() const { return steps_; }  // of an episode
  // What windows are drawn from.
  Period period(const Market& market) const;
  // Begins an episode at a given moment.
  void begin(State& s, int32_t at, const TradingConfig& config) const;
  // The pair that an action would open now; nothing where it opens none or is refused.
  std::optional<Pair> opened_by(const State& s, int action) const;
  // An entry of this moment, but for its size, leverage and APR.
  Entry entry_at(int32_t now, uint16_t symbol, uint8_t direction) const;

 private:
  Times part_times(int times) const;
  void require_windows(int times) const;
  int32_t draw_begin(Rng& g) const;
  // The grid time whose prices hold now, and the one whose rows are shown.
  int price_time(int32_t now) const;
  int row_time(int32_t now) const;
  LegQuotes quotes_at(int32_t now, int symbol, int direction) const;

  void act(State& s, int action) const;
  double mark_pairs(State& s) const;
  double reward(State& s, double equity_before, double change) const;
  void fetch_ahead(const State& s) const;
  void show_rows(State& s) const;
  void show_best(State& s, const Ranking& ranking) const;
  void show_with_held(State& s, const Ranking& ranking) const;
  bool valid_pair(const State& s, const Pair& p) const;
  void observe_pair(const State& s, const Pair& p, float* out) const;

  EnvSpec spec_;
  Rules rules_;
  TradingSettings trading_;
  std::shared_ptr<const SharedTables> tables_;
  Split split_;
  Part part_;
  int steps_;
  double capital_, funding_scale_, price_scale_, liquidation_scale_;
};

}  // namespace flotilla::funding
