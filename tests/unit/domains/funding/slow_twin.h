// The environment once more, as plainly as it can be written: no tables made before, no marks kept,
// every number computed from prices, rates and the list of what was done. For comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "flotilla/domains/funding/funding_env.h"

namespace flotilla::funding {

class SlowTwin {
 public:
  struct Trade {
    int symbol, direction;
    double S, L, e_l, e_s, p_l, p_s, r_l, r_s;
    int h_l, h_s;
    long entered, next_l, next_s;
    double funding_l = 0, funding_s = 0;
    double U = 0, apr = 0;
  };
  struct Opportunity {
    int symbol, direction;
    double apr;
  };

  SlowTwin(const Market& market, const Scaler& scaler, bool fixed, const Funding::State& first)
      : market_(market),
        scaler_(scaler),
        fixed_(fixed),
        fee_(fixed ? 0.00055 : 0.0002),
        config_(first.config),
        now_(first.begin),
        end_(first.end) {
    find_opportunities();
  }

  double step(int action) {
    const double before = equity();
    const double funding_before = last_funding_;
    if (action >= 31) {
      if (static_cast<size_t>(action - 31) < open_.size()) close(static_cast<size_t>(action - 31));
    } else if (action > 0) {
      enter((action - 1) % 10, (action - 1) / 10);
    }
    now_ += 300;
    double change = 0;
    for (Trade& trade : open_) {
      const double old = trade.U;
      update(trade);
      change += trade.U - old;
    }
    for (size_t i = 0; i < open_.size();) {
      const Trade& t = open_[i];
      const bool crossed =
          fixed_ && (t.p_l <= t.e_l * (1 - 0.9 / t.L) || t.p_s >= t.e_s * (1 + 0.9 / t.L));
      if (crossed || t.U / (2 * t.S) < config_.stop_loss) {
        close(i);
      } else {
        ++i;
      }
    }
    double distance = 1, funding = 0;
    for (const Trade& t : open_) {
      distance = std::min(distance, distance_of(t));
      funding += t.funding_l + t.funding_s;
    }
    last_funding_ = funding;
    const double penalty =
        distance < config_.liquidation_buffer ? 10 * (config_.liquidation_buffer - distance) : 0;
    double reward = 0;
    if (fixed_) {
      reward = 100 * (equity() - before) / 10'000;
      note_peak(equity());
    } else {
      const double f = funding - funding_before, g = change - f;
      reward = 100 * f / 10'000 + 100 * g / 10'000;
    }
    const bool over = now_ >= end_;
    if (over) close_all();
    terminated = drawdown_ >= 25 || equity() < 5000;
    truncated = over && !terminated;
    if (terminated) close_all();
    find_opportunities();
    return reward - penalty;
  }

  std::vector<double> observe() const {
    std::vector<double> obs = {config_.leverage, config_.utilization,
                               static_cast<double>(config_.max_positions), config_.stop_loss,
                               config_.liquidation_buffer};
    double distance = 1, used = 0;
    for (const Trade& t : open_) {
      distance = std::min(distance, distance_of(t));
      used += 2 * t.S;
    }
    obs.push_back(static_cast<double>(open_.size()) / config_.max_positions);
    obs.push_back(distance);
    obs.push_back(used / capital_);
    for (size_t i = 0; i < 5; ++i) {
      const std::vector<double> slot =
          i < open_.size() ? slot_of(open_[i]) : std::vector<double>(17);
      obs.insert(obs.end(), slot.begin(), slot.end());
    }
    for (size_t i = 0; i < 10; ++i) {
      std::vector<double> row(11);
      const bool there = i < shown_.size();
      if (there) row = features(shown_[i].symbol, shown_[i].direction);
      for (size_t k = 0; k < 11; ++k) {
        const bool scaled = there || !fixed_;
        obs.push_back(scaled ? (row[k] - scaler_.mean[k]) / scaler_.deviation[k] : 0);
      }
    }
    return obs;
  }

  std::vector<int> mask() const {
    std::vector<int> open(36, 0);
    open[0] = 1;
    for (int size = 0; size < 3; ++size) {
      for (size_t i = 0; i < shown_.size(); ++i) {
        bool allowed =
            open_.size() < static_cast<size_t>(config_.max_positions) && !held(shown_[i].symbol);
        if (fixed_) allowed = allowed && fits(size_of(size));
        open[static_cast<size_t>(1 + 10 * size) + i] = allowed;
      }
    }
    for (size_t i = 0; i < open_.size(); ++i) open[31 + i] = 1;
    return open;
  }

