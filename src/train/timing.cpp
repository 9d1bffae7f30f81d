#include "flotilla/train/timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace flotilla {
namespace {

// A share that is worth a sentence; below it the time is spread evenly enough.
constexpr double kMuch = 0.3;

// Below it, waking other threads takes longer than what they would do.
constexpr double kWorthThreads_s = 50e-6;
// Of shorter runs the clocks of the system say too little.
constexpr double kLongEnough_s = 1;
// Less than that of a core is the noise of every machine.
constexpr double kNoise = 0.3;
// A team that gets less out of its threads has too little to do, and more of them would not help.
constexpr double kBusy = 0.7;

bool is_known(const CoreUse& use) {
  return use.wall_s >= kLongEnough_s && std::isfinite(use.others_s);
}

double held_by_others(const CoreUse& use) {
  return is_known(use) ? std::max(0.0, use.others_s) / use.wall_s : 0;
}

int cores_wanted(const RunShape& shape) { return std::max(shape.threads, shape.workers); }

// What to do about work that `count` threads or workers share: more of them, where there are cores
// for them and those that work now have enough to do.
std::optional<std::string> advice_to_raise(const char* key, int count, const RunShape& shape,
                                           const CoreUse& use) {
  const int room = shape.cores - static_cast<int>(held_by_others(use) + 1 - kNoise);
  if (count >= room) return std::nullopt;
  if (is_known(use) && count > 1 && use.own_s < kBusy * count * use.wall_s) return std::nullopt;
  return room == shape.cores
             ? fmt::format("raise {} from {} towards the {} cores", key, count, room)
             : fmt::format("raise {} from {} to {}: other programs hold the rest of the {} cores",
                           key, count, room, shape.cores);
}

std::string advice_on_update(const RunShape& shape, const CoreUse& use) {
  const std::string less =
      shape.faster_updates + " or make the network smaller, if learning allows it";
  if (shape.on_gpu()) return less;
  if (!shape.fused()) return "use policy=fused if the network allows it";
  return advice_to_raise("threads", shape.threads, shape, use).value_or(less);
}

std::string advice_on_steps(const RunShape& shape, const CoreUse& use) {
  const bool short_steps = shape.env_step_s > 0 && shape.env_step_s < kWorthThreads_s;
  const std::string own = "make the environment itself faster";
  if (shape.backend == "processes") {
    return advice_to_raise("workers", shape.workers, shape, use)
        .value_or(shape.foreign ? own : "use backend=threads if the environment never crashes");
  }
  if (short_steps) return "use more envs per step (num_envs): there is little to do in each";
  if (shape.backend == "serial") {
    return advice_to_raise("threads", 1, shape, use) ? "use backend=threads" : own;
  }
  return advice_to_raise("threads", shape.threads, shape, use).value_or(own);
}

std::string advice_on_stage(const RunShape& shape, const CoreUse& use) {
  const std::string hint = shape.stage_hint.empty() ? "" : ": " + shape.stage_hint;
  return advice_to_raise("threads", shape.threads, shape, use)
      .value_or("make what it calls cheaper" + hint);
}

// Whether the run would have used cores that others held.
bool is_crowded_out(const RunShape& shape, const CoreUse& use) {
  const double held = held_by_others(use);
  return held > kNoise && cores_wanted(shape) + held > shape.cores + kNoise;
}

}  // namespace

void Timing::save(Writer& writer) const {
  writer.f64("step_s", step_s);
  writer.f64("stage_s", stage_s);
  writer.f64("infer_s", infer_s);
  writer.f64("wait_s", wait_s);
  writer.f64("advantage_s", advantage_s);
  writer.f64("update_s", update_s);
  writer.f64("eval_s", eval_s);
  writer.f64("checkpoint_s", checkpoint_s);
}

void Timing::load(Reader& reader) {
  step_s = reader.f64("step_s");
  stage_s = reader.f64("stage_s");
  infer_s = reader.f64("infer_s");
  wait_s = reader.f64("wait_s");
  advantage_s = reader.f64("advantage_s");
  update_s = reader.f64("update_s");
  eval_s = reader.f64("eval_s");
  checkpoint_s = reader.f64("checkpoint_s");
}

std::string Timing::tree() const {
  const double total = std::max(total_s(), 1e-9);
  std::string text;
  const auto line = [&](int depth, const char* name, double seconds) {
    text += fmt::format("{:<20}{:>9.3f} s {:>5.1f} %\n",
                        std::string(2 * static_cast<size_t>(depth), ' ') + name, seconds,
                        100 * seconds / total);
  };
  line(0, "total", total_s());
  line(1, "start", start_s);
  line(1, "collect", collect_s());
  line(2, "step", step_s);
  if (stage_s > 0) line(2, "stage", stage_s);
  line(2, "infer", infer_s);
  line(2, "wait", wait_s);
  line(1, "learn", learn_s());
  line(2, "gae", advantage_s);
  line(2, "update", update_s);
  line(1, "eval", eval_s);
  line(1, "checkpoint", checkpoint_s);
  line(1, "other", other_s);
  return text;
}

std::string bottleneck(const Timing& timing, const RunShape& shape, const CoreUse& use) {
  if (is_crowded_out(shape, use)) {
    return fmt::format(
        "Other programs held {:.1f} of the {} cores; this run had {:.1f} where it could use {}: it "
        "goes faster without them.",
        held_by_others(use), shape.cores, use.own_s / use.wall_s,
        std::min(cores_wanted(shape), shape.cores));
  }
  struct Cost {
    double seconds;
    const char* name;
    std::string advice;
  };
  const Cost costs[] = {
      {timing.update_s, "gradient descent", advice_on_update(shape, use)},
      {timing.step_s, "stepping environments", advice_on_steps(shape, use)},
      {timing.stage_s, "the common stage of the environments", advice_on_stage(shape, use)},
      {timing.infer_s, "acting",
       shape.fused() || shape.on_gpu()
           ? "use more envs per step (num_envs), up to some hundreds"
           : "use policy=fused if the network allows it, or raise num_envs"},
      {timing.wait_s, "waiting for other threads or workers",
       shape.backend == "processes" ? "give workers slower environments or use backend=threads"
       : shape.backend == "actors"  ? "use more actors, or raise async.ring"
                                    : "lower threads or raise num_envs"},
      {timing.advantage_s, "advantage estimation", "raise n_steps or num_envs less"},
      {timing.eval_s, "evaluation", "lower eval.episodes, or raise eval_freq"},
      {timing.checkpoint_s, "writing checkpoints", "raise save_freq"}};
  const Cost& worst = *std::ranges::max_element(costs, {}, &Cost::seconds);
  const double share = worst.seconds / std::max(timing.total_s(), 1e-9);
  if (share < kMuch) return "No single part takes more than a third of the time.";
  return fmt::format("{:.0f} % of the time is {}: to go faster, {}.", 100 * share, worst.name,
                     worst.advice);
}

}  // namespace flotilla
