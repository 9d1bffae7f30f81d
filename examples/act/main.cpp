// Acts with a trained policy in a loop of its own, and beside it by the usual rule: heat while the
// room is too cold. Prints how far off the room was in either case.
//
//   act RUN, or RUN/checkpoints/step_N/model.safetensors
#include <array>
#include <cstdio>

#include "../thermostat/thermostat.h"
#include "flotilla/flotilla.h"

namespace {

using Obs = std::array<float, 3>;

template <class Choose>
double degrees_off(const Thermostat& home, const Choose& choose) {
  Thermostat::State state{.room = 18, .radiator = 18, .outside = 0};
  flotilla::Rng rng;
  double sum = 0;
  for (int minute = 0; minute < 240; ++minute) {
    Obs obs{};
    home.observe(state, flotilla::ObsRow(obs.data(), obs.size()));
    const int choice = choose(obs);
    sum -= static_cast<double>(home.step(state, flotilla::ActionRow(&choice), rng).reward);
  }
  return sum / 240;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw flotilla::Error(flotilla::ErrorCode::kUsage, "expected a run or a policy");
  const auto policy = flotilla::load_policy(argv[1]);
  const Thermostat home{flotilla::Config(Thermostat::schema())};
  const auto by_policy = [&](const Obs& obs) { return policy->predict(obs).discrete(); };
  const auto by_rule = [](const Obs& obs) { return obs[0] < 0 ? 1 : 0; };
  std::printf("off by %.2f degrees\nby the usual rule %.2f degrees\n", degrees_off(home, by_policy),
              degrees_off(home, by_rule));
} catch (const flotilla::Error& error) {
  std::fprintf(stderr, "act: %s\n", error.what());
  return flotilla::exit_status(error);
}
