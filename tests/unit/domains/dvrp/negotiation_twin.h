// One negotiation, written down straight from its rules: no batch, no sharing of prices, no state
// that could be copied. Slow, and the measure of the fast one.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/oracle/options.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "support/batch.h"

namespace flotilla::dvrp::test {

struct TwinSettings {
  std::string acceptance = "table", observation = "list", reward = "marginal";
  std::string oracle = "insertion", shift = "move";
  int customers = 30;
  bool scale = true;
  double kappa = 0.002;
  int max_ride = 0, max_excess = 0;  // minutes; 0: no limit

  std::vector<std::string> overrides() const {
    std::vector<std::string> all = {"acceptance=" + acceptance,
                                    "observation=" + observation,
                                    "reward=" + reward,
                                    "shift=" + shift,
                                    "customers=" + std::to_string(customers),
                                    std::string("scale=") + (scale ? "true" : "false"),
                                    "kappa=" + std::to_string(kappa),
                                    "max_ride=" + std::to_string(max_ride),
                                    "max_excess=" + std::to_string(max_excess),
                                    "oracle.kind=" + oracle};
    if (oracle == "insertion") {  // alone
      all.insert(all.end(), {"oracle.improve=0", "oracle.refine=0"});
    }
    return all;
  }
};

class Twin {
 public:
  struct Row {
    std::vector<float> obs, final_obs;
    double reward = 0;
    bool terminated = false;
    // Of an ended episode.
    double cost = 0, baseline = 0, accepted = 0, accepted_nonzero = 0, offered_nonzero = 0;
    double episode_return = 0;
  };

  Twin(const Data& data, const TwinSettings& settings, uint64_t seed, int env)
      : data_(data), settings_(settings), rng_(flotilla::test::env_rng(seed, env)) {
    begin();
  }

  std::vector<float> observation() const {
    if (settings_.observation == "onehot") return one_hot();
    const auto n = static_cast<size_t>(settings_.customers);
    const bool list = settings_.observation == "list";
    std::vector<std::vector<float>> rows(list ? n + 1 : n, std::vector<float>(6, 0));
    for (size_t i = 0; i < fixed_.size(); ++i) rows[i] = columns(fixed_[i]);
    if (fixed_.size() < n) rows.back() = columns(pending_[fixed_.size()]);
    std::vector<float> flat;
    for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
    return flat;
  }

  // Whether the windows of an offer leave room for a ride within the limits.
  bool is_legal(int action) const {
    const float earlier = std::vector<float>{30, 20, 10, 0}[static_cast<size_t>(action / 4)];
    const float later = std::vector<float>{0, 10, 20, 30}[static_cast<size_t>(action % 4)];
    const Request& asked = pending_[fixed_.size()];
    const double direct =
        static_cast<double>(data_.city.seconds(asked.origin, asked.destination)) / 60;
    double shortest = direct;
    if (settings_.shift == "move") {
      const float boards = moved(asked.pickup, -earlier).late;
      const float leaves = moved(asked.dropoff, later).early;
      shortest = std::max(direct, static_cast<double>(leaves - boards));
    }
    return (settings_.max_ride == 0 || shortest <= settings_.max_ride + 1e-6) &&
           (settings_.max_excess == 0 || shortest <= direct + settings_.max_excess + 1e-6);
  }

  Row step(int action) {
    const float earlier = std::vector<float>{30, 20, 10, 0}[static_cast<size_t>(action / 4)];
    const float later = std::vector<float>{0, 10, 20, 30}[static_cast<size_t>(action % 4)];
    const Request asked = pending_[fixed_.size()];
    const bool accepted = accepts(asked, action, earlier, later);
    Request settled = asked;
    if (accepted) {
      settled.pickup = moved(asked.pickup, -earlier);
      settled.dropoff = moved(asked.dropoff, later);
    }
    if (settings_.shift == "widen") {
      settled.pickup.late = asked.pickup.late;
      settled.dropoff.early = asked.dropoff.early;
    }
    const bool nonzero = earlier > 0 || later > 0;
    accepted_ += accepted;
    offered_nonzero_ += nonzero;
    accepted_nonzero_ += nonzero && accepted;

    std::vector<Request> plain = fixed_;
    plain.push_back(asked);
    fixed_.push_back(settled);
    const double cost = price(fixed_);
    const double baseline =
        price({pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(fixed_.size())});
    double saved = 0;
    if (settings_.reward == "marginal") saved = (baseline - baseline_) - (cost - cost_);
    if (settings_.reward == "temporal") saved = cost_ - cost;
    if (settings_.reward == "counterfactual") saved = price(plain) - cost;
    const double penalty = accepted ? settings_.kappa * static_cast<double>(earlier + later) : 0;
    cost_ = cost;
    baseline_ = baseline;

    rng_.uniform();  // what the next traveller is taken for
    Row row;
    row.reward = saved - penalty;
    return_ += row.reward;
    row.terminated = fixed_.size() == pending_.size();
    if (row.terminated) {
      const double n = settings_.customers;
      row.final_obs = observation();
      row.cost = cost_;
      row.baseline = baseline_;
      row.accepted = accepted_ / n;
      row.accepted_nonzero = accepted_nonzero_ / n;
      row.offered_nonzero = offered_nonzero_ / n;
      row.episode_return = return_;
      begin();
    }
    row.obs = observation();
    return row;
  }

