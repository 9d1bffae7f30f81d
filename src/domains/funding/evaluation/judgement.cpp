#include "flotilla/domains/funding/evaluation/judgement.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/funding/evaluation/hindsight.h"
#include "flotilla/env/frame_stack.h"
#include "flotilla/train/baselines.h"

namespace flotilla::funding {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The profit factor as if one more trade, of the mean size, had been lost: a lucky one is no
// record.
double score_of(const Judged& j, double won, double lost, double trades) {
  const double factor = won / (lost + (won + lost) / trades);
  return 0.5 * std::tanh(j.pnl_pct.mean / 5) + 0.3 * std::min(factor / 2, 1.0) +
         0.2 * std::max(0.0, 1 - j.drawdown_pct / 100);
}

std::vector<double> profits(const std::vector<Window>& windows) {
  std::vector<double> numbers;
  for (const Window& window : windows) numbers.push_back(window.pnl_pct);
  return numbers;
}

Estimate above(const std::vector<Window>& one, const std::vector<Window>& other) {
  std::vector<double> difference = profits(one);
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= other[i].pnl_pct;
  return estimate(difference);
}

std::vector<Window> with_hindsight(const Funding& env, std::vector<Window> windows,
                                   ThreadPool& pool) {
  Activity planning("planning with hindsight", "window", static_cast<int64_t>(windows.size()));
  std::atomic<int64_t> done = 0;
  pool.for_each(static_cast<int>(windows.size()), [&](int thread, int item) {
    if (interrupted()) return;
    Window& window = windows[static_cast<size_t>(item)];
    window = trade_with_hindsight(env, window);
    const int64_t count = ++done;
    if (thread == 0) planning.done(count);
  });
  stop_if_interrupted();
  return windows;
}

}  // namespace

Estimate estimate(const std::vector<double>& numbers) {
  const double n = static_cast<double>(numbers.size());
  double mean = 0, squares = 0;
  for (const double number : numbers) mean += number / n;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {.mean = mean, .ci95 = 1.96 * std::sqrt(squares / (n - 1) / n)};
}

Judged judged(const std::vector<Window>& windows) {
  double trades = 0, wins = 0, won = 0, lost = 0, drawdown = 0;
  double funding = 0, price_pnl = 0, fees = 0;
  for (const Window& window : windows) {
    trades += window.book.trades;
    wins += window.book.wins;
    won += window.book.won;
    lost += window.book.lost;
    drawdown += window.book.max_drawdown;
    funding += window.book.funding;
    price_pnl += window.book.price_profit;
    fees += window.book.fees;
  }
  const double n = static_cast<double>(windows.size());
  Judged result{.pnl_pct = estimate(profits(windows)),
                .drawdown_pct = drawdown / n,
                .trades = trades / n,
                .funding = funding / n,
                .price_pnl = price_pnl / n,
                .fees = fees / n,
                .win_rate = trades > 0 ? wins / trades : kNone,
                .profit_factor = lost > 0 ? won / lost : kNone};
  result.score = trades > 0 ? score_of(result, won, lost, trades) : kNone;
  return result;
}

Traded trade_all(const EnvType& type, const Config& config, const ActingPolicy& policy, int count,
                 uint64_t seed, ThreadPool& pool) {
  const Windows shown(type, config, count, seed);
  Config plain_config = config;
  plain_config.set(kFrameStackKey, "1");
  const Windows plain(type, plain_config, count, seed);
  const Funding& env = plain.env();
  Traded traded{.trained = shown.play(policy_trader(policy)),
                .cash = plain.play(cash_trader()),
                .best_apr = plain.play(best_apr_trader(env.tables().scaler, env.rules())),
                .random = plain.play(random_player(env.spec(), seed)),
                .hindsight = {}};
  traded.hindsight = with_hindsight(env, traded.cash, pool);
  return traded;
}

Judgement judge(const Traded& traded) {
  return {.trained = judged(traded.trained),
          .cash = judged(traded.cash),
          .best_apr = judged(traded.best_apr),
          .random = judged(traded.random),
          .hindsight = judged(traded.hindsight),
          .above_best_apr = above(traded.trained, traded.best_apr),
          .above_random = above(traded.trained, traded.random)};
}

}  // namespace flotilla::funding
