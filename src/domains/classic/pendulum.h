// Swing-up of an actuated pendulum with the numbers of Gymnasium's Pendulum-v1. Upright is angle 0;
// the angle is not wrapped, and the cost is that of the state before the step.
//
// Determinism: the reference mixes float32 (the torque and its products) with float64 (the state).
// The same mixture stands here, so the state after a step has the same bits wherever sin and cos
// of the C library agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "flotilla/env/env.h"

namespace flotilla::classic {

class Pendulum {
 public:
  struct State {
    double theta, theta_dot;
  };

  static constexpr float kMaxTorque = 2;
  static constexpr double kMaxSpeed = 8;

  static Schema schema() {
    Schema schema;
    schema
        .integer("time_limit", 200, {0, 1'000'000'000},
                 "steps after which an episode is truncated; 0: never")
        .number("gravity", 10.0, {0, 1000}, "metres per second squared")
        .number("mass", 1.0, {0.001, 1000}, "kilograms")
        .number("length", 1.0, {0.001, 1000}, "metres");
    return schema;
  }

  explicit Pendulum(const Config& config) {
    const double mass = config.get_number("mass"), length = config.get_number("length");
    gravity_term_ = 3 * config.get_number("gravity") / (2 * length);
    torque_term_ = static_cast<float>(3.0 / (mass * (length * length)));
    spec_.name = "pendulum";
    spec_.obs = ObsSpace::float32({-1, -1, -8}, {1, 1, 8});
    spec_.action = ActionSpace::box({-kMaxTorque}, {kMaxTorque});
    spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
    // The worst step: hanging down at full speed under full torque, pi^2 + 0.1 * 8^2 + 0.001 * 2^2.
    spec_.reward_low = -16.2736054F;
    spec_.reward_high = 0;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    s.theta = g.uniform(-std::numbers::pi, std::numbers::pi);
    s.theta_dot = g.uniform(-1, 1);
  }

  Outcome step(State& s, ActionRow action, Rng&) const {
    constexpr double kSeconds = 0.05;
    const float torque = std::clamp(action.box(), -kMaxTorque, kMaxTorque);

    const double angle = wrapped(s.theta);
    const float torque_cost = 0.001F * (torque * torque);
    const double cost = angle * angle + 0.1 * (s.theta_dot * s.theta_dot) + torque_cost;

    const double speed =
        s.theta_dot + (gravity_term_ * std::sin(s.theta) + torque_term_ * torque) * kSeconds;
    s.theta_dot = std::clamp(speed, -kMaxSpeed, kMaxSpeed);
    s.theta += s.theta_dot * kSeconds;

    Outcome outcome;
    outcome.reward = static_cast<float>(-cost);
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    float* out = row.f32().data();
    const double cosine = std::cos(s.theta);
    const double sine = std::sin(s.theta);
    out[0] = static_cast<float>(cosine);
    out[1] = static_cast<float>(sine);
    out[2] = static_cast<float>(s.theta_dot);
  }

  // The angle in [-pi, pi): a remainder with the sign of the divisor, as Python's %.
  static double wrapped(double theta) {
    constexpr double kTurn = 2 * std::numbers::pi;
    double rest = theta + std::numbers::pi;
    if (std::abs(rest) >= kTurn) rest = std::fmod(rest, kTurn);  // else fmod changes nothing
    if (rest < 0) rest += kTurn;
    return rest - std::numbers::pi;
  }

 private:
  double gravity_term_;  // 3 g / (2 l)
  float torque_term_;    // 3 / (m l^2)
  EnvSpec spec_;
};

}  // namespace flotilla::classic
