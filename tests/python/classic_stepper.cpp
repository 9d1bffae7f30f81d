// Steps cartpole and pendulum from states given on stdin, so that a script can hold them against
// another implementation. One request and one answer per line; numbers are hexadecimal floats.
//
//   spec ENV                                    low.. high.. of obs, action space, time limit
//   reset ENV SEED INDEX                        state.. obs..
//   cartpole X X_DOT THETA THETA_DOT CHOICE     state.. obs.. reward terminated
//   pendulum THETA THETA_DOT TORQUE             state.. obs.. reward terminated
#include <array>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "flotilla/domains/classic/cartpole.h"
#include "flotilla/domains/classic/pendulum.h"

namespace {

using namespace flotilla;
using classic::CartPole;
using classic::Pendulum;

std::string hex(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%a", value);
  return text.data();
}

double number(std::istream& in) {
  std::string text;
  if (!(in >> text)) throw std::runtime_error("too few numbers");
  return std::stod(text);  // reads hexadecimal floats too, which operator>> does not
}

void write_all(std::ostream& out, const std::vector<float>& values) {
  for (const float value : values) out << ' ' << hex(value);
}

void write_state(std::ostream& out, const CartPole::State& s) {
  out << hex(s.x) << ' ' << hex(s.x_dot) << ' ' << hex(s.theta) << ' ' << hex(s.theta_dot);
}

void write_state(std::ostream& out, const Pendulum::State& s) {
  out << hex(s.theta) << ' ' << hex(s.theta_dot);
}

CartPole::State read_state(std::istream& in, const CartPole&) {
  CartPole::State s{};
  s.x = number(in);
  s.x_dot = number(in);
  s.theta = number(in);
  s.theta_dot = number(in);
  return s;
}

Pendulum::State read_state(std::istream& in, const Pendulum&) {
  Pendulum::State s{};
  s.theta = number(in);
  s.theta_dot = number(in);
  return s;
}

template <Env E>
void write_state_and_obs(std::ostream& out, const E& env, const typename E::State& state) {
  std::vector<float> obs(env.spec().obs.elements());
  env.observe(state, ObsRow(obs.data(), obs.size()));
  write_state(out, state);
  write_all(out, obs);
}

template <Env E>
void answer(const E& env, const std::string& verb, std::istream& in, std::ostream& out) {
  Rng rng;
  typename E::State state{};
  if (verb == "spec") {
    const EnvSpec& spec = env.spec();
    out << "low";
    write_all(out, spec.obs.low);
    out << " high";
    write_all(out, spec.obs.high);
    out << " action ";
    if (spec.action.is_box()) {
      out << hex(spec.action.low.at(0)) << ' ' << hex(spec.action.high.at(0));
    } else {
      out << spec.action.choices.at(0);
    }
    out << " limit " << spec.time_limit;
  } else if (verb == "reset") {
    uint64_t seed = 0, index = 0;
    if (!(in >> seed >> index)) throw std::runtime_error("reset needs a seed and an index");
    rng = Rng(seed, stream_of(Purpose::kEnv, index));
    env.reset(state, rng);
    write_state_and_obs(out, env, state);
  } else {
    state = read_state(in, env);
    const double action = number(in);
    const auto choice = static_cast<int32_t>(action);
    const auto coordinate = static_cast<float>(action);
    const void* row = &choice;
    if (env.spec().action.is_box()) row = &coordinate;
    const Outcome outcome = env.step(state, ActionRow(row), rng);
    write_state_and_obs(out, env, state);
    out << ' ' << hex(outcome.reward) << ' ' << outcome.terminated;
  }
  out << '\n';
}

}  // namespace

int main() {
  const CartPole cartpole{Config(CartPole::schema())};
  const Pendulum pendulum{Config(Pendulum::schema())};
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::istringstream in(line);
      std::string verb;
      in >> verb;
      std::string env = verb;
      if (verb == "spec" || verb == "reset") in >> env;
      if (env == "cartpole") {
        answer(cartpole, verb, in, std::cout);
      } else if (env == "pendulum") {
        answer(pendulum, verb, in, std::cout);
      } else {
        throw std::runtime_error("no such env");
      }
    } catch (const std::exception& error) {
      std::cerr << "classic_stepper: " << error.what() << ": " << line << '\n';
      return 2;
    }
    // Answer before the next request is awaited, but not once per line of a block.
    if (std::cin.rdbuf()->in_avail() <= 0) std::cout.flush();
  }
  return 0;
}
