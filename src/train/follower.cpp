#include "flotilla/train/follower.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/nn/policy_file.h"
#include "flotilla/train/checkpoint.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

constexpr const char* kOrigin = "rank 0";

void load(const OrderSheet& sheet, Trainer& trainer) {
  if (sheet.state.empty()) {
    load_policy(decode_policy(sheet.model, kOrigin), trainer.policy());
    return;
  }
  load_checkpoint({.step = 0,
                   .run_id = {},
                   .model = sheet.model,
                   .optimizer = sheet.optimizer,
                   .state = sheet.state},
                  kOrigin, trainer);
}

}  // namespace

void Follower::start(const OrderSheet& sheet) {
  const Config config = parse_run_config(registry_, sheet.config, kOrigin, algorithms_);
  run_.emplace(env_of(registry_, config), config, algorithms_);
  run_->policy_factory = policy_factory_;
  run_->cluster.collective = &collective_;
  // There is no run directory here to put them into.
  if (run_->vec.crash_dir.path() == kDefaultCrashDir) run_->vec.crash_dir = {};
  const std::vector<CurriculumPhase> phases = phases_of(*run_);
  const auto phase = static_cast<size_t>(sheet.phase);
  auto next = std::make_unique<Trainer>(in_phase(*run_, phases, phase, algorithms_));
  if (trainer_ != nullptr) next->take_over(*trainer_);
  trainer_ = std::move(next);
  const std::string own = trainer_->implementation();
  if (!sheet.implementation.empty() && own != sheet.implementation) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("this process computes by '{}', rank 0 by '{}', which differ in bits: give "
                    "both the same, or cluster.sum=fast",
                    own, sheet.implementation));
  }
}

void Follower::follow() {
  for (;;) {
    const OrderSheet sheet = take_order(collective_);
    if (sheet.order == Order::kEnd) return;
    if (sheet.order == Order::kStart) {
      start(sheet);
    } else if (sheet.order == Order::kLoad) {
      load(sheet, *trainer_);
    } else {
      trainer_->follow(sheet);
    }
  }
}

}  // namespace flotilla
