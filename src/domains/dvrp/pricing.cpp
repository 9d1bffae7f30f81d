#include "flotilla/domains/dvrp/pricing.h"

#include <limits>

namespace flotilla::dvrp {
namespace {

using State = Negotiation::State;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Pricing final : public Stage<State> {
 public:
  Pricing(const Negotiation& env, std::unique_ptr<Router> router, ThreadPool& pool)
      : env_(env), router_(std::move(router)), pool_(pool) {}

  void run(std::span<State* const> states) override {
    orders_.clear();
    for (State* s : states) {
      if (s->failed == 0) order(*s);
    }
    const size_t count = orders_.size();
    if (instances_.size() < count) grow(count);
    pool_.for_each(static_cast<int>(count), [this](int, int i) {
      write(orders_[static_cast<size_t>(i)], instances_[static_cast<size_t>(i)]);
    });
    router_->route({pointers_.data(), count}, {tours_.data(), count});
    for (size_t i = 0; i < count; ++i) settle(orders_[i], tours_[i]);
    for (State* s : states) {
      if (s->failed != 0) continue;
      share(*s);
      env_.remember(*s);
    }
  }

 private:
  enum class Shifts : uint8_t { kAll, kNone, kAllButLast };
  struct Order {
    State* state = nullptr;
    Shifts shifts = Shifts::kAll;
    double* price = nullptr;
  };

  static bool has_shift(const State& s) { return s.shifted > 0; }
  static bool has_last_shift(const State& s) {
    return s.granted[static_cast<size_t>(s.fixed)] != kNoShift;
  }

  void order(State& s) {
    s.prices = {.agent = kNone, .baseline = kNone, .plain = kNone};
    orders_.push_back({&s, Shifts::kAll, &s.prices.agent});
    if (env_.wants_baseline(s) && has_shift(s)) {
      orders_.push_back({&s, Shifts::kNone, &s.prices.baseline});
    }
    if (env_.wants_plain() && has_last_shift(s)) {
      orders_.push_back({&s, Shifts::kAllButLast, &s.prices.plain});
    }
  }

  void settle(const Order& order, const Tour& tour) const {
    *order.price = tour.cost;
    if (order.shifts == Shifts::kAll && env_.wants_routes()) {
      env_.keep_routes(*order.state, tour.routes);
    }
  }

  // Gives instances that were not routed the price of their equals.
  void share(State& s) const {
    if (env_.wants_baseline(s) && !has_shift(s)) s.prices.baseline = s.prices.agent;
    if (env_.wants_plain() && !has_last_shift(s)) s.prices.plain = s.prices.agent;
  }

  void write(const Order& order, Instance& instance) const {
    const State& s = *order.state;
    instance.requests.clear();
    for (int i = 0; i <= s.fixed; ++i) {
      const bool shifted =
          order.shifts == Shifts::kAll || (order.shifts == Shifts::kAllButLast && i < s.fixed);
      instance.requests.push_back(shifted ? env_.granted(s, i) : env_.asked(s, i));
    }
  }

  void grow(size_t count) {
    instances_.resize(count, Instance{.city = &env_.data().city, .requests = {}});
    tours_.resize(count);
    pointers_.clear();
    for (const Instance& instance : instances_) pointers_.push_back(&instance);
  }

  const Negotiation& env_;
  std::unique_ptr<Router> router_;
  ThreadPool& pool_;
  std::vector<Order> orders_;  // of this step
  // As many as there ever were orders.
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
