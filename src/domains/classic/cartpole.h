// CartPole with the numbers of Gymnasium's CartPole-v1: Barto, Sutton and Anderson, "Neuronlike
// adaptive elements that can solve difficult learning control problems" (1983), with the
// equations of Florian, "Correct equations for the dynamics of the cart-pole system" (2007).
//
// Determinism: every expression keeps the association of the reference, so the state after a step
// has the same bits wherever sin and cos of the C library agree.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

#include "flotilla/domains/classic/choice.h"
#include "flotilla/env/env.h"

namespace flotilla::classic {

class CartPole {
 public:
  struct State {
    double x, x_dot;          // cart: metres from the middle
    double theta, theta_dot;  // pole: radians from upright
  };

  static constexpr double kXLimit = 2.4;
  static constexpr double kThetaLimit = 12 * 2 * std::numbers::pi / 360;  // 12 degrees

  static Schema schema() {
    Schema schema;
    schema.integer("time_limit", 500, {0, 1'000'000'000},
                   "steps after which an episode is truncated; 0: never");
    return schema;
  }

  explicit CartPole(const Config& config) {
    // Twice the limits, so that the observation that ends an episode lies inside.
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr auto kX = static_cast<float>(2 * kXLimit);
    constexpr auto kTheta = static_cast<float>(2 * kThetaLimit);
    spec_.name = "cartpole";
    spec_.obs = ObsSpace::float32({-kX, -kInfinity, -kTheta, -kInfinity},
                                  {kX, kInfinity, kTheta, kInfinity});
    spec_.action = ActionSpace::discrete(2);
    spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
    spec_.reward_low = spec_.reward_high = 1;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    s.x = g.uniform(-0.05, 0.05);
    s.x_dot = g.uniform(-0.05, 0.05);
    s.theta = g.uniform(-0.05, 0.05);
    s.theta_dot = g.uniform(-0.05, 0.05);
  }

  Outcome step(State& s, ActionRow action, Rng&) const {
    constexpr double kGravity = 9.8;
    constexpr double kPoleMass = 0.1;
    constexpr double kTotalMass = kPoleMass + 1.0;
    constexpr double kHalfLength = 0.5;
    constexpr double kPoleMassLength = kPoleMass * kHalfLength;
    constexpr double kForce = 10.0;
    constexpr double kSeconds = 0.02;

    const int choice = action.discrete();
    require_choice(choice, 2);
    const double force = choice == 1 ? kForce : -kForce;
    // Next to each other: the compiler merges them into one sincos.
    const double cosine = std::cos(s.theta);
    const double sine = std::sin(s.theta);

    const double push = (force + kPoleMassLength * (s.theta_dot * s.theta_dot) * sine) / kTotalMass;
    const double theta_acc =
        (kGravity * sine - cosine * push) /
        (kHalfLength * (4.0 / 3.0 - kPoleMass * (cosine * cosine) / kTotalMass));
    const double x_acc = push - kPoleMassLength * theta_acc * cosine / kTotalMass;

    s.x += kSeconds * s.x_dot;
    s.x_dot += kSeconds * x_acc;
    s.theta += kSeconds * s.theta_dot;
    s.theta_dot += kSeconds * theta_acc;

    Outcome outcome;
    outcome.reward = 1;  // the step that ends the episode pays too
    outcome.terminated = std::abs(s.x) > kXLimit || std::abs(s.theta) > kThetaLimit;
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    float* out = row.f32().data();
    out[0] = static_cast<float>(s.x);
    out[1] = static_cast<float>(s.x_dot);
    out[2] = static_cast<float>(s.theta);
    out[3] = static_cast<float>(s.theta_dot);
  }

 private:
  EnvSpec spec_;
};

}  // namespace flotilla::classic
