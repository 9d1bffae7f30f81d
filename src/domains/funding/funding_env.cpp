#include "flotilla/domains/funding/funding_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "flotilla/core/error.h"

namespace flotilla::funding {
namespace {

constexpr double kMostDrawdown = 25;  // percent, at which an episode ends
constexpr double kLeastEquity = 0.5;  // of the first capital
constexpr double kLongestDays = 100;

Part part_named(const std::string& name) {
  return name == "train" ? Part::kTrain : name == "test" ? Part::kTest : Part::kValidation;
}

// 1 at both ends of the range.
float clipped(double value, double most) {
  return static_cast<float>(std::clamp(value, -most, most) / most);
}

bool is_interval(uint8_t hours) { return hours == 1 || hours == 2 || hours == 4 || hours == 8; }

void append_shown(Funding::State& s, const Row& row, int rank) {
  s.shown[s.shown_count++] = {.apr = row.apr,
                              .symbol = row.symbol,
                              .direction = row.direction,
                              .rank = static_cast<uint8_t>(rank)};
}

// The place of a row on the board, or kRanked.
int rank_of(const Ranking& ranking, uint16_t symbol, uint8_t direction) {
  for (int i = 0; i < ranking.count; ++i) {
    if (ranking.rows[i].symbol == symbol && ranking.rows[i].direction == direction) return i;
  }
  return kRanked;
}

// Where it belongs by its APR.
void insert_shown(Funding::State& s, const Shown& row) {
  int at = s.shown_count++;
  for (; at > 0 && s.shown[at - 1].apr < row.apr; --at) s.shown[at] = s.shown[at - 1];
  s.shown[at] = row;
}

}  // namespace

Schema Funding::schema() {
  Schema schema;
  schema
      .choice("rules", "fixed", {"fixed", "era"},
              "era: accounting, reward and observation of the earlier system, faults included")
      .choice("levels", "train", {"train", "validation", "test"},
              "which part of the days the windows are drawn from")
      .number("episode_days", 5, {0.01, kLongestDays}, "of an episode, in steps of 5 minutes")
      .number("initial_capital", 10'000, {1, 1e9}, "in USD")
      .number("funding_scale", 1, {0, 100}, "of funding in the reward of rules=era")
      .number("price_scale", 1, {0, 100}, "of price profits in the reward of rules=era")
      .number("liquidation_scale", 10, {0, 100},
              "penalty for each step and unit of distance below liquidation_buffer");
  TradingSettings::add_to(schema);
  TableOptions::add_to(schema);
  return schema;
}

void Funding::fill_in(Config& config) {
  const TableOptions options = TableOptions::from(config);
  const auto market = shared_market(options);
  if (options.scaler.empty()) {
    const Times times = options.split.times_of(Part::kTrain, market->times());
    config.set("scaler", to_text(fit_scaler(*market, times)));
  }
  if (config.get_text("trained_on").empty()) {
    config.set("trained_on", period_text(Funding(config).period(*market)));
  }
}

Funding::Funding(const Config& config)
    : rules_(config.get_text("rules") == "era" ? kEra : kFixed),
      trading_(config),
      part_(part_named(config.get_text("levels"))),
      steps_(std::max(
          static_cast<int>(std::lround(config.get_number("episode_days") * kStepsPerDay)), 1)),
      capital_(config.get_number("initial_capital")),
      funding_scale_(config.get_number("funding_scale")),
      price_scale_(config.get_number("price_scale")),
      liquidation_scale_(config.get_number("liquidation_scale")) {
  if (rules_.fixed && (funding_scale_ != 1 || price_scale_ != 1)) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: is a key of rules=era; expected 1, got {:g}",
                            funding_scale_ != 1 ? "funding_scale" : "price_scale",
                            funding_scale_ != 1 ? funding_scale_ : price_scale_));
  }
  const TableOptions options = TableOptions::from(config);
  split_ = options.split;
  tables_ = shared_tables(options);
  // What is wrong with files is said at once; a made-up market can wait until it is needed.
  require_windows(options.data.empty() ? options.synthetic.days * kStepsPerDay
                                       : shared_market(options)->times());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  spec_.name = "funding";
  spec_.obs = ObsSpace::float32({kObserved}, -kInfinity, kInfinity);
  spec_.action = ActionSpace::discrete(kActions);
  spec_.has_mask = true;
  spec_.time_limit = steps_;
  spec_.metrics = {"pnl_pct", "drawdown_pct", "trades",    "win_rate",     "funding",
                   "fees",    "price_pnl",    "trade_pct", "liquidations", "stops"};
  spec_.headline = "pnl_pct";
}

