// Records what a CAGE 2 policy is shown and does, so that a script can hold its own against it.
//
//   defender_recorder FILE EPISODES   of 100 steps; lines: "reset" before each, and "table action"
//
// The table has a hexadecimal digit per host, the action is one of the 145. Episodes take turns
// with attackers and versions.
#include <fmt/format.h>

#include <iostream>
#include <string>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/defender.h"

namespace {

using namespace flotilla;
using namespace flotilla::cage2;

std::string digits(const State& state) {
  std::string text;
  for (int host = 0; host < kHosts; ++host) text += fmt::format("{:x}", state.nibble(host));
  return text;
}

int likeliest(const Cage2& env, const Policy& policy, const State& state) {
  std::vector<float> obs(env.spec().obs.elements());
  std::vector<uint8_t> mask(env.spec().action.mask_size());
  env.observe(state, {obs.data(), obs.size()});
  env.mask(state, mask);
  int32_t choice = 0;
  std::byte* out = std::as_writable_bytes(std::span(&choice, 1)).data();
  policy.act(0,
             {.count = 1,
              .obs = std::as_bytes(std::span(obs)).data(),
              .mask = mask.data(),
              .action = out,
              .latent = out},
             {.greedy = true});
  return choice;
}

void record(const Defender& defender, uint64_t episode) {
  Config config = defender.config;
  config.set("red", episode % 2 == 0 ? "bline" : "meander");
  config.set("version", episode % 4 < 2 ? "head" : "legacy");
  const Cage2 env(config);
  Rng rng(episode, stream_of(Purpose::kEnv, 0));
  RandomSource source(rng);
  State state{};
  env.reset(state, rng);
  std::cout << "reset\n";
  for (int i = 0; i < 100; ++i) {
    const std::string table = digits(state);
    const int action = env.expanded(state, likeliest(env, *defender.policy, state));
    std::cout << table << " " << action << "\n";
    env.play(state, action, source);
  }
}

}  // namespace

int main(int, char** arguments) {
  const Defender defender = defender_of(read_policy_file(arguments[1]));
  const uint64_t episodes = std::stoull(arguments[2]);
  for (uint64_t i = 0; i < episodes; ++i) record(defender, i);
}
