#include "flotilla/domains/dvrp/negotiation/negotiation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/negotiation/pricing.h"
#include "flotilla/domains/dvrp/routing/ride_schedule.h"

namespace flotilla::dvrp {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr float kFailureReward = -5000;
constexpr double kLongestLimit = 1440;  // minutes: a day

constexpr int kMadeUpTravellers = GenerateOptions{}.travellers;

// Made once for all environments of the program.
std::shared_ptr<const Data> default_data() {
  static const auto kData = std::make_shared<const Data>(generate_data({}));
  return kData;
}

// The table of answers is needed where they come from it.
std::shared_ptr<const Data> data_of(const Config& config) {
  const std::string directory = config.get_text("data");
  const auto travellers = static_cast<int>(config.get_integer("travellers"));
  if (directory.empty()) {
    if (travellers == kMadeUpTravellers) return default_data();
    return std::make_shared<const Data>(generate_data({.travellers = travellers}));
  }
  if (travellers != kMadeUpTravellers) {
    throw Error(ErrorCode::kUsage,
                "travellers: is for the made-up city; those of data are in its tables");
  }
  const bool by_table = config.get_text("acceptance") == "table";
  return std::make_shared<const Data>(
      read_data(directory, by_table ? Decisions::kRequired : Decisions::kIfThere));
}

// With trips that accept what the model says, so that decisions and advice agree.
std::shared_ptr<const Data> accepting(std::shared_ptr<const Data> data, const std::string& model) {
  if (model == "table") return data;
  auto changed = std::make_shared<Data>(*data);
  for (Trip& trip : changed->travellers.trips) {
    if (model == "hard") {
      trip.accepts = accepts_by_rule();
    } else {
      trip.accepts[static_cast<size_t>(trip.flexibility)] =
          accepts_within(trip.earlier_minutes, trip.later_minutes);
    }
  }
  return changed;
}

Negotiation::Observation observation_from(const std::string& name) {
  if (name == "dense") return Negotiation::Observation::kDense;
  if (name == "detours") return Negotiation::Observation::kDetours;
  return name == "onehot" ? Negotiation::Observation::kOneHot : Negotiation::Observation::kList;
}

Negotiation::Reward reward_from(const std::string& name) {
  if (name == "temporal") return Negotiation::Reward::kTemporal;
  return name == "counterfactual" ? Negotiation::Reward::kCounterfactual
                                  : Negotiation::Reward::kMarginal;
}

bool are_routes_of(const Instance& instance, const KeptRoutes<kMostCustomers>& kept) {
  if (kept.stops < 0 || static_cast<size_t>(kept.stops) > kept.stop.size()) return false;
  Routes routes;
  read_routes(kept, routes);
  return fault_of(instance, routes).empty();
}

// Whether a vehicle that serves nobody else can keep all rules.
bool can_be_served(const City& city, const Request& request, const Limits& limits) {
  const Instance alone{.city = &city, .requests = {request}, .limits = limits};
  return RideSchedule(alone).follow(std::array{1, 2});
}

// Throws Error(kUsage) for limits under which a trip as it is asked for cannot be served.
void require_served(const Data& data, const Limits& limits) {
  int refused = 0;
  size_t first = 0;
  const std::vector<Trip>& trips = data.travellers.trips;
  for (size_t trip = 0; trip < trips.size(); ++trip) {
    const Request asked = request_for(data.travellers, static_cast<int>(trip));
    if (can_be_served(data.city, asked, limits)) continue;
    // What its windows forbid by themselves is named where the tables are read.
    if (!can_be_served(data.city, asked, {.ride = kLongestLimit})) continue;
    if (refused++ == 0) first = trip;
  }
  if (refused == 0) return;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("max_ride, max_excess: expected limits that every trip can keep alone; {} "
                  "cannot, the first is trip {}, {:.2f} minutes without a stop",
                  counted(refused, "trip"), first + 1,
                  data.city.minutes(trips[first].origin, trips[first].destination)));
}

