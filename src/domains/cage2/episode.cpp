#include "flotilla/domains/cage2/episode.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/defender.h"
#include "flotilla/env/frame_stack.h"

namespace flotilla::cage2 {
namespace {

// The likeliest choice in a state.
int choose(const Cage2& env, const Policy& policy, const State& state,
           std::span<const std::byte> obs) {
  std::vector<uint8_t> mask(env.spec().action.mask_size());
  env.mask(state, mask);
  int32_t choice = 0;
  std::byte* out = std::as_writable_bytes(std::span(&choice, 1)).data();
  policy.act(0, {.count = 1, .obs = obs.data(), .mask = mask.data(), .action = out, .latent = out},
             {.greedy = true});
  return choice;
}

EpisodeStep step_of(const State& s, int blue, int cost_before) {
  EpisodeStep step{.blue = blue,
                   .red = {s.last_action, s.last_target},
                   .red_result = s.last_result,
                   .ot_running = s.ot_running,
                   .reward = (cost_before - s.cost) / 10.0,
                   .total = -s.cost / 10.0};
  std::ranges::transform(s.hosts, step.access.begin(), access_of);
  return step;
}

}  // namespace

Access access_of(const HostState& host) {
  return host.privileged > 0 ? Access::kPrivileged
         : host.users() > 0  ? Access::kUser
                             : Access::kNone;
}

Episode play_episode(const PolicyFile& file, const EpisodeOptions& options) {
  const Defender defender = defender_of(file);
  Config config = defender.config;
  if (!options.red.empty()) config.set("red", options.red);
  const Cage2 env(config);
  Rng rng(options.seed, stream_of(Purpose::kEnv, 0));
  RandomSource source(rng);
  State state{};
  env.reset(state, rng);
  Episode episode{.red = state.red, .seed = options.seed, .steps = {}};
  const int steps = options.steps.value_or(std::min(defender.time_limit, kMostEpisodeSteps));
  FrameWindow window(env.spec(), frame_stack_of(config));
  for (int i = 0; i < steps; ++i) {
    const auto obs =
        window.look(static_cast<uint32_t>(i), [&](ObsRow frame) { env.observe(state, frame); });
    const int blue = env.expanded(state, choose(env, *defender.policy, state, obs));
    const int cost_before = state.cost;
    env.play(state, blue, source);
    episode.steps.push_back(step_of(state, blue, cost_before));
  }
  return episode;
}

const char* name_of(RedAgent red) {
  constexpr std::array<const char*, 3> kNames = {"B_line", "Meander", "Sleep"};
  return kNames[static_cast<size_t>(red)];
}

std::string summary(const Episode& episode) {
  return fmt::format("{}, seed {}, {} {}: reward {:.1f}", name_of(episode.red), episode.seed,
                     episode.steps.size(), episode.steps.size() == 1 ? "step" : "steps",
                     episode.total());
}

}  // namespace flotilla::cage2
