#include "flotilla/train/collector.h"

#include "flotilla/core/clock.h"

namespace flotilla {
namespace {

// Multiplications and additions of acting for which other threads are woken: some 0.1 ms of one.
constexpr double kWorthATeam = 2e6;

}  // namespace

Collector::Collector(VecEnv& vec, Rollout& rollout, const ActingPolicy& policy,
                     const BatchNeeds& needs, uint64_t seed, ThreadPool* pool)
    : vec_(vec),
      rollout_(rollout),
      policy_(policy),
      acting_(vec, needs, seed),
      pool_(vec.team() == nullptr ? pool : vec.team()),
      threads_(pool_ == nullptr ? 1 : pool_->threads()),
      final_values_(static_cast<size_t>(rollout.parts())) {}

bool Collector::plays_alone() const {
  const bool all_threads = vec_.team() != nullptr || threads_ == 1;
  return vec_.plays() && all_threads && policy_.rows_are_independent();
}

void Collector::act(int part, int step, Span envs) {
  const uint64_t start = part == 0 ? now_ns() : 0;
  acting_.act(policy_, part, rollout_, envs, step, steps_, epsilon_);
  if (part == 0) infer_ns_ += now_ns() - start;
}

void Collector::begin(int group, int step) {
  turns_[group] = {this, step};
  const auto act_for = [](void* context, int part, Span envs) {
    const Turn& turn = *static_cast<const Turn*>(context);
    turn.collector->act(part, turn.step, envs);
  };
  Actor actor{act_for, &turns_[group]};
  const Span envs = vec_.group(group);
  if (envs.size() / threads_ < policy_.rows_per_part()) {
    act(0, step, envs);
    actor = {};
  } else if (vec_.team() == nullptr && threads_ > 1 &&
             policy_.spec().forward_macs() * envs.size() >= kWorthATeam) {
    const uint64_t start = now_ns(), waited = pool_->waited_ns();
    pool_->for_each(threads_, [&](int, int part) {
      acting_.act(policy_, part, rollout_, part_of(envs, part, threads_), step, steps_, epsilon_);
    });
    infer_ns_ += now_ns() - start - (pool_->waited_ns() - waited);
    actor = {};
  }
  vec_.begin(group, {rollout_.actions(step)}, rollout_.view(step), actor);
}

bool Collector::stepped(int part, int step, Span envs) {
  rollout_.harvest(step, envs, part);
  return step + 1 < rollout_.horizon();
}

void Collector::collect(float epsilon) {
  const uint64_t start = now_ns();
  epsilon_ = epsilon;
  for (int part = 0; part < rollout_.parts(); ++part) rollout_.cuts(part).clear();
  if (plays_alone()) {
    vec_.play(*this);
  } else {
    step_together();
  }
  steps_ += static_cast<uint64_t>(rollout_.horizon());
  value_ends();
  total_ns_ += now_ns() - start;
}

void Collector::step_together() {
  const int groups = vec_.groups(), horizon = rollout_.horizon();
  const auto finish = [&](int group, int step) {
    vec_.wait(group);
    rollout_.harvest(step, vec_.group(group));
  };
  for (int g = 0; g < groups; ++g) begin(g, 0);
  for (int step = 1; step < horizon; ++step) {
    for (int g = 0; g < groups; ++g) {
      finish(g, step - 1);
      begin(g, step);
    }
  }
  for (int g = 0; g < groups; ++g) finish(g, horizon - 1);
}

void Collector::value_ends() {
  const auto waited_ns = [this] { return pool_ == nullptr ? 0 : pool_->waited_ns(); };
  const uint64_t start = now_ns(), waited = waited_ns();
  const BatchNeeds& needs = acting_.needs();
  const Span envs{0, rollout_.num_envs()};
  const auto value_part = [&](int part, int parts) {
    const auto index = static_cast<size_t>(part);
    if (needs.values) acting_.value_last(policy_, part, rollout_, part_of(envs, part, parts));
    if (needs.cut_values) acting_.value_cuts(policy_, part, rollout_, part, final_values_[index]);
  };
  if (plays_alone() && threads_ > 1) {
    pool_->for_each(threads_, [&](int, int part) { value_part(part, threads_); });
  } else {
    value_part(0, 1);
  }
  infer_ns_ += now_ns() - start - (waited_ns() - waited);
}

Collector::Times Collector::take_times() {
  const Times times{static_cast<double>(infer_ns_) * 1e-9, static_cast<double>(total_ns_) * 1e-9};
  infer_ns_ = total_ns_ = 0;
  return times;
}

}  // namespace flotilla
