// Whole windows outside of training: the same ones for whoever trades them, so that results can be
// compared window by window.
#pragma once

#include <vector>

#include "flotilla/domains/funding/funding_env.h"
#include "flotilla/train/evaluator.h"

namespace flotilla::funding {

// A window that was traded to its end.
struct Window {
  int32_t begin = 0;  // seconds of the market
  TradingConfig config{};
  Portfolio book{};
  double pnl_pct = 0;
  std::vector<int32_t> actions = {};  // of its steps; there may be more behind its end
};

class Windows {
 public:
  // So many of `seed`, in the part of the market that `config` names.
  Windows(const EnvType& type, const Config& config, int count, uint64_t seed);

  // Throws Error(kInterrupted).
  std::vector<Window> play(const Player& trader) const;
  const Funding& env() const { return env_; }
  int count() const { return count_; }

 private:
  const EnvType type_;
  const Config config_;
  const int count_;
  const uint64_t seed_;
  const Funding env_;
};

// The likeliest action of a policy, which must outlive it.
Player policy_trader(const ActingPolicy& policy);
// Never trades.
Player cash_trader();
// Opens the largest position it can in the best row that pays its fees back within 8 hours, and
// closes what the rates of now would cost money. REQUIRES: observations without a stack of frames.
Player best_apr_trader(const Scaler& scaler, const Rules& rules);

}  // namespace flotilla::funding
