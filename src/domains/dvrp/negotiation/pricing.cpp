#include "flotilla/domains/dvrp/negotiation/pricing.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace flotilla::dvrp {
namespace {

using State = Negotiation::State;
constexpr double kNoPrice = std::numeric_limits<double>::quiet_NaN();

class Pricing final : public Stage<State> {
 public:
  Pricing(const Negotiation& env, std::unique_ptr<Router> router, ThreadPool& pool)
      : env_(env), router_(std::move(router)), pool_(pool) {}

  void run(std::span<State* const> states) override {
    if (states.size() > envs_) reserve(states.size());
    orders_.clear();
    for (State* s : states) {
      if (s->failed == 0) order(*s);
    }
    find_equals();
    const size_t count = distinct_.size();
    pool_.for_each(static_cast<int>(count), [this](int, int item) {
      const auto i = static_cast<size_t>(item);
      write(*distinct_[i], instances_[i]);
      if (env_.continues()) read_routes(routes_of(*distinct_[i]), tours_[i].routes);
    });
    router_->route({pointers_.data(), count}, {tours_.data(), count});
    for (const Order& order : orders_) settle(order, tours_[order.instance]);
    env_.remember(states);
  }

  std::string name() const override { return "oracle: " + router_->name(); }

 private:
  enum class Shifts : uint8_t { kAll, kNone, kAllButLast };
  static constexpr size_t kMostOrders = 3;  // of a state: one of each
  static constexpr size_t kFree = std::numeric_limits<size_t>::max();
  struct Order {
    State* state = nullptr;
    Shifts shifts = Shifts::kAll;
    double* price = nullptr;
    size_t instance = 0;
  };

  void order(State& s) {
    s.prices = {.agent = kNoPrice, .baseline = kNoPrice, .plain = kNoPrice};
    orders_.push_back({&s, Shifts::kAll, &s.prices.agent});
    if (env_.wants_baseline(s)) orders_.push_back({&s, Shifts::kNone, &s.prices.baseline});
    if (env_.wants_plain()) orders_.push_back({&s, Shifts::kAllButLast, &s.prices.plain});
  }

  // The action that holds for a request, as the order has it.
  static uint8_t action_of(const Order& order, int request) {
    const bool holds = order.shifts == Shifts::kAll ||
                       (order.shifts == Shifts::kAllButLast && request < order.state->fixed);
    return holds ? order.state->granted[static_cast<size_t>(request)]
                 : static_cast<uint8_t>(kNoShift);
  }

  static bool are_equal(const Order& a, const Order& b) {
    if (a.state->fixed != b.state->fixed) return false;
    for (int i = 0; i <= a.state->fixed; ++i) {
      const auto at = static_cast<size_t>(i);
      if (a.state->trips[at] != b.state->trips[at] || action_of(a, i) != action_of(b, i)) {
        return false;
      }
    }
    return true;
  }

  static uint64_t hash_of(const Order& order) {
    uint64_t hash = 0;
    for (int i = 0; i <= order.state->fixed; ++i) {
      const auto trip = static_cast<uint64_t>(order.state->trips[static_cast<size_t>(i)]);
      hash = (hash ^ (trip * kActions + action_of(order, i))) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32u;
    }
    return hash;
  }

  // The slot of an order that is equal to it, or the free one where it belongs: the first from
  // that of its hash on.
  size_t& slot_of(const Order& order) {
    size_t at = hash_of(order) % slots_.size();
    while (slots_[at] != kFree && !are_equal(order, *distinct_[slots_[at]])) {
      at = (at + 1) % slots_.size();
    }
    return slots_[at];
  }

  void find_equals() {
    distinct_.clear();
    std::ranges::fill(slots_, kFree);
    for (Order& order : orders_) {
      size_t& slot = slot_of(order);
      if (slot == kFree) {
        slot = distinct_.size();
        distinct_.push_back(&order);
      }
      order.instance = slot;
    }
  }

  // Of the requests before the one that asks.
  static KeptRoutes<kMostCustomers>& routes_of(const Order& order) {
    State& s = *order.state;
    return order.shifts == Shifts::kNone ? s.baseline_routes : s.routes;
  }

  void settle(const Order& order, const Tour& tour) const {
    *order.price = tour.cost;
    const bool looked_at = order.shifts == Shifts::kAll && env_.wants_routes();
    const bool continued = order.shifts == Shifts::kNone && env_.continues();
    if (looked_at || continued) keep_routes(tour.routes, routes_of(order));
  }

  void write(const Order& order, Instance& instance) const {
    const State& s = *order.state;
    instance.requests.clear();
    for (int i = 0; i <= s.fixed; ++i) {
      instance.requests.push_back(env_.with_shift(env_.asked(s, i), action_of(order, i)));
    }
  }

  // For so many envs, each of which may ask for as much as there is.
  void reserve(size_t envs) {
    const size_t count = kMostOrders * envs;
    orders_.reserve(count);
    distinct_.reserve(count);
    slots_.resize(std::bit_ceil(2 * count));
    instances_.resize(count,
                      Instance{.city = &env_.data().city, .requests = {}, .limits = env_.limits()});
    tours_.resize(count);
    pointers_.clear();
    for (Instance& instance : instances_) {
      instance.requests.reserve(static_cast<size_t>(env_.customers()));
      pointers_.push_back(&instance);
    }
    for (Tour& tour : tours_) tour.routes.reserve(env_.customers());
    router_->reserve(count, env_.customers());
    envs_ = envs;
  }

  const Negotiation& env_;
  std::unique_ptr<Router> router_;
  ThreadPool& pool_;
  size_t envs_ = 0;                     // that there is memory for
  std::vector<Order> orders_;           // of this step
  std::vector<const Order*> distinct_;  // the first of equal ones
  std::vector<size_t> slots_;           // places in that by hash; at most half are taken
  // By distinct order, and more behind them.
  std::vector<Instance> instances_;
  std::vector<const Instance*> pointers_;
  std::vector<Tour> tours_;
};

}  // namespace

std::unique_ptr<Stage<State>> make_pricing(const Negotiation& env, std::unique_ptr<Router> router,
                                           ThreadPool& pool) {
  return std::make_unique<Pricing>(env, std::move(router), pool);
}

}  // namespace flotilla::dvrp
