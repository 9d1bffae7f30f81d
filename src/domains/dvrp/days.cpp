#include "flotilla/domains/dvrp/days.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/train/evaluator.h"

namespace flotilla::dvrp {
namespace {

constexpr int kDaysAtOnce = 128;

using State = Negotiation::State;

// Some days that are negotiated side by side.
class Table {
 public:
  Table(const Negotiation& env, int first, int count, uint64_t seed)
      : env_(env),
        first_(first),
        states_(static_cast<size_t>(count)),
        columns_(env.spec().obs.elements()),
        obs_(states_.size() * columns_),
        masks_(states_.size() * kActions),
        actions_(states_.size()) {
    for (int i = 0; i < count; ++i) {
      rngs_.emplace_back(eval_seed(seed),
                         stream_of(Purpose::kEnv, static_cast<uint64_t>(first + i)));
      env_.reset(states_[static_cast<size_t>(i)], rngs_.back());
      pointers_.push_back(&states_[static_cast<size_t>(i)]);
    }
  }

  void step(int step, const Negotiator& negotiator, Stage<State>& stage) {
    for (size_t i = 0; i < states_.size(); ++i) {
      env_.observe(states_[i], ObsRow(&obs_[i * columns_], columns_));
      env_.mask(states_[i], MaskRow(&masks_[i * kActions], kActions));
    }
    negotiator({.first = first_, .step = step, .obs = obs_, .masks = masks_, .actions = actions_});
    for (size_t i = 0; i < states_.size(); ++i) env_.prepare(states_[i], row(i), rngs_[i]);
    stage.run(pointers_);
    for (size_t i = 0; i < states_.size(); ++i) {
      env_.step(states_[i], row(i), rngs_[i]);
      if (states_[i].failed == 0) continue;
      throw Error(ErrorCode::kEnvironment,
                  fmt::format("day {}: no routes were found", static_cast<size_t>(first_) + i));
    }
  }

  Day day(size_t i) const {
    const State& s = states_[i];
    Day day{.asked = {.city = &env_.data().city, .requests = {}},
            .granted = env_.fixed_requests(s),
            .accepted = s.accepted,
            .shifts = s.shifts,
            .shifted = s.shifted};
    for (int k = 0; k < s.fixed; ++k) day.asked.requests.push_back(env_.asked(s, k));
    return day;
  }

 private:
  ActionRow row(size_t i) const { return ActionRow(&actions_[i]); }

  const Negotiation& env_;
  const int first_;
  std::vector<State> states_;
  std::vector<State*> pointers_;
  std::vector<Rng> rngs_;
  size_t columns_;
  std::vector<float> obs_;
  std::vector<uint8_t> masks_;
  std::vector<int32_t> actions_;
};

int32_t one_of(std::span<const uint8_t> mask, Rng& rng) {
  std::vector<int32_t> open;
  for (size_t action = 0; action < mask.size(); ++action) {
    if (mask[action] != 0) open.push_back(static_cast<int32_t>(action));
  }
  return open[rng.below(static_cast<uint32_t>(open.size()))];
}

}  // namespace

Negotiator random_negotiator(uint64_t seed) {
  return [seed](const Offers& offers) {
    for (size_t i = 0; i < offers.actions.size(); ++i) {
      const auto day = static_cast<uint64_t>(offers.first) + i;
      Rng rng(seed, stream_of(Purpose::kAction, day), static_cast<uint64_t>(offers.step));
      offers.actions[i] = one_of(offers.masks.subspan(i * kActions, kActions), rng);
    }
  };
}

Negotiator policy_negotiator(const Policy& policy) {
  return [&policy](const Offers& offers) {
    auto* actions = reinterpret_cast<std::byte*>(offers.actions.data());
    policy.act(0,
               {.count = static_cast<int>(offers.actions.size()),
                .first_env = offers.first,
                .obs = reinterpret_cast<const std::byte*>(offers.obs.data()),
                .mask = offers.masks.data(),
                .action = actions,
                .latent = actions},
               {.greedy = true});
  };
}

std::vector<Day> play_days(const Negotiation& env, const Negotiator& negotiator, Span numbers,
                           uint64_t seed, ThreadPool& pool) {
  const auto stage = env.make_stage(pool);
  std::vector<Day> days;
  for (int first = numbers.begin; first < numbers.end; first += kDaysAtOnce) {
    const int some = std::min(kDaysAtOnce, numbers.end - first);
    Table table(env, first, some, seed);
    for (int step = 0; step < env.customers(); ++step) {
      if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
      table.step(step, negotiator, *stage);
    }
    for (size_t i = 0; i < static_cast<size_t>(some); ++i) days.push_back(table.day(i));
  }
  return days;
}

}  // namespace flotilla::dvrp
