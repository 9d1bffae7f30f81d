#include "flotilla/domains/funding/market/synthetic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/core/system.h"
#include "flotilla/core/thread_pool.h"

namespace flotilla::funding {
namespace {

constexpr int64_t kBegin = 1'756'684'800;  // 2025-09-01, midnight UTC

double log_uniform(Rng& rng, double low, double high) {
  return low * std::pow(high / low, rng.uniform());
}

// Two standard normal numbers: Box and Muller (1958), both of them.
std::pair<double, double> normals(Rng& rng) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - rng.uniform()));
  const double angle = 2.0 * std::numbers::pi * rng.uniform();
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Heavy tails with variance 1: Student's t with 3 degrees of freedom.
double heavy(Rng& rng) {
  const auto [a, b] = normals(rng);
  const auto [c, d] = normals(rng);
  return a / std::sqrt(b * b + c * c + d * d);
}

// How much is left after a step of what halves in so many steps.
double kept_of(double half_life_steps) { return std::exp2(-1 / half_life_steps); }

// A number that comes back to 0: an Ornstein-Uhlenbeck process in steps of fixed length.
class Reverting {
 public:
  Reverting(double half_life_steps, double deviation)
      : kept_(kept_of(half_life_steps)), noise_(deviation * std::sqrt(1 - kept_ * kept_)) {}
  double step(double normal, double louder = 1) {
    return value_ = kept_ * value_ + louder * noise_ * normal;
  }

 private:
  double kept_, noise_, value_ = 0;
};

// A number that jumps and fades.
class Fading {
 public:
  explicit Fading(double half_life_steps) : kept_(kept_of(half_life_steps)) {}
  void jump(double by) { value_ += by; }
  double step() { return value_ *= kept_; }

 private:
  double kept_, value_ = 0;
};

int draw_interval(Rng& rng) {
  const double draw = rng.uniform();
  return draw < 0.45 ? 1 : draw < 0.80 ? 4 : draw < 0.98 ? 8 : 2;
}

// A time in which one venue's funding is rich, and the gap between the venues restless.
struct Spell {
  int hours_left = 0;
  double rate[kVenues] = {};  // per hour, on top
  double louder = 1;
};

// The constants are such that the pooled signals have the moments of a real market: a test compares
// them.
class Coin {
 public:
  Coin(const SyntheticOptions& options, int symbol)
      : rng_(options.seed, stream_of(Purpose::kEnv, kStream + static_cast<uint64_t>(symbol))) {
    price_ = log_uniform(rng_, 0.006, 30);
    volatility_ = log_uniform(rng_, 0.03, 0.25) / std::sqrt(kStepsPerDay);
    const double gap_hours = log_uniform(rng_, 2, 12);
    noise_ = Reverting(gap_hours * kStepsPerHour, log_uniform(rng_, 0.0003, 0.001));
    closing_ = Fading(log_uniform(rng_, 1, 8) * kStepsPerHour);
    aside_ = Fading(log_uniform(rng_, 1, 48) * kStepsPerHour);
    const double wildness = log_uniform(rng_, 1e-5, 6e-4);  // of rates per hour
    common_ = Reverting(log_uniform(rng_, 6, 48), wildness);
    for (int venue = 0; venue < kVenues; ++venue) {
      hours_[venue] = static_cast<uint8_t>(draw_interval(rng_));
      own_[venue] = Reverting(log_uniform(rng_, 1, 3), wildness);
    }
    next_hour();
  }

  void write(std::span<Cell> column) {
    for (size_t t = 0; t < column.size(); ++t) {
      if (t % kStepsPerHour == 1) next_hour();  // what was shown until now has been paid
      next_step();
      Cell& cell = column[t];
      cell.quote.price[0] = price_;
      cell.quote.price[1] = price_ * (1 + gap_);
      for (int venue = 0; venue < kVenues; ++venue) {
        cell.quote.rate[venue] = rate_[venue];
        cell.hours[venue] = hours_[venue];
      }
    }
  }

 private:
  // Streams that no env has.
  static constexpr uint64_t kStream = uint64_t{1} << 47U;
  static constexpr double kQuietRate = 1.25e-5;  // per hour
  static constexpr double kLargestRate = 0.02;   // at a payment: the venues cap it
  static constexpr double kRichRate = 8e-3;      // per hour: poorer spells are paid back less
  static constexpr double kSpellsPerHour = 1.0 / 120;
  static constexpr double kMostPaidBack = 0.05;  // of the price
  static constexpr double kLargestGap = 0.3;

  void next_hour() {
    if (spell_.hours_left > 0) {
      if (--spell_.hours_left == 0) spell_ = {};
    } else if (rng_.chance(kSpellsPerHour)) {
      begin_spell();
    }
    const double common = common_.step(heavy(rng_));
    for (int venue = 0; venue < kVenues; ++venue) {
      const double own = own_[venue].step(heavy(rng_));
      const double hourly = kQuietRate + common + own + spell_.rate[venue];
      rate_[venue] = std::clamp(hourly * hours_[venue], -kLargestRate, kLargestRate);
    }
  }

  // The gap opens with the spell: who comes for the rich rate buys the dearer side, and gives some
  // of what he earns back while it closes.
  void begin_spell() {
    spell_.hours_left = static_cast<int>(std::lround(log_uniform(rng_, 2, 18)));
    const int venue = static_cast<int>(rng_.below(kVenues));
    const double sign = rng_.chance(0.7) ? -1 : 1;
    const double rate = log_uniform(rng_, 1e-4, 1.3e-2);
    spell_.rate[venue] = sign * rate;
    spell_.louder = log_uniform(rng_, 1, 100);
    const double earned = rate * spell_.hours_left * std::min(rate / kRichRate, 1.0);
    const double paid_back = std::min(rng_.uniform(1, 2) * earned, kMostPaidBack);
    closing_.jump((venue == 1 ? -sign : sign) * paid_back);
  }

  void next_step() {
    const auto [coin, gap] = normals(rng_);
    double move = volatility_ * coin;
    if (rng_.chance(0.3 / kStepsPerDay)) move += 0.06 * rng_.normal();
    price_ *= std::exp(move);
    if (rng_.chance(1.5 / kStepsPerDay)) aside_.jump(0.011 * heavy(rng_));
    gap_ = std::clamp(aside_.step() + closing_.step() + noise_.step(gap, spell_.louder),
                      -kLargestGap, kLargestGap);
  }

  Rng rng_;
  double price_, volatility_;
  uint8_t hours_[kVenues];
  Reverting noise_{1, 0}, common_{1, 0}, own_[kVenues] = {{1, 0}, {1, 0}};
  Fading closing_{1}, aside_{1};
  Spell spell_;
  double gap_ = 0;
  double rate_[kVenues] = {};
};

std::vector<std::string> symbol_names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("COIN{:03}USDT", i));
  return names;
}

}  // namespace

Market make_market(const SyntheticOptions& options) {
  Market market(options.days * kStepsPerDay, symbol_names(options.symbols), kBegin);
  ThreadPool pool(std::min(cpu_count(), options.symbols));
  std::vector<std::vector<Cell>> columns(static_cast<size_t>(pool.threads()));
  pool.for_each(options.symbols, [&](int thread, int symbol) {
    std::vector<Cell>& column = columns[static_cast<size_t>(thread)];
    column.resize(static_cast<size_t>(market.times()));
    Coin(options, symbol).write(column);
    add_signals(column);
    market.set_column(symbol, column);
  });
  return market;
}

}  // namespace flotilla::funding