 private:
  void begin() {
    pending_ = draw_instance(data_, settings_.customers, rng_).requests;
    rng_.uniform();  // what the first traveller is taken for
    fixed_.clear();
    cost_ = baseline_ = return_ = 0;
    accepted_ = offered_nonzero_ = accepted_nonzero_ = 0;
  }

  bool accepts(const Request& request, int action, float earlier, float later) const {
    const Trip& trip = data_.travellers.trips[static_cast<size_t>(request.trip)];
    if (settings_.acceptance == "threshold") {
      return earlier <= static_cast<float>(trip.earlier_minutes) &&
             later <= static_cast<float>(trip.later_minutes);
    }
    if (settings_.acceptance == "hard") {
      const bool may_early =
          trip.flexibility == Flexibility::kEarly || trip.flexibility == Flexibility::kBoth;
      const bool may_late =
          trip.flexibility == Flexibility::kLate || trip.flexibility == Flexibility::kBoth;
      return (earlier == 0 || may_early) && (later == 0 || may_late);
    }
    return trip.accepts[static_cast<size_t>(trip.flexibility)][static_cast<size_t>(action)];
  }

  static Window moved(Window window, float by) {
    const float width = window.late - window.early;
    float early = window.early + by;
    if (early < 0) early = 0;
    if (early + width > 1440) early = 1440 - width;
    return {early, early + width};
  }

  double price(const std::vector<Request>& requests) const {
    Instance instance{.city = &data_.city, .requests = requests};
    if (settings_.max_ride > 0) instance.limits.ride = settings_.max_ride;
    if (settings_.max_excess > 0) instance.limits.excess = settings_.max_excess;
    if (settings_.oracle == "insertion") return solve(instance, {.iterations = 0}).cost;
    static ThreadPool alone(1);
    static const auto router = make_router({}, data_.city, alone);
    const Instance* const one = &instance;
    Tour tour;
    router->route({&one, 1}, {&tour, 1});
    return tour.cost;
  }

  std::vector<float> columns(const Request& request) const {
    const auto cells = static_cast<float>(data_.city.size());
    std::vector<float> row = {
        static_cast<float>(request.origin),      request.pickup.early,  request.pickup.late,
        static_cast<float>(request.destination), request.dropoff.early, request.dropoff.late};
    if (!settings_.scale) return row;
    for (const size_t cell : {0, 3}) row[cell] /= cells;
    for (const size_t time : {1, 2, 4, 5}) row[time] /= 1440;
    return row;
  }

  std::vector<float> one_hot() const {
    const auto cells = static_cast<size_t>(data_.city.size());
    std::vector<float> flat(2 * (2 * cells + 192), 0);
    const auto mark = [&](const Request& request, size_t column) {
      const auto slot = [](float minutes) {
        return static_cast<size_t>(std::clamp(std::floor(minutes / 30), 0.0F, 47.0F));
      };
      const size_t times = 2 * cells;
      for (const size_t row :
           {static_cast<size_t>(request.origin), cells + static_cast<size_t>(request.destination),
            times + slot(request.pickup.early), times + 48 + slot(request.pickup.late),
            times + 96 + slot(request.dropoff.early), times + 144 + slot(request.dropoff.late)}) {
        flat[2 * row + column] += 1;
      }
    };
    for (const Request& request : fixed_) mark(request, 0);
    if (fixed_.size() < pending_.size()) mark(pending_[fixed_.size()], 1);
    return flat;
  }

  const Data& data_;
  TwinSettings settings_;
  Rng rng_;
  std::vector<Request> pending_, fixed_;
  double cost_ = 0, baseline_ = 0, return_ = 0;
  int accepted_ = 0, offered_nonzero_ = 0, accepted_nonzero_ = 0;
};

}  // namespace flotilla::dvrp::test