Times Funding::part_times(int times) const { return split_.times_of(part_, times); }

Period Funding::period(const Market& market) const {
  const Times part = part_times(market.times());
  const auto second = [&market](int time) { return market.begin() + int64_t{time} * kStepSeconds; };
  return {second(part.begin), second(part.end - 1)};
}

// The era keeps a day behind every window.
void Funding::require_windows(int times) const {
  const int needed = steps_ + (rules_.fixed ? 1 : kStepsPerDay + 1);
  const Times part = part_times(times);
  if (part.size() >= needed) return;
  constexpr const char* kParts[] = {"train", "validation", "test"};
  throw Error(
      ErrorCode::kUsage,
      fmt::format("episode_days: levels={} has {:.2f} days, an episode of {:.2f} needs {:.2f}; "
                  "split.train, split.validation and split.embargo_days part the days",
                  kParts[static_cast<int>(part_)], part.size() / double{kStepsPerDay},
                  steps_ / double{kStepsPerDay}, needed / double{kStepsPerDay}));
}

// On the grid; the era's windows begin at any second.
int32_t Funding::draw_begin(Rng& g) const {
  const Times part = part_times(tables().market.times());
  if (rules_.fixed) {
    const auto starts = static_cast<uint32_t>(part.size() - steps_);
    return (part.begin + static_cast<int32_t>(g.below(starts))) * kStepSeconds;
  }
  const auto seconds = static_cast<uint32_t>(part.size() - steps_ - kStepsPerDay) * kStepSeconds;
  return part.begin * kStepSeconds + static_cast<int32_t>(g.below(seconds));
}

// The nearest one. The last times of a market have none behind them.
int Funding::price_time(int32_t now) const {
  return rules_.fixed ? now / kStepSeconds : (now + kStepSeconds / 2 - 1) / kStepSeconds;
}

int Funding::row_time(int32_t now) const { return (now + kStepSeconds - 1) / kStepSeconds; }

LegQuotes Funding::quotes_at(int32_t now, int symbol, int direction) const {
  const Market& market = tables().market;
  const int time = price_time(now);
  LegQuotes quotes = market.quotes(time, symbol, direction);
  if (rules_.fixed) return quotes;
  // The era took the 0 between two payments of the price history for a rate.
  for (int leg = 0; leg < kLegs; ++leg) {
    if (!is_payment(time * kStepSeconds, quotes.hours[leg])) quotes.rate[leg] = 0;
  }
  return quotes;
}

void Funding::reset(State& s, Rng& g) const {
  const TradingConfig config = trading_.draw(g);
  begin(s, draw_begin(g), config);
}

void Funding::begin(State& s, int32_t at, const TradingConfig& config) const {
  s = {};
  s.book = new_portfolio(capital_);
  s.config = config;
  s.begin = s.now = at;
  s.end = at + steps_ * kStepSeconds;
  show_rows(s);
}

Outcome Funding::step(State& s, ActionRow action, Rng&) const {
  const double equity_before = s.book.equity;
  act(s, action.discrete());
  s.now += kStepSeconds;
  const double change = mark_pairs(s);
  close_breached(s.book, s.config, rules_);
  settle(s.book, rules_);
  Outcome outcome;
  outcome.reward = static_cast<float>(reward(s, equity_before, change));
  const bool over = s.now >= s.end;
  if (over) close_all(s.book, rules_);
  outcome.terminated =
      s.book.max_drawdown >= kMostDrawdown || equity_of(s.book) < kLeastEquity * capital_;
  outcome.truncated = over && !outcome.terminated;
  if (outcome.terminated) close_all(s.book, rules_);
  show_rows(s);
  if (!over) fetch_ahead(s);
  return outcome;
}

