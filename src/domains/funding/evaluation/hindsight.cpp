#include "flotilla/domains/funding/evaluation/hindsight.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace flotilla::funding {
namespace {

// The part of the capital on each side of the largest entry that an empty book takes; 0: none.
double largest_part(const TradingConfig& config) {
  const Portfolio book = new_portfolio(1);
  for (int size = kSizes - 1; size >= 0; --size) {
    const double part = entry_size(book, config, size);
    if (is_accepted(book, config, part)) return part;
  }
  return 0;
}

class Planner {
 public:
  Planner(const Funding& env, const Window& window, const std::vector<PlannedTrade>& taken)
      : env_(env),
        config_(window.config),
        taken_(taken),
        first_(window.begin / kStepSeconds),
        part_(largest_part(window.config)),
        busy_(static_cast<size_t>(env.steps()) + 1),
        worth_(static_cast<size_t>(env.steps()) + 2, 1.0),
        best_(static_cast<size_t>(env.steps())) {
    for (const PlannedTrade& trade : taken) {
      busy_[static_cast<size_t>(trade.enter)] = busy_[static_cast<size_t>(trade.exit)] = true;
    }
  }

  // From the end to the beginning, then what was best from there on.
  std::vector<PlannedTrade> plan() {
    for (int t = env_.steps() - 1; t >= 0; --t) {
      worth_[static_cast<size_t>(t)] = worth_[static_cast<size_t>(t) + 1];
      if (!busy_[static_cast<size_t>(t)]) consider_entries(t);
    }
    std::vector<PlannedTrade> plan;
    for (int t = 0; t < env_.steps();) {
      const auto& trade = best_[static_cast<size_t>(t)];
      if (trade) plan.push_back(*trade);
      t = trade ? trade->exit + 1 : t + 1;
    }
    return plan;
  }

 private:
  // The last step at which a pair of this symbol that is entered now may be left.
  int free_until(int step, uint16_t symbol) const {
    int until = env_.steps();
    for (const PlannedTrade& trade : taken_) {
      if (trade.symbol == symbol && trade.exit >= step) until = std::min(until, trade.enter - 1);
    }
    return until;
  }

  void consider_entries(int t) {
    const Ranking& ranking = env_.tables().board.at(first_ + t);
    const int shown = std::min<int>(ranking.count, kShown);
    for (int i = 0; i < shown; ++i) consider_exits(t, ranking.rows[i]);
  }

  // A pair of one dollar a side, marked step by step as the environment does it.
  void consider_exits(int t, const Row& row) {
    const int until = free_until(t, row.symbol);
    if (until <= t) return;
    const std::vector<LegQuotes>& quotes = quotes_of(row.symbol, row.direction);
    Entry entry = env_.entry_at((first_ + t) * kStepSeconds, row.symbol, row.direction);
    entry.size = 1;
    entry.leverage = config_.leverage;
    Pair pair = open_pair(entry, env_.rules());
    for (int exit = t + 1; exit <= until; ++exit) {
      mark(pair, quotes[static_cast<size_t>(exit)], (first_ + exit) * kStepSeconds, env_.rules());
      // Closed at a loss: not to have entered is better.
      if (is_liquidated(pair, env_.rules())) return;
      if (percent(pair, pair.value) / 100 < config_.stop_loss) return;
      if (!busy_[static_cast<size_t>(exit)] || exit == env_.steps())
        keep_better(t, row, exit, pair);
    }
  }

  void keep_better(int t, const Row& row, int exit, const Pair& pair) {
    const double profit = realised(pair, env_.rules());
    const double worth = (1 + part_ * profit) * worth_[static_cast<size_t>(exit) + 1];
    if (worth <= worth_[static_cast<size_t>(t)]) return;
    worth_[static_cast<size_t>(t)] = worth;
    best_[static_cast<size_t>(t)] = PlannedTrade{t, exit, row.symbol, row.direction};
  }

  // One behind the other: the market has them far apart.
  const std::vector<LegQuotes>& quotes_of(uint16_t symbol, uint8_t direction) {
    std::vector<LegQuotes>& quotes = quotes_[symbol * kDirections + direction];
    if (!quotes.empty()) return quotes;
    for (int t = 0; t <= env_.steps(); ++t) {
      quotes.push_back(env_.tables().market.quotes(first_ + t, symbol, direction));
    }
    return quotes;
  }

  const Funding& env_;
  const TradingConfig config_;
  const std::vector<PlannedTrade>& taken_;
  const int first_;
  const double part_;
  std::vector<bool> busy_;                         // steps whose action is taken
  std::vector<double> worth_;                      // what a dollar becomes from this step on
  std::vector<std::optional<PlannedTrade>> best_;  // what to enter at this step
  std::unordered_map<int, std::vector<LegQuotes>> quotes_;
};

// What the plan does at this step, as an action that the environment takes.
int32_t action_of(const Funding::State& s, const std::vector<PlannedTrade>& plan, int step) {
  for (const PlannedTrade& trade : plan) {
    if (trade.exit == step) {
      for (int i = 0; i < s.book.count; ++i) {
        if (s.book.pairs[i].symbol == trade.symbol) return kFirstExit + i;
      }
    }
    if (trade.enter != step) continue;
    for (int row = 0; row < s.shown_count; ++row) {
      const Shown& shown = s.shown[row];
      if (shown.symbol != trade.symbol || shown.direction != trade.direction) continue;
      for (int size = kSizes - 1; size >= 0; --size) {
        const double usd = entry_size(s.book, s.config, size);
        if (is_accepted(s.book, s.config, usd)) return kFirstEntry + size * kShown + row;
      }
    }
  }
  return 0;
}

}  // namespace

std::vector<PlannedTrade> plan_position(const Funding& env, const Window& window,
                                        const std::vector<PlannedTrade>& taken) {
  return Planner(env, window, taken).plan();
}

Window trade_with_hindsight(const Funding& env, const Window& window) {
  std::vector<PlannedTrade> plan;
  for (int i = 0; i < window.config.max_positions; ++i) {
    const auto more = plan_position(env, window, plan);
    plan.insert(plan.end(), more.begin(), more.end());
  }
  Funding::State s{};
  env.begin(s, window.begin, window.config);
  Rng unused;
  Outcome outcome;
  Window traded = window;
  traded.actions.clear();
  for (int step = 0; !outcome.terminated && !outcome.truncated; ++step) {
    const int32_t action = action_of(s, plan, step);
    outcome = env.step(s, ActionRow(&action), unused);
    traded.actions.push_back(action);
  }
  traded.book = s.book;
  traded.pnl_pct = 100 * (equity_of(s.book) - env.initial_capital()) / env.initial_capital();
  return traded;
}

}  // namespace flotilla::funding
