// A hedged pair: the same coin bought on one venue and sold on the other. What it costs, earns and
// is worth, by two sets of rules.
//
// fixed: both legs hold q = S / mean entry price coins, so that a move of both prices earns
// nothing;
//   fees are a part of q x price, in and out, and the value of a pair is what closing it now would
//   leave: the fee of its exit is in it from the first moment.
// era: the rules of the earlier system, for its numbers. Each leg holds S / its own entry price,
// fees
//   are a part of S, the fee of the exit appears when the pair closes, and a pair that crosses its
//   liquidation price lives on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace flotilla::funding {

constexpr int kLong = 0, kShort = 1, kLegs = 2;
constexpr int kHour = 3600;  // seconds

struct Rules {
  bool fixed;
  double fee;  // of each leg, in and out
};
constexpr Rules kEra = {.fixed = false, .fee = 0.0002};
constexpr Rules kFixed = {.fixed = true, .fee = 0.00055};

// By leg, of one moment.
struct LegQuotes {
  double price[kLegs];
  double rate[kLegs];  // of funding, a part of the notional at each payment; longs pay it to shorts
  uint8_t hours[kLegs];  // between payments, which are aligned to midnight
};

// Of the first payment at or after a moment, both in seconds of the market.
constexpr int32_t payment_from(int32_t now, int hours) {
  const int32_t interval = hours * kHour;
  return (now + interval - 1) / interval * interval;
}
constexpr bool is_payment(int32_t now, int hours) { return now % (hours * kHour) == 0; }

struct Pair {
  double size;  // S: USD per side at entry
  double quantity[kLegs], entry[kLegs], liquidation[kLegs];
  double price[kLegs], rate[kLegs];  // now
  double funding[kLegs];             // received so far
  double entry_fee;
  double value;         // unrealised profit
  float entry_apr;      // percent, as it was shown
  int32_t entered;      // seconds of the market
  int32_t next[kLegs];  // of the next payment
  uint16_t symbol;
  uint8_t direction;     // market/market.h
  uint8_t hours[kLegs];  // between payments
};

// Profit of the prices alone.
inline double leg_profit(const Pair& p, int leg) {
  const double moved = p.quantity[leg] * (p.price[leg] - p.entry[leg]);
  return leg == kLong ? moved : -moved;
}
inline double price_profit(const Pair& p) { return leg_profit(p, kLong) + leg_profit(p, kShort); }
inline double funding_of(const Pair& p) { return p.funding[kLong] + p.funding[kShort]; }

// Of closing it at the present prices.
inline double exit_fee(const Pair& p, const Rules& rules) {
  if (!rules.fixed) return p.entry_fee;
  return rules.fee * (p.quantity[kLong] * p.price[kLong] + p.quantity[kShort] * p.price[kShort]);
}

inline double unrealised(const Pair& p, const Rules& rules) {
  const double value = price_profit(p) + funding_of(p) - p.entry_fee;
  return rules.fixed ? value - exit_fee(p, rules) : value;
}
inline double realised(const Pair& p, const Rules& rules) {
  return rules.fixed ? p.value : p.value - exit_fee(p, rules);
}

inline double percent(const Pair& p, double usd) { return 100 * usd / (2 * p.size); }
inline double hours_held(const Pair& p, int32_t now) {
  return static_cast<double>(now - p.entered) / kHour;
}

// What the rates of now would pay in 8 hours, in percent of S.
inline double percent_of_8h(const double rate[kLegs], const uint8_t hours[kLegs]) {
  return 100 * (rate[kShort] * 8 / hours[kShort] - rate[kLong] * 8 / hours[kLong]);
}
// The same in percent of a year.
inline double apr_of(const double rate[kLegs], const uint8_t hours[kLegs]) {
  constexpr double kPerYear = 3 * 365;
  return kPerYear * percent_of_8h(rate, hours);
}

// How far the nearer price is from liquidation, as a part of it. Past it, the era sees it grow.
inline double liquidation_distance(const Pair& p, const Rules& rules) {
  const double below = (p.price[kLong] - p.liquidation[kLong]) / p.price[kLong];
  const double above = (p.liquidation[kShort] - p.price[kShort]) / p.price[kShort];
  return rules.fixed ? std::min(below, above) : std::min(std::fabs(below), std::fabs(above));
}
inline bool is_liquidated(const Pair& p, const Rules& rules) {
  return rules.fixed &&
         (p.price[kLong] <= p.liquidation[kLong] || p.price[kShort] >= p.liquidation[kShort]);
}

// Pays what is due, at the rates that are known now: all that fell due since the last call. A
// payment is of the notional at entry.
inline void pay_funding(Pair& p, int32_t now) {
  for (int leg = 0; leg < kLegs; ++leg) {
    const double due = p.quantity[leg] * p.entry[leg] * p.rate[leg];
    for (; now >= p.next[leg]; p.next[leg] += p.hours[leg] * kHour) {
      p.funding[leg] += leg == kLong ? -due : due;
    }
  }
}

// What fell due by now was due by the schedule of before; the era keeps that of the entry.
inline void follow_schedule(Pair& p, const LegQuotes& quotes, int32_t now) {
  for (int leg = 0; leg < kLegs; ++leg) {
    if (p.hours[leg] == quotes.hours[leg]) continue;
    p.hours[leg] = quotes.hours[leg];
    p.next[leg] = payment_from(now + 1, p.hours[leg]);
  }
}

// Brings a pair to this moment.
inline void mark(Pair& p, const LegQuotes& quotes, int32_t now, const Rules& rules) {
  for (int leg = 0; leg < kLegs; ++leg) {
    p.price[leg] = quotes.price[leg];
    p.rate[leg] = quotes.rate[leg];
  }
  pay_funding(p, now);
  if (rules.fixed) follow_schedule(p, quotes, now);
  p.value = unrealised(p, rules);
}

// What an entry is about.
struct Entry {
  double size, leverage;
  LegQuotes quotes;
  float apr;
  int32_t now;
  uint16_t symbol;
  uint8_t direction;
};

inline Pair open_pair(const Entry& e, const Rules& rules) {
  constexpr double kLostAtLiquidation = 0.9;  // of the margin of a leg
  const double mean = (e.quotes.price[kLong] + e.quotes.price[kShort]) / 2;
  Pair p{};
  p.size = e.size;
  p.entry_fee = rules.fee * 2 * e.size;
  p.entry_apr = e.apr;
  p.entered = e.now;
  p.symbol = e.symbol;
  p.direction = e.direction;
  for (int leg = 0; leg < kLegs; ++leg) {
    const double price = e.quotes.price[leg];
    const double move = leg == kLong ? -kLostAtLiquidation : kLostAtLiquidation;
    p.entry[leg] = p.price[leg] = price;
    p.quantity[leg] = e.size / (rules.fixed ? mean : price);
    p.liquidation[leg] = price * (1 + move / e.leverage);
    p.rate[leg] = e.quotes.rate[leg];
    p.hours[leg] = e.quotes.hours[leg];
    p.next[leg] = payment_from(e.now + 1, p.hours[leg]);  // one at this moment is not earned
  }
  // The era sees the fee of the entry with the first change of value.
  p.value = rules.fixed ? unrealised(p, rules) : 0;
  return p;
}

}  // namespace flotilla::funding
