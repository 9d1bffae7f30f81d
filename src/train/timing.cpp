#include "flotilla/train/timing.h"

#include <fmt/format.h>

#include <algorithm>

namespace flotilla {
namespace {

// A share that is worth a sentence; below it the time is spread evenly enough.
constexpr double kMuch = 0.3;

std::string advice_on_update(const RunShape& shape) {
  if (!shape.fused()) return "use policy=fused if the network allows it";
  if (shape.threads < shape.cores) {
    return fmt::format("raise threads from {} towards the {} cores", shape.threads, shape.cores);
  }
  return shape.faster_updates + " or make the network smaller, if learning allows it";
}

std::string advice_on_steps(const RunShape& shape) {
  if (shape.backend == "serial") return "use backend=threads";
  if (shape.backend == "processes") {
    return shape.workers < shape.cores
               ? fmt::format("raise workers from {} towards the {} cores", shape.workers,
                             shape.cores)
               : std::string("use backend=threads if the environment never crashes");
  }
  if (shape.threads < shape.cores) {
    return fmt::format("raise threads from {} towards the {} cores", shape.threads, shape.cores);
  }
  return "the environment itself is what there is to make faster";
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

std::string bottleneck(const Timing& timing, const RunShape& shape) {
  struct Cost {
    double seconds;
    const char* name;
    std::string advice;
  };
  const Cost costs[] = {
      {timing.update_s, "gradient descent", advice_on_update(shape)},
      {timing.step_s, "stepping environments", advice_on_steps(shape)},
      {timing.stage_s, "the common stage of the environments",
       shape.threads < shape.cores
           ? fmt::format("raise threads from {} towards the {} cores", shape.threads, shape.cores)
           : "make what it calls cheaper" +
                 (shape.stage_hint.empty() ? std::string() : ": " + shape.stage_hint)},
      {timing.infer_s, "acting",
       shape.fused() ? "use more envs per step (num_envs), up to some hundreds"
                     : "use policy=fused if the network allows it, or raise num_envs"},
      {timing.wait_s, "waiting for other threads or workers",
       shape.backend == "processes" ? "give workers slower environments or use backend=threads"
                                    : "lower threads or raise num_envs"},
      {timing.advantage_s, "advantage estimation", "raise horizon or num_envs less"},
      {timing.eval_s, "evaluation", "lower eval.episodes, or raise eval.every"},
      {timing.checkpoint_s, "writing checkpoints", "raise checkpoint.every"}};
  const Cost& worst = *std::ranges::max_element(costs, {}, &Cost::seconds);
  const double share = worst.seconds / std::max(timing.total_s(), 1e-9);
  if (share < kMuch) return "No single part takes more than a third of the time.";
  return fmt::format("{:.0f} % of the time is {}: to go faster, {}.", 100 * share, worst.name,
                     worst.advice);
}

}  // namespace flotilla
