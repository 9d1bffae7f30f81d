#include "flotilla/domains/dvrp/negotiation/days.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "flotilla/core/error.h"

namespace flotilla::dvrp {
namespace {

int32_t one_of(std::span<const uint8_t> mask, Rng& rng) {
  std::vector<int32_t> open;
  for (size_t action = 0; action < mask.size(); ++action) {
    if (mask[action] != 0) open.push_back(static_cast<int32_t>(action));
  }
  return open[rng.below(static_cast<uint32_t>(open.size()))];
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

Days::Days(const EnvType& type, const Config& config, Span numbers, uint64_t seed, int threads)
    : numbers_(numbers),
      env_(config),
      evaluator_(type, ending_at_failures(config), eval_options(numbers, seed, threads)) {
  evaluator_.set_episode_observer(episode_observer<Negotiation>(
      [this](int episode, const Negotiation::State& s) { keep(static_cast<size_t>(episode), s); }));
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

void Days::keep(size_t index, const Negotiation::State& s) {
  failed_[index] = s.failed != 0;
  Day& day = played_[index];
  day = {.asked = {.city = &data().city, .requests = {}},
         .granted = env_.fixed_requests(s),
         .accepted = s.accepted,
         .shifts = s.shifts,
         .shifted = s.shifted};
  for (int i = 0; i < s.fixed; ++i) day.asked.requests.push_back(env_.asked(s, i));
}

void Days::require_routes() const {
  const auto found = std::ranges::find(failed_, 1);
  if (found == failed_.end()) return;
  throw Error(ErrorCode::kEnvironment,
              fmt::format("day {}: no routes were found",
                          numbers_.begin + static_cast<int>(found - failed_.begin())));
}

}  // namespace flotilla::dvrp