// Of many environments, each is somewhere else in the market: what the next step reads is on its
// way to the cache while the others step.
void Funding::fetch_ahead(const State& s) const {
  constexpr size_t kLine = 64;
  const auto fetch = [](const auto& object) {
    const auto* bytes = reinterpret_cast<const char*>(&object);
    for (size_t at = 0; at < sizeof(object); at += kLine) __builtin_prefetch(bytes + at);
  };
  const Tables& all = tables();
  const int next = row_time(s.now + kStepSeconds);
  fetch(all.board.at(next));
  for (int i = 0; i < s.book.count; ++i) fetch(all.market.at(next, s.book.pairs[i].symbol));
}

// What is refused changes nothing.
void Funding::act(State& s, int action) const {
  if (action >= kFirstExit) {
    if (action - kFirstExit < s.book.count) close_pair(s.book, action - kFirstExit, rules_);
  } else if (const auto pair = opened_by(s, action)) {
    s.book.pairs[s.book.count++] = *pair;
  }
}

Entry Funding::entry_at(int32_t now, uint16_t symbol, uint8_t direction) const {
  Entry entry{};
  entry.quotes = quotes_at(now, symbol, direction);
  entry.now = now;
  entry.symbol = symbol;
  entry.direction = direction;
  return entry;
}

std::optional<Pair> Funding::opened_by(const State& s, int action) const {
  const int row = (action - kFirstEntry) % kShown, size = (action - kFirstEntry) / kShown;
  if (action < kFirstEntry || action >= kFirstExit || row >= s.shown_count) return std::nullopt;
  const Shown& shown = s.shown[row];
  const double usd = entry_size(s.book, s.config, size);
  if (s.book.holds(shown.symbol) || !is_accepted(s.book, s.config, usd)) return std::nullopt;
  // The pair is marked there right away: both cells are on their way at once.
  __builtin_prefetch(&tables().market.at(price_time(s.now + kStepSeconds), shown.symbol));
  Entry entry = entry_at(s.now, shown.symbol, shown.direction);
  entry.size = usd;
  entry.leverage = s.config.leverage;
  entry.apr = shown.apr;
  return open_pair(entry, rules_);
}

// By how much the value of open pairs changes.
double Funding::mark_pairs(State& s) const {
  double change = 0;
  for (int i = 0; i < s.book.count; ++i) {
    Pair& p = s.book.pairs[i];
    change -= p.value;
    mark(p, quotes_at(s.now, p.symbol, p.direction), s.now, rules_);
    change += p.value;
  }
  return change;
}

double Funding::reward(State& s, double equity_before, double change) const {
  const double near = s.config.liquidation_buffer - least_distance(s.book, rules_);
  const double penalty = near > 0 ? liquidation_scale_ * near : 0;
  const double per_usd = 100 / capital_;
  if (rules_.fixed) return per_usd * (s.book.equity - equity_before) - penalty;
  // A pair that closed takes its funding out of the sum: the era's reward moves it to the prices.
  const double now = open_funding(s.book);
  const double funding = now - s.funding_before;
  s.funding_before = now;
  return per_usd * (funding_scale_ * funding + price_scale_ * (change - funding)) - penalty;
}

void Funding::show_rows(State& s) const {
  s.shown_count = 0;
  const Ranking& ranking = tables().board.at(row_time(s.now));
  if (rules_.fixed && s.book.count > 0) {
    show_with_held(s, ranking);
  } else {
    show_best(s, ranking);
  }
}