// By trip: the offers that leave a ride within the limits possible.
std::vector<std::bitset<kActions>> legal_offers(const Data& data, const Limits& limits,
                                                Granting granting) {
  std::vector<std::bitset<kActions>> legal(data.travellers.trips.size());
  for (size_t trip = 0; trip < legal.size(); ++trip) {
    const Request asked = request_for(data.travellers, static_cast<int>(trip));
    for (int action = 0; action < kActions; ++action) {
      const Request offered = shifted(asked, shift_of(action), granting);
      legal[trip][static_cast<size_t>(action)] =
          action == kNoShift || can_be_served(data.city, offered, limits);
    }
  }
  return legal;
}

bool have_routes(const Negotiation::Prices& prices) {
  return std::isfinite(prices.agent) && !std::isinf(prices.baseline) && !std::isinf(prices.plain);
}

}  // namespace

Schema Negotiation::schema() {
  Schema schema;
  schema.text("data", "", "directory of the tables; empty: what `dvrp data` makes by default")
      .integer("customers", 30, {1, kMostCustomers}, "requests of an episode")
      .integer("travellers", kMadeUpTravellers, {1, 10'000},
               "of the made-up city, where no data is named")
      .choice("acceptance", "table", {"table", "threshold", "hard"},
              "who accepts what: by the table of decisions, by the minutes each trip bears, or by "
              "the kind of flexibility alone")
      .choice("observation", "list", {"list", "dense", "onehot", "detours"}, "what the policy sees")
      .boolean("scale", true, "cells and minutes of list and dense as numbers from 0 to 1")
      .choice("reward", "marginal", {"marginal", "temporal", "counterfactual"},
              "what a step saves against the baseline, minus what it costs, or what its own shift "
              "saves")
      .number("kappa", 0.002, {0, 1000}, "price of a minute that a traveller gives way")
      .alias("shift_price")
      .number("ask_price", 0, {0, 1000}, "price of asking a traveller for a shift, in minutes")
      .choice("shift", "move", {"move", "widen"},
              "what becomes of windows when a shift is accepted: they move, or reach as far and "
              "hold what was asked for as well")
      .number("max_ride", 0, {0, kLongestLimit},
              "minutes that nobody is longer on board; 0: no limit")
      .number("max_excess", 0, {0, kLongestLimit},
              "minutes that no ride takes more than the direct way; 0: no limit")
      .choice("failure", "freeze", {"freeze", "penalty"},
              "where no routes are found: the rest of the episode is left out, or it ends with "
              "reward -5000")
      .include("advice", AdviceOptions::schema())
      .include("oracle", OracleOptions::schema());
  return schema;
}

Negotiation::Negotiation(const Config& config)
    : data_(accepting(data_of(config), config.get_text("acceptance"))),
      advisor_(data_->travellers),
      customers_(static_cast<int>(config.get_integer("customers"))),
      granting_(config.get_text("shift") == "widen" ? Granting::kWiden : Granting::kMove),
      kappa_(config.get_number("kappa")),
      ask_price_(config.get_number("ask_price")),
      limits_(limits_of(config)),
      scale_(config.get_boolean("scale")),
      freezes_(config.get_text("failure") == "freeze"),
      observation_(observation_from(config.get_text("observation"))),
      reward_(reward_from(config.get_text("reward"))),
      oracle_(OracleOptions::from(config.part("oracle", OracleOptions::schema()))) {
  if (customers_ > data_->travellers.count) {
    throw Error(ErrorCode::kUsage,
                fmt::format("customers: expected at most {}, the travellers of the data, got {}",
                            data_->travellers.count, customers_));
  }
  if (limits_.any()) {
    require_served(*data_, limits_);
    legal_ = legal_offers(*data_, limits_, granting_);
  }
  const AdviceOptions advice = AdviceOptions::from(config.part("advice", AdviceOptions::schema()));
  advised_ = advice.types;
  if (advised_ == AdviceOptions::Types::kLearnt) {
    memory_ = std::make_unique<FlexibilityMemory>(data_->travellers, advice);
  }
  spec_.obs = observation_space();
  spec_.action = ActionSpace::discrete(kActions);
  spec_.metrics = {"cost",     "baseline_cost",    "saving_pct",
                   "accepted", "accepted_nonzero", "offered_nonzero",
                   "failed"};
  spec_.headline = "saving_pct";
  spec_.has_advice = true;
  spec_.has_mask = limits_.any();
}

Limits Negotiation::limits_of(const Config& config) {
  return {.ride = limit_of(config.get_number("max_ride")),
          .excess = limit_of(config.get_number("max_excess"))};
}

void Negotiation::reset(State& s, Rng& g) const {
  std::array<int, kMostCustomers> memory;
  TripDraw draw(data_->travellers, memory);
  for (int i = 0; i < customers_; ++i) s.trips[static_cast<size_t>(i)] = draw.next(g);
  s.luck = static_cast<float>(g.uniform());
}

Request Negotiation::asked(const State& s, int index) const {
  const int trip = s.trips[static_cast<size_t>(index)];
  return request_for(data_->travellers, trip);
}

Request Negotiation::granted(const State& s, int index) const {
  return with_shift(asked(s, index), s.granted[static_cast<size_t>(index)]);
}

Instance Negotiation::fixed_requests(const State& s) const {
  Instance instance{.city = &data_->city, .requests = {}, .limits = limits_};
  for (int i = 0; i < s.fixed; ++i) instance.requests.push_back(granted(s, i));
  return instance;
}

Instance Negotiation::asked_requests(const State& s) const {
  Instance instance{.city = &data_->city, .requests = {}, .limits = limits_};
  for (int i = 0; i < s.fixed; ++i) instance.requests.push_back(asked(s, i));
  return instance;
}

Negotiation::State Negotiation::upgraded(const OldState& old) {
  State s = {};
  static_cast<Account&>(s) = old;
  std::ranges::copy(old.trips, s.trips.begin());
  std::ranges::copy(old.granted, s.granted.begin());
  s.routes.stops = old.routes.stops;
  std::ranges::copy(old.routes.stop, s.routes.stop.begin());
  return s;
}

void Negotiation::prepare(State& s, ActionRow action, Rng&) const {
  if (s.failed != 0) return;
  const auto at = static_cast<size_t>(s.fixed);
  const int offer = action.discrete();
  if (limits_.any() && !legal(s.trips[at])[static_cast<size_t>(offer)]) {
    throw Error(ErrorCode::kEnvironment,
                fmt::format("offer {} is illegal: the ride would break its limit", offer));
  }
  const bool accepted = data_->travellers.trips[static_cast<size_t>(s.trips[at])].accepted(offer);
  s.offered = offer;
  s.granted[at] = static_cast<uint8_t>(accepted ? offer : kNoShift);
  s.accepted += accepted;
  s.shifts += offer != kNoShift;
  s.shifted += accepted && offer != kNoShift;
}

std::unique_ptr<Stage<Negotiation::State>> Negotiation::make_stage(ThreadPool& pool) const {
  return make_pricing(*this, make_router(pool), pool);
}

std::unique_ptr<Router> Negotiation::make_router(ThreadPool& pool) const {
  // The network's decoder knows no limits of rides, and it was not trained for them.
  OracleOptions oracle = oracle_;
  const bool network = oracle.kind == OracleOptions::Kind::kNetwork;
  if (limits_.any() && network) {
    oracle.kind = OracleOptions::Kind::kInsertion;
    static std::atomic<bool> said = false;  // once: routers are made for every evaluation
    if (!said.exchange(true)) {
      log::warn("the network knows no limits of rides: insertion stands in for it",
                {{"key", "env.oracle.kind"}});
    }
  }
  return dvrp::make_router(oracle, data_->city, pool);
}

float Negotiation::reward_of(const State& s) const {
  const Prices& now = s.prices;
  const int minutes = minutes_of(s.granted[static_cast<size_t>(s.fixed)]);
  const double asking = s.offered != kNoShift ? ask_price_ : 0;
  double saved = 0;
  switch (reward_) {
    case Reward::kMarginal:
      saved = (now.baseline - s.baseline) - (now.agent - s.cost);
      break;
    case Reward::kTemporal:
      saved = s.cost - now.agent;
      break;
    case Reward::kCounterfactual:
      saved = now.plain - now.agent;
      break;
  }
  return static_cast<float>(saved - kappa_ * minutes - asking);
}

void Negotiation::remember(std::span<State* const> states) const {
  if (memory_ == nullptr) return;
  memory_->begin_step();
  for (const State* s : states) {
    if (s->failed != 0) continue;
    const auto at = static_cast<size_t>(s->fixed);
    const Trip& trip = data_->travellers.trips[static_cast<size_t>(s->trips[at])];
    memory_->record({.traveller = trip.traveller,
                     .trip = s->trips[at],
                     .action = static_cast<uint16_t>(s->offered),
                     .accepted = static_cast<uint16_t>(trip.accepted(s->offered))});
  }
}

Outcome Negotiation::step(State& s, ActionRow, Rng& g) const {
  s.luck = static_cast<float>(g.uniform());
  if (s.failed == 0 && !have_routes(s.prices)) {
    s.failed = 1;
    if (!freezes_) return {.reward = kFailureReward, .terminated = true};
  }
  Outcome outcome{.valid = s.failed == 0};
  if (outcome.valid) {
    outcome.reward = reward_of(s);
    s.cost = s.prices.agent;
    s.baseline = s.prices.baseline;
    ++s.fixed;
  }
  ++s.steps;
  outcome.terminated = s.steps == customers_;
  return outcome;
}

void LimitedNegotiation::mask(const State& s, MaskRow row) const {
  std::ranges::fill(row, uint8_t{1});
  if (s.fixed == customers()) return;
  const std::bitset<kActions>& open = legal(s.trips[static_cast<size_t>(s.fixed)]);
  for (size_t action = 0; action < kActions; ++action) row[action] = open[action] ? 1 : 0;
}

void Negotiation::advice(const State& s, MaskRow row) const {
  std::ranges::fill(row, uint8_t{1});
  if (advised_ == AdviceOptions::Types::kNone || s.fixed == customers_) return;
  const int trip = s.trips[static_cast<size_t>(s.fixed)];
  const Trip& asked = data_->travellers.trips[static_cast<size_t>(trip)];
  const Flexibility type =
      memory_ == nullptr ? asked.flexibility : memory_->type_of(asked.traveller, s.luck);
  const std::bitset<kActions> allowed = advisor_.allowed(trip, type);
  for (size_t action = 0; action < kActions; ++action) row[action] = allowed[action] ? 1 : 0;
}

void Negotiation::metrics(const State& s, MetricRow row) const {
  std::ranges::fill(row, static_cast<float>(kNone));
  row.back() = static_cast<float>(s.failed);
  if (s.failed != 0) return;
  const double saving = s.baseline > 0 ? 100 * (s.baseline - s.cost) / s.baseline : 0;
  const double requests = s.fixed;
  const auto put = [row](size_t i, double value) { row[i] = static_cast<float>(value); };
  put(0, s.cost);
  put(1, s.baseline);
  put(2, std::isnan(s.baseline) ? kNone : saving);
  put(3, s.accepted / requests);
  put(4, s.shifted / requests);
  put(5, s.shifts / requests);
}

bool Negotiation::valid(const State& s) const {
  const auto between = [](int32_t value, int32_t low, int32_t high) {
    return value >= low && value <= high;
  };
  const bool counters = between(s.steps, 0, customers_ - 1) && between(s.fixed, 0, s.steps) &&
                        between(s.failed, 0, 1) && (s.failed != 0 || s.fixed == s.steps) &&
                        between(s.accepted, 0, s.fixed + s.failed) &&
                        between(s.shifts, 0, s.fixed + s.failed) &&
                        between(s.shifted, 0, std::min(s.accepted, s.shifts));
  const bool numbers = std::isfinite(s.cost) && !std::isinf(s.baseline) && s.luck >= 0 &&
                       s.luck <= 1 && (reward_ != Reward::kMarginal || !std::isnan(s.baseline));
  if (!counters || !numbers) return false;
  const auto trips = static_cast<int32_t>(data_->travellers.trips.size());
  for (size_t i = 0; i < static_cast<size_t>(customers_); ++i) {
    if (!between(s.trips[i], 0, trips - 1)) return false;
    if (i < static_cast<size_t>(s.fixed) && s.granted[i] >= kActions) return false;
  }
  if (!wants_routes() || s.failed != 0) return true;
  if (!are_routes_of(fixed_requests(s), s.routes)) return false;
  return !continues() || are_routes_of(asked_requests(s), s.baseline_routes);
}

}  // namespace flotilla::dvrp
