// Negotiation as an environment: travellers ask for rides one after the other; each is offered a
// pickup that is earlier and a drop-off that is later, takes it or not, and all requests so far are
// routed anew. docs/dvrp-environment.md: observations, rewards, keys.
//
// The routes of all envs are made in one call of a router, between prepare() and step(). The
// baseline, which offers nothing, is routed in the same call, from the same trips.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <vector>

#include "flotilla/domains/dvrp/data/instance.h"
#include "flotilla/domains/dvrp/flexibility/memory.h"
#include "flotilla/domains/dvrp/negotiation/kept_routes.h"
#include "flotilla/domains/dvrp/oracle/options.h"
#include "flotilla/env/env.h"

namespace flotilla::dvrp {

class Negotiation {
 public:
  // What the requests of a step cost, in minutes. Infinity: no routes were found.
  struct Prices {
    double agent = 0;     // with the shifts that were accepted
    double baseline = 0;  // without any; NaN: not wanted at this step
    double plain = 0;     // without that of the last request; NaN: not wanted
  };

  struct Account {
    double cost, baseline;  // minutes, of the fixed requests
    Prices prices;          // of the step under way
    int32_t fixed;          // requests with their offers made
    int32_t steps;          // of the episode; more than `fixed` once it has failed
    // Offers accepted; other than to shift nothing; both.
    int32_t accepted, shifts, shifted;
    int32_t offered;  // the action of the step under way
    float luck;       // draws what the next traveller is taken for
    int32_t failed;   // no routes were found: nothing moves any more
  };
  template <int kCustomers>
  struct Requests : Account {
    std::array<int32_t, kCustomers> trips;    // in the order of the requests
    std::array<uint8_t, kCustomers> granted;  // the action that holds: kNoShift unless accepted
    KeptRoutes<kCustomers> routes;            // of the fixed requests, where somebody looks at them
  };
  struct State : Requests<kMostCustomers> {
    KeptRoutes<kMostCustomers> baseline_routes;  // where the next ones begin with them
  };
  using OldState = Requests<128>;  // before days could be longer
  static State upgraded(const OldState& old);

  enum class Observation : uint8_t { kList, kDense, kOneHot, kDetours };
  enum class Reward : uint8_t { kMarginal, kTemporal, kCounterfactual };

  static Schema schema();
  explicit Negotiation(const Config& config);

  const EnvSpec& spec() const { return spec_; }
  void reset(State& s, Rng& g) const;
  void prepare(State& s, ActionRow action, Rng& g) const;
  std::unique_ptr<Stage<State>> make_stage(ThreadPool& pool) const;
  Outcome step(State& s, ActionRow action, Rng& g) const;
  void observe(const State& s, ObsRow row) const;
  // Advice: the env takes any offer that is legal.
  void advice(const State& s, MaskRow row) const;
  void metrics(const State& s, MetricRow row) const;
  EnvMemory* memory() const { return memory_.get(); }
  bool valid(const State& s) const;

  const Data& data() const { return *data_; }
  int customers() const { return customers_; }
  Granting granting() const { return granting_; }
  const Limits& limits() const { return limits_; }
  static Limits limits_of(const Config& config);
  // The request as it was made, and as it stands after the answer.
  Request asked(const State& s, int index) const;
  Request granted(const State& s, int index) const;
  Request with_shift(const Request& request, int action) const {
    return shifted(request, shift_of(action), granting_);
  }
  bool wants_baseline(const State& s) const {
    return reward_ == Reward::kMarginal || s.fixed + 1 == customers_ || continues();
  }
  bool wants_routes() const { return observation_ == Observation::kDetours || continues(); }
  // Routes begin with those of the step before.
  bool continues() const { return oracle_.kind == OracleOptions::Kind::kContinued; }
  // The fixed requests as they stand, and as they were made.
  Instance fixed_requests(const State& s) const;
  Instance asked_requests(const State& s) const;
  // What the travellers of all envs have answered in the step under way, if anybody learns from it.
  void remember(std::span<State* const> states) const;
  bool wants_plain() const { return reward_ == Reward::kCounterfactual; }

 protected:
  // The router that the keys under `oracle` name.
  std::unique_ptr<Router> make_router(ThreadPool& pool) const;
  // Offers of a trip under which a vehicle of its own could keep the limits. REQUIRES: limits.
  const std::bitset<kActions>& legal(int trip) const { return legal_[static_cast<size_t>(trip)]; }

 private:
  ObsSpace observation_space() const;
  float reward_of(const State& s) const;
  void observe_rows(const State& s, std::span<float> out) const;
  void observe_one_hot(const State& s, std::span<float> out) const;
  void observe_detours(const State& s, std::span<float> out) const;
  void write_row(const Request& request, std::span<float> out) const;

  EnvSpec spec_;
  std::shared_ptr<const Data> data_;  // its trips accept what the acceptance model says
  Advisor advisor_;
  AdviceOptions::Types advised_;
  std::unique_ptr<FlexibilityMemory> memory_;  // where types are learnt
  int customers_;
  Granting granting_;
  double kappa_, ask_price_;
  Limits limits_;
  std::vector<std::bitset<kActions>> legal_;  // by trip, where there are limits
  bool scale_, freezes_;
  Observation observation_;
  Reward reward_;
  OracleOptions oracle_;
};

// The same with limits of rides: an offer whose windows alone make a ride too long is illegal.
// Without limits there is no mask, and all is as it was before there were any.
class LimitedNegotiation : public Negotiation {
 public:
  using Negotiation::Negotiation;
  void mask(const State& s, MaskRow row) const;
};

}  // namespace flotilla::dvrp
