// What a policy earns on windows it has not seen, beside traders that anyone could be: one who
// keeps his cash, one who follows the best APR, one who acts at random, and one who knows what
// comes.
#pragma once

#include <functional>
#include <string>

#include "flotilla/core/thread_pool.h"
#include "flotilla/domains/funding/evaluation/windows.h"

namespace flotilla::funding {

struct Estimate {
  double mean = 0, ci95 = 0;  // half of the 95 % interval
};

// Of many windows. NaN where there is no such number: a win rate without trades, a profit factor
// without losses, a score without trades.
struct Judged {
  Estimate pnl_pct;
  double drawdown_pct = 0, trades = 0;          // means of a window
  double funding = 0, price_pnl = 0, fees = 0;  // the same, in USD
  double win_rate = 0, profit_factor = 0;
  // 0.5 tanh(P&L / 5) + 0.3 min(profit factor / 2, 1) + 0.2 (1 - drawdown / 100), with the profit
  // factor as if one more trade had been lost.
  double score = 0;
};

struct Judgement {
  Judged trained, cash, best_apr, random, hindsight;
  Estimate above_best_apr, above_random;  // points of P&L, window by window

  double share() const { return trained.pnl_pct.mean / hindsight.pnl_pct.mean; }
};

Estimate estimate(const std::vector<double>& numbers);
Judged judged(const std::vector<Window>& windows);

// The same windows as each of them traded them.
struct Traded {
  std::vector<Window> trained, cash, best_apr, random, hindsight;
};

// `config`: of the policy's environment, with the part that is judged. Throws Error(kInterrupted).
Traded trade_all(const EnvType& type, const Config& config, const ActingPolicy& policy, int windows,
                 uint64_t seed, ThreadPool& pool);
Judgement judge(const Traded& traded);

}  // namespace flotilla::funding
