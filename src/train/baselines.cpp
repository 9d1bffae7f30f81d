#include "flotilla/train/baselines.h"

#include <algorithm>

#include "flotilla/env/actions.h"

namespace flotilla {
namespace {

Player constant_player(int choice) {
  return [choice](const ActRows& rows, uint64_t) {
    std::fill_n(reinterpret_cast<int32_t*>(rows.action), rows.count, choice);
  };
}

}  // namespace

Player random_player(const EnvSpec& spec, uint64_t seed) {
  return [spec, seed](const ActRows& rows, uint64_t step) {
    random_actions(spec, {0, rows.count}, seed, step, rows.mask, rows.action, rows.first_env);
  };
}

std::optional<ConstantPlay> best_constant(Evaluator& evaluator, const EnvSpec& spec) {
  if (spec.action.kind != ActionKind::kDiscrete || spec.masked()) return std::nullopt;
  const int choices = spec.action.choices[0];
  if (choices > kMostConstants) return std::nullopt;
  std::optional<ConstantPlay> best;
  for (int choice = 0; choice < choices; ++choice) {
    const Evaluation eval = evaluator.play(constant_player(choice), true);
    if (!best || eval.mean > best->eval.mean) best = {choice, eval};
  }
  return best;
}

}  // namespace flotilla
