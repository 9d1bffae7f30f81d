#include "flotilla/domains/funding/evaluation/windows.h"

#include <algorithm>
#include <span>

namespace flotilla::funding {
namespace {

constexpr int kFunding8h = 5;  // of a pair's numbers

int32_t best_apr_action(std::span<const float> obs, std::span<const uint8_t> mask,
                        const Scaler& scaler, double fees) {
  for (int i = 0; i < kMostPairs; ++i) {
    const size_t pair = static_cast<size_t>(kFirstPair + i * kPairNumbers);
    if (obs[pair] != 0 && obs[pair + kFunding8h] < 0) return kFirstExit + i;
  }
  for (int row = 0; row < kShown; ++row) {
    const double scaled =
        static_cast<double>(obs[static_cast<size_t>(kFirstRow + row * kFeatures)]);
    if (scaler.mean[0] + scaler.deviation[0] * scaled <= fees) break;  // the others promise less
    for (int size = kSizes - 1; size >= 0; --size) {
      const int32_t action = kFirstEntry + size * kShown + row;
      if (mask[static_cast<size_t>(action)] != 0) return action;
    }
  }
  return 0;
}

// The same trader, with his actions kept.
Player noting(const Player& trader, std::vector<Window>& windows) {
  return [&trader, &windows](const ActRows& rows, uint64_t step) {
    trader(rows, step);
    const auto* actions = reinterpret_cast<const int32_t*>(rows.action);
    for (int i = 0; i < rows.count; ++i) {
      windows[static_cast<size_t>(rows.first_env + i)].actions.push_back(actions[i]);
    }
  };
}

}  // namespace

Windows::Windows(const EnvType& type, const Config& config, int count, uint64_t seed)
    : type_(type), config_(config), count_(count), seed_(seed), env_(config) {}

std::vector<Window> Windows::play(const Player& trader) const {
  EvalOptions options;
  options.episodes = count_;
  options.seed = seed_;
  options.one_each = true;
  Evaluator evaluator(type_, config_, options);
  std::vector<Window> windows(static_cast<size_t>(count_));
  evaluator.set_episode_observer(
      episode_observer<Funding>([&](int episode, const Funding::State& s) {
        const double capital = env_.initial_capital();
        Window& window = windows[static_cast<size_t>(episode)];
        window.begin = s.begin;
        window.config = s.config;
        window.book = s.book;
        window.pnl_pct = 100 * (equity_of(s.book) - capital) / capital;
      }));
  evaluator.play(noting(trader, windows), true);
  return windows;
}

Player policy_trader(const ActingPolicy& policy) {
  return [&policy](const ActRows& rows, uint64_t) { policy.act(0, rows, {.greedy = true}); };
}

Player cash_trader() {
  return [](const ActRows& rows, uint64_t) {
    std::fill_n(reinterpret_cast<int32_t*>(rows.action), rows.count, 0);
  };
}

Player best_apr_trader(const Scaler& scaler, const Rules& rules) {
  const double fees = 100 * 4 * rules.fee;  // percent of S: two legs, in and out
  return [scaler, fees](const ActRows& rows, uint64_t) {
    const auto* seen = reinterpret_cast<const float*>(rows.obs);
    auto* actions = reinterpret_cast<int32_t*>(rows.action);
    for (int i = 0; i < rows.count; ++i) {
      const auto row = static_cast<size_t>(i);
      actions[i] = best_apr_action({seen + row * kObserved, kObserved},
                                   {rows.mask + row * kActions, kActions}, scaler, fees);
    }
  };
}

}  // namespace flotilla::funding
