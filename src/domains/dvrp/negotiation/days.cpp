#include "flotilla/domains/dvrp/negotiation/days.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/domains/dvrp/negotiation/trim.h"
#include "flotilla/env/frame_stack.h"

namespace flotilla::dvrp {
namespace {

int32_t one_of(std::span<const uint8_t> mask, Rng& rng) {
  std::vector<int32_t> open;
  for (size_t action = 0; action < mask.size(); ++action) {
    if (mask[action] != 0) open.push_back(static_cast<int32_t>(action));
  }
  return open[rng.below(static_cast<uint32_t>(open.size()))];
}

// `saved`: by action, what it saves against no shift, as the observation `detours` ends.
int32_t least_detour(std::span<const float> saved, std::span<const uint8_t> mask) {
  constexpr float kNoGain = 1e-3F;  // half hours: what may be rounding
  int best = kNoShift;
  float most = 0;
  for (int action = 0; action < kActions; ++action) {
    const auto at = static_cast<size_t>(action);
    if (action == kNoShift || mask[at] == 0 || saved[at] <= kNoGain) continue;
    const bool same = best != kNoShift && std::abs(saved[at] - most) <= kNoGain;
    if (same ? minutes_of(action) >= minutes_of(best) : saved[at] < most) continue;
    best = action;
    most = saved[at];
  }
  return best;
}

// A day without routes ends there, whatever it does in training.
Config ending_at_failures(Config config) {
  config.set("failure", "penalty");
  return config;
}

EvalOptions eval_options(Span numbers, uint64_t seed, int threads) {
  EvalOptions options;
  options.episodes = numbers.size();
  options.seed = eval_seed(seed);
  options.first_env = numbers.begin;
  options.one_each = true;
  options.vec.backend = Backend::kThreads;
  options.vec.threads = threads;
  return options;
}

}  // namespace

Player random_negotiator(uint64_t seed) {
  return [seed](const ActRows& rows, uint64_t step) {
    auto* actions = reinterpret_cast<int32_t*>(rows.action);
    for (int i = 0; i < rows.count; ++i) {
      Rng rng(seed, stream_of(Purpose::kAction, static_cast<uint64_t>(rows.first_env + i)), step);
      actions[i] = one_of({rows.mask + static_cast<size_t>(i) * kActions, kActions}, rng);
    }
  };
}

Player policy_negotiator(const ActingPolicy& policy) {
  return [&policy](const ActRows& rows, uint64_t) { policy.act(0, rows, {.greedy = true}); };
}

Player least_detour_negotiator(size_t numbers) {
  return [numbers](const ActRows& rows, uint64_t) {
    const auto* shown = reinterpret_cast<const float*>(rows.obs);
    auto* actions = reinterpret_cast<int32_t*>(rows.action);
    for (int i = 0; i < rows.count; ++i) {
      const auto row = static_cast<size_t>(i);
      const std::span<const float> observation(shown + row * numbers, numbers);
      actions[i] = least_detour(observation.last(kActions), {rows.mask + row * kActions, kActions});
    }
  };
}

Days::Days(const EnvType& type, const Config& config, Span numbers, uint64_t seed, int threads)
    : type_(type),
      config_(config),
      numbers_(numbers),
      seed_(seed),
      threads_(threads),
      env_(config),
      evaluator_(type, ending_at_failures(config), eval_options(numbers, seed, threads)) {
  evaluator_.set_episode_observer(episode_observer<Negotiation>(
      [this](int episode, const Negotiation::State& s) { keep(static_cast<size_t>(episode), s); }));
}

std::unique_ptr<Days> Days::with_detours() const {
  Config config = config_;
  config.set("observation", "detours");
  config.set(kFrameStackKey, "1");
  auto days = std::make_unique<Days>(type_, config, numbers_, seed_, threads_);
  if (memory() != nullptr) days->memory()->set_knowledge(memory()->knowledge());
  return days;
}

std::vector<Day> Days::play(const Player& negotiator) {
  const auto days = static_cast<size_t>(count());
  played_.assign(days, {});
  failed_.assign(days, 0);
  const Player player = [&](const ActRows& rows, uint64_t step) {
    require_routes();
    negotiator(rows, step);
  };
  evaluator_.play(player, true);
  require_routes();
  return std::exchange(played_, {});
}

void Days::trim(Day& day, const Routes& routes) const {
  day.granted =
      dvrp::trim(day.asked, std::move(day.granted), data().travellers, routes, granting()).granted;
}

void Days::keep(size_t index, const Negotiation::State& s) {
  failed_[index] = s.failed != 0;
  Day& day = played_[index];
  day = {.asked = env_.asked_requests(s),
         .granted = env_.fixed_requests(s),
         .accepted = s.accepted,
         .shifts = s.shifts,
         .shifted = s.shifted};
}

void Days::require_routes() const {
  const auto found = std::ranges::find(failed_, 1);
  if (found == failed_.end()) return;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("day {}: no routes were found",
                          numbers_.begin + static_cast<int>(found - failed_.begin())));
}

}  // namespace flotilla::dvrp