void Funding::show_best(State& s, const Ranking& ranking) const {
  const int count = std::min<int>(ranking.count, kShown);
  for (int i = 0; i < count; ++i) append_shown(s, ranking.rows[i], i);
}

// Symbols that are held have a row in the direction that is held, listed or not.
void Funding::show_with_held(State& s, const Ranking& ranking) const {
  const Market& market = tables().market;
  for (int i = 0; i < ranking.count && s.shown_count + s.book.count < kShown; ++i) {
    if (!s.book.holds(ranking.rows[i].symbol)) append_shown(s, ranking.rows[i], i);
  }
  for (int i = 0; i < s.book.count; ++i) {
    const Pair& p = s.book.pairs[i];
    const float apr = apr_of_row(market.at(row_time(s.now), p.symbol), p.direction);
    insert_shown(s, {.apr = apr,
                     .symbol = p.symbol,
                     .direction = p.direction,
                     .rank = static_cast<uint8_t>(rank_of(ranking, p.symbol, p.direction))});
  }
}

void Funding::observe(const State& s, ObsRow row) const {
  float* out = row.f32().data();
  std::fill_n(out, kObserved, 0.0F);
  const TradingConfig& config = s.config;
  out[0] = static_cast<float>(config.leverage);
  out[1] = static_cast<float>(config.utilization);
  out[2] = static_cast<float>(config.max_positions);
  out[3] = static_cast<float>(config.stop_loss);
  out[4] = static_cast<float>(config.liquidation_buffer);
  out[5] = static_cast<float>(s.book.count) / static_cast<float>(config.max_positions);
  out[6] = static_cast<float>(least_distance(s.book, rules_));
  out[7] = static_cast<float>(total_size(s.book) / s.book.capital);
  for (int i = 0; i < s.book.count; ++i) {
    observe_pair(s, s.book.pairs[i], out + kFirstPair + i * kPairNumbers);
  }
  const Tables& all = tables();
  const int time = row_time(s.now);
  const Ranking& ranking = all.board.at(time);
  for (int i = 0; i < kShown; ++i) {
    float* features = out + kFirstRow + i * kFeatures;
    if (i >= s.shown_count) {
      // The era scaled empty rows like the others.
      if (!rules_.fixed) std::ranges::copy(all.scaler.scaled({}), features);
      continue;
    }
    const Shown& shown = s.shown[i];
    std::ranges::copy(
        shown.rank < kRanked
            ? ranking.rows[shown.rank].features
            : row_of(all.market, all.scaler, time, shown.symbol, shown.direction).features,
        features);
  }
}