  double capital() const { return capital_; }
  bool terminated = false, truncated = false;

 private:
  // The grid time nearest to now, the earlier of two.
  int nearest() const {
    const int first = static_cast<int>(now_ / 300);
    return std::labs(300L * (first + 1) - now_) < std::labs(300L * first - now_) ? first + 1
                                                                                 : first;
  }
  int snapshot() const {
    int t = static_cast<int>(now_ / 300);
    while (300L * t < now_) ++t;
    return t;
  }
  double price(int symbol, int venue) const {
    return market_.at(nearest(), symbol).quote.price[venue];
  }
  double rate(int symbol, int venue) const {
    const Cell& cell = market_.at(nearest(), symbol);
    const bool paid = 300L * nearest() % (3600L * cell.hours[venue]) == 0;
    return fixed_ || paid ? cell.quote.rate[venue] : 0;
  }

  void update(Trade& t) const {
    const int long_venue = t.direction == 0 ? 0 : 1, short_venue = 1 - long_venue;
    t.p_l = price(t.symbol, long_venue);
    t.p_s = price(t.symbol, short_venue);
    t.r_l = rate(t.symbol, long_venue);
    t.r_s = rate(t.symbol, short_venue);
    const double mean = (t.e_l + t.e_s) / 2;
    while (now_ >= t.next_l) {
      t.funding_l -= (fixed_ ? t.S / mean * t.e_l : t.S) * t.r_l;
      t.next_l += 3600L * t.h_l;
    }
    while (now_ >= t.next_s) {
      t.funding_s += (fixed_ ? t.S / mean * t.e_s : t.S) * t.r_s;
      t.next_s += 3600L * t.h_s;
    }
    if (fixed_) {
      change_interval(t.symbol, long_venue, t.h_l, t.next_l);
      change_interval(t.symbol, short_venue, t.h_s, t.next_s);
    }
    t.U = price_pnl(t) + t.funding_l + t.funding_s - 2 * t.S * fee_ - (fixed_ ? exit_fee(t) : 0);
  }

  void change_interval(int symbol, int venue, int& hours, long& next) const {
    const int newest = market_.at(nearest(), symbol).hours[venue];
    if (newest == hours) return;
    hours = newest;
    for (next = 0; next <= now_;) next += 3600L * hours;
  }

  double price_pnl(const Trade& t) const { return long_pnl(t) + short_pnl(t); }
  double long_pnl(const Trade& t) const {
    return t.S * (t.p_l - t.e_l) / (fixed_ ? (t.e_l + t.e_s) / 2 : t.e_l);
  }
  double short_pnl(const Trade& t) const {
    return t.S * (t.e_s - t.p_s) / (fixed_ ? (t.e_l + t.e_s) / 2 : t.e_s);
  }
  double exit_fee(const Trade& t) const {
    return fixed_ ? fee_ * t.S * (t.p_l + t.p_s) / ((t.e_l + t.e_s) / 2) : fee_ * 2 * t.S;
  }
  double distance_of(const Trade& t) const {
    const double liq_l = t.e_l * (1 - 0.9 / t.L), liq_s = t.e_s * (1 + 0.9 / t.L);
    return std::min(std::fabs(t.p_l - liq_l) / t.p_l, std::fabs(liq_s - t.p_s) / t.p_s);
  }
  double equity() const {
    double sum = capital_;
    for (const Trade& t : open_) sum += t.U;
    return sum;
  }
  bool held(int symbol) const {
    return std::any_of(open_.begin(), open_.end(),
                       [&](const Trade& t) { return t.symbol == symbol; });
  }
  double available() const {
    double margin = capital_;
    for (const Trade& t : open_) margin -= 2 * t.S / config_.leverage;
    return margin;
  }
  double size_of(int size) const {
    double S = available() * config_.leverage * config_.utilization / config_.max_positions *
               (0.1 + 0.1 * size);
    if (2 * S / config_.leverage > available()) S = available() * config_.leverage / 2;
    return S;
  }
  bool fits(double S) const {
    return S > 0 && 2 * S / config_.leverage <= available() && S <= 0.333 * capital_;
  }

