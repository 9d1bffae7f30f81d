// Acts with a trained policy in a loop of its own, and beside it by the usual rule: heat while the
// room is too cold. Prints how far off the room was in either case.
//
//   act RUN/checkpoints/step_N/model.safetensors
#include <array>
#include <cstdio>
#include <span>

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
    const int32_t choice = choose(obs);
    sum -= static_cast<double>(home.step(state, flotilla::ActionRow(&choice), rng).reward);
  }
  return sum / 240;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw flotilla::Error(flotilla::ErrorCode::kUsage, "expected a policy file");
  const auto file = flotilla::read_policy_file(argv[1]);
  // The file knows the settings of its environment; with them the policy is checked to fit.
  flotilla::Config config(Thermostat::schema());
  config.load_yaml_text(file.origin.env_config, argv[1]);
  const auto type = flotilla::env_type<Thermostat>("thermostat", "");
  const auto spec = type.spec(config, file.origin.time_limit);
  const auto policy = flotilla::make_policy(file, spec, {});

  const auto by_policy = [&](const Obs& obs) {
    int32_t choice = 0;
    std::byte* out = std::as_writable_bytes(std::span(&choice, 1)).data();
    policy->act(
        0, {.count = 1, .obs = std::as_bytes(std::span(obs)).data(), .action = out, .latent = out},
        {.greedy = true});
    return choice;
  };
  const auto by_rule = [](const Obs& obs) { return obs[0] < 0 ? 1 : 0; };
  const Thermostat home(config);
  std::printf("off by %.2f degrees\nby the usual rule %.2f degrees\n", degrees_off(home, by_policy),
              degrees_off(home, by_rule));
} catch (const flotilla::Error& error) {
  std::fprintf(stderr, "act: %s\n", error.what());
  return flotilla::exit_status(error);
}