void Funding::observe_pair(const State& s, const Pair& p, float* out) const {
  constexpr double kLog73 = 4.290459441148391;  // three days are 1
  constexpr double kMostApr = 5000, kMostRatio = 3, kMostPercent = 50;
  const auto first_of = [&s](uint16_t symbol) {
    for (int i = 0; i < s.shown_count; ++i) {
      if (s.shown[i].symbol == symbol) return s.shown[i].apr;
    }
    return 0.0F;  // the era may not show it
  };
  const double profit = percent(p, p.value), hours = hours_held(p, s.now);
  const double apr = static_cast<double>(first_of(p.symbol));
  const double best = s.shown_count > 0 ? static_cast<double>(s.shown[0].apr) : 0;
  const double entry_apr = static_cast<double>(p.entry_apr);
  const double ratio = entry_apr != 0 ? apr / entry_apr : 1;
  const double gap = std::fabs(p.price[kLong] - p.price[kShort]);
  out[0] = 1;
  out[1] = static_cast<float>(profit / 100);
  out[2] = static_cast<float>(std::log1p(hours) / kLog73);
  // The era divides the part by 100 as if it were percent.
  out[3] = static_cast<float>(percent(p, price_profit(p)) / (rules_.fixed ? 100 : 10'000));
  out[5] = static_cast<float>(percent_of_8h(p.rate, p.hours) / 100);
  out[7] = static_cast<float>(gap / ((p.price[kLong] + p.price[kShort]) / 2));
  out[9] = static_cast<float>(liquidation_distance(p, rules_));
  out[10] = static_cast<float>(std::clamp(ratio, 0.0, kMostRatio) / kMostRatio);
  out[11] = clipped(apr, kMostApr);
  out[12] = clipped(best, kMostApr);
  out[13] = out[11] - out[12];
  out[14] = hours > 0 ? clipped(profit / hours, kMostPercent) : 0.0F;
  out[15] = static_cast<float>(2 * p.size / s.book.capital);
  out[16] = static_cast<float>((leg_profit(p, kLong) - leg_profit(p, kShort)) / (2 * p.size));
}

void Funding::mask(const State& s, MaskRow m) const {
  std::ranges::fill(m, uint8_t{0});
  m[0] = 1;
  for (int size = 0; size < kSizes && s.book.count < s.config.max_positions; ++size) {
    // The era's mask does not know what is refused for its size.
    const double usd = entry_size(s.book, s.config, size);
    if (rules_.fixed && !is_accepted(s.book, s.config, usd)) continue;
    uint8_t* entries = m.data() + kFirstEntry + size * kShown;
    for (int i = 0; i < s.shown_count; ++i) entries[i] = !s.book.holds(s.shown[i].symbol);
  }
  std::fill_n(m.data() + kFirstExit, s.book.count, uint8_t{1});
}

void Funding::metrics(const State& s, MetricRow m) const {
  const Portfolio& book = s.book;
  const double trades = std::max(book.trades, 1);  // without any, all of these are 0
  m[0] = static_cast<float>(100 * (equity_of(book) - capital_) / capital_);
  m[1] = static_cast<float>(book.max_drawdown);
  m[2] = static_cast<float>(book.trades);
  m[3] = static_cast<float>(book.wins / trades);
  m[4] = static_cast<float>(book.funding);
  m[5] = static_cast<float>(book.fees);
  m[6] = static_cast<float>(book.price_profit);
  m[7] = static_cast<float>(book.trades > 0 ? 100 * (book.won - book.lost) / book.turnover : 0);
  m[8] = static_cast<float>(book.liquidations);
  m[9] = static_cast<float>(book.stops);
}

bool Funding::valid_pair(const State& s, const Pair& p) const {
  if (p.symbol >= tables().market.symbols() || p.direction >= kDirections) return false;
  if (p.entered < s.begin || p.entered >= s.now || !(p.size > 0)) return false;
  for (int leg = 0; leg < kLegs; ++leg) {
    if (!is_interval(p.hours[leg])) return false;
    if (p.next[leg] <= s.now || p.next[leg] > s.now + p.hours[leg] * kHour) return false;
  }
  return true;
}

bool Funding::valid(const State& s) const {
  const Market& market = tables().market;
  const Times part = part_times(market.times());
  if (s.begin < part.begin * kStepSeconds || s.end > (part.end - 1) * kStepSeconds) return false;
  if (int64_t{s.end} - s.begin != int64_t{steps_} * kStepSeconds) return false;
  if (s.now < s.begin || s.now >= s.end || (s.now - s.begin) % kStepSeconds != 0) return false;
  if (rules_.fixed && s.begin % kStepSeconds != 0) return false;
  if (!is_valid(s.config)) return false;
  if (s.book.count < 0 || s.book.count > s.config.max_positions) return false;
  if (s.shown_count < 0 || s.shown_count > kShown) return false;
  const Ranking& ranking = tables().board.at(row_time(s.now));
  for (int i = 0; i < s.shown_count; ++i) {
    const Shown& shown = s.shown[i];
    if (shown.symbol >= market.symbols() || shown.direction >= kDirections) return false;
    if (shown.rank != kRanked && shown.rank >= ranking.count) return false;
  }
  const auto is_valid_pair = [&](const Pair& p) { return valid_pair(s, p); };
  return std::all_of(s.book.pairs, s.book.pairs + s.book.count, is_valid_pair);
}

}  // namespace flotilla::funding
