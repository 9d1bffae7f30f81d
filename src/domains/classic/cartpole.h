// CartPole with the numbers of Gymnasium's CartPole-v1: Barto, Sutton and Anderson, "Neuronlike
// adaptive elements that can solve difficult learning control problems" (1983), with the
// equations of Florian, "Correct equations for the dynamics of the cart-pole system" (2007).
//
// Determinism: every expression keeps the association of the reference, so the state after a step
// has the same bits wherever sin and cos of the C library agree.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "flotilla/domains/classic/choice.h"
#include "flotilla/domains/classic/sine_cosine.h"
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
    schema
        .integer("time_limit", 500, {0, 1'000'000'000},
                 "steps after which an episode is truncated; 0: never")
        .number("gravity", 9.8, {0, 1000}, "metres per second squared")
        .number("cart_mass", 1.0, {0.001, 1000}, "kilograms")
        .number("pole_mass", 0.1, {0.001, 1000}, "kilograms")
        .number("half_length", 0.5, {0.001, 1000}, "of the pole, metres; length of Gymnasium")
        .number("force", 10.0, {0, 10'000}, "of a push, newtons");
    return schema;
  }

  explicit CartPole(const Config& config)
      : gravity_(config.get_number("gravity")),
        pole_mass_(config.get_number("pole_mass")),
        total_mass_(pole_mass_ + config.get_number("cart_mass")),
        half_length_(config.get_number("half_length")),
        pole_mass_length_(pole_mass_ * half_length_),
        force_(config.get_number("force")) {
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
    const int choice = action.discrete();
    require_choice(choice, 2);
    // Next to each other: the compiler merges them into one sincos.
    const double cosine = std::cos(s.theta);
    const double sine = std::sin(s.theta);
    return moved(s, accelerations(choice, s.theta_dot, sine, cosine));
  }

  // All sines, then all divisions, in arrays that the compiler makes vectors of.
  void step_many(std::span<State* const> states, ActionRow actions,
                 std::span<Outcome> outcomes) const noexcept {
    constexpr size_t kAtOnce = 64;
    double angle[kAtOnce], speed[kAtOnce], sine[kAtOnce], cosine[kAtOnce];
    double x[kAtOnce], theta[kAtOnce];
    for (size_t first = 0; first < states.size(); first += kAtOnce) {
      const size_t count = std::min(kAtOnce, states.size() - first);
      for (size_t i = 0; i < count; ++i) {
        angle[i] = states[first + i]->theta;
        speed[i] = states[first + i]->theta_dot;
      }
      sines_and_cosines(angle, sine, cosine, count);
      for (size_t i = 0; i < count; ++i) {
        const int choice = actions.discrete(first + i);
        const Accelerations found = accelerations(choice, speed[i], sine[i], cosine[i]);
        x[i] = found.x;
        theta[i] = found.theta;
      }
      for (size_t i = 0; i < count; ++i) {
        outcomes[first + i] = moved(*states[first + i], {.x = x[i], .theta = theta[i]});
      }
    }
  }

  void observe(const State& s, ObsRow row) const {
    float* out = row.f32().data();
    out[0] = static_cast<float>(s.x);
    out[1] = static_cast<float>(s.x_dot);
    out[2] = static_cast<float>(s.theta);
    out[3] = static_cast<float>(s.theta_dot);
  }

 private:
  struct Accelerations {
    double x, theta;
  };

  Accelerations accelerations(int choice, double speed, double sine, double cosine) const {
    // Not a branch: the actions of an untrained policy cannot be predicted.
    const double force = (2 * choice - 1) * force_;
    const double push = (force + pole_mass_length_ * (speed * speed) * sine) / total_mass_;
    const double theta =
        (gravity_ * sine - cosine * push) /
        (half_length_ * (4.0 / 3.0 - pole_mass_ * (cosine * cosine) / total_mass_));
    return {.x = push - pole_mass_length_ * theta * cosine / total_mass_, .theta = theta};
  }

  static Outcome moved(State& s, const Accelerations& by) {
    constexpr double kSeconds = 0.02;
    s.x += kSeconds * s.x_dot;
    s.x_dot += kSeconds * by.x;
    s.theta += kSeconds * s.theta_dot;
    s.theta_dot += kSeconds * by.theta;

    Outcome outcome;
    outcome.reward = 1;  // the step that ends the episode pays too
    outcome.terminated = std::abs(s.x) > kXLimit || std::abs(s.theta) > kThetaLimit;
    return outcome;
  }

  double gravity_, pole_mass_, total_mass_, half_length_, pole_mass_length_, force_;
  EnvSpec spec_;
};

}  // namespace flotilla::classic