  void enter(int row, int size) {
    const double S = size_of(size);
    if (static_cast<size_t>(row) >= shown_.size() || held(shown_[static_cast<size_t>(row)].symbol))
      return;
    if (open_.size() >= static_cast<size_t>(config_.max_positions) || !fits(S)) return;
    const Opportunity& o = shown_[static_cast<size_t>(row)];
    const int long_venue = o.direction == 0 ? 0 : 1, short_venue = 1 - long_venue;
    const Cell& cell = market_.at(nearest(), o.symbol);
    Trade t{o.symbol,
            o.direction,
            S,
            config_.leverage,
            price(o.symbol, long_venue),
            price(o.symbol, short_venue),
            0,
            0,
            0,
            0,
            cell.hours[long_venue],
            cell.hours[short_venue],
            now_,
            0,
            0};
    while (t.next_l <= now_) t.next_l += 3600L * t.h_l;
    while (t.next_s <= now_) t.next_s += 3600L * t.h_s;
    t.apr = o.apr;
    t.p_l = t.e_l;
    t.p_s = t.e_s;
    if (fixed_) t.U = -4 * S * fee_;
    open_.push_back(t);
  }

  void close(size_t i) {
    capital_ += open_[i].U - (fixed_ ? 0 : exit_fee(open_[i]));
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    if (!fixed_) note_peak(capital_);
  }
  void close_all() {
    while (!open_.empty()) close(0);
  }
  void note_peak(double worth) {
    peak_ = std::max(peak_, worth);
    drawdown_ = std::max(drawdown_, 100 * (peak_ - worth) / peak_);
  }

  double apr_of(int symbol, int direction) const { return features(symbol, direction)[3]; }
  std::vector<double> features(int symbol, int direction) const {
    const Features row = features_of(market_.at(snapshot(), symbol).signals, direction);
    return {row.begin(), row.end()};
  }

  void find_opportunities() {
    std::vector<Opportunity> all;
    for (int symbol = 0; symbol < market_.symbols(); ++symbol) {
      for (int direction = 0; direction < 2; ++direction) {
        if (market_.at(snapshot(), symbol).listed[direction] == 0) continue;
        all.push_back({symbol, direction, apr_of(symbol, direction)});
      }
    }
    const auto by_apr = [](const Opportunity& a, const Opportunity& b) { return a.apr > b.apr; };
    std::stable_sort(all.begin(), all.end(), by_apr);
    shown_.clear();
    if (fixed_) {
      for (const Trade& t : open_)
        shown_.push_back({t.symbol, t.direction, apr_of(t.symbol, t.direction)});
    }
    for (const Opportunity& o : all) {
      const bool known = std::any_of(shown_.begin(), shown_.end(), [&](const Opportunity& other) {
        return other.symbol == o.symbol;
      });
      if (shown_.size() < 10 && !(fixed_ && known)) shown_.push_back(o);
    }
    std::stable_sort(shown_.begin(), shown_.end(), by_apr);
  }

  std::vector<double> slot_of(const Trade& t) const {
    double apr = 0, best = shown_.empty() ? 0 : shown_[0].apr;
    for (size_t i = shown_.size(); i-- > 0;) {
      if (shown_[i].symbol == t.symbol) apr = shown_[i].apr;
    }
    const double percent = 100 * t.U / (2 * t.S),
                 hours = static_cast<double>(now_ - t.entered) / 3600;
    const auto clip = [](double x, double low, double high) {
      return std::min(std::max(x, low), high);
    };
    const double ratio = t.apr == 0 ? 1 : apr / t.apr;
    std::vector<double> slot(17);
    slot[0] = 1;
    slot[1] = percent / 100;
    slot[2] = std::log(hours + 1) / std::log(73.0);
    slot[3] = price_pnl(t) / (2 * t.S) / (fixed_ ? 1 : 100);
    slot[5] = -t.r_l * 8 / t.h_l + t.r_s * 8 / t.h_s;
    slot[7] = std::fabs(t.p_l - t.p_s) / ((t.p_l + t.p_s) / 2);
    slot[9] = distance_of(t);
    slot[10] = clip(ratio, 0, 3) / 3;
    slot[11] = clip(apr, -5000, 5000) / 5000;
    slot[12] = clip(best, -5000, 5000) / 5000;
    slot[13] = slot[11] - slot[12];
    slot[14] = hours > 0 ? clip(percent / hours, -50, 50) / 50 : 0;
    slot[15] = 2 * t.S / capital_;
    slot[16] = (100 * long_pnl(t) / t.S - 100 * short_pnl(t) / t.S) / 200;
    return slot;
  }

  const Market& market_;
  const Scaler& scaler_;
  const bool fixed_;
  const double fee_;
  const TradingConfig config_;
  long now_, end_;
  double capital_ = 10'000, peak_ = 10'000, drawdown_ = 0, last_funding_ = 0;
  std::vector<Trade> open_;
  std::vector<Opportunity> shown_;
};

}  // namespace flotilla::funding
