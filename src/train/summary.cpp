#include "flotilla/train/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"

namespace flotilla {
namespace {

// A run that saw no episode end has no return.
Json return_json(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

Json best_json(const std::optional<BestEvaluation>& best) {
  if (!best) return nullptr;
  return {{"step", best->step}, {"mean", best->mean}};
}

}  // namespace

std::string run_header(const RunConfig& run, const RunShape& shape) {
  std::string workers = shape.workers > 0 ? ", " + counted(shape.workers, "worker") : std::string();
  if (const Collective& all = *run.cluster.collective; all.size() > 1) {
    workers += fmt::format(", one of {} processes by {}", all.size(), all.way());
  }
  if (run.asynchronous()) {
    workers += ", " + counted(run.vec.groups, "actor");
    workers += run.async.fixed ? fmt::format(", lag {}", run.async.lag) : " (not repeatable)";
  }
  std::string threads = counted(shape.threads, "thread");
  if (shape.learner_threads != shape.threads) {
    threads +=
        fmt::format(" ({} learn{})", shape.learner_threads, shape.learner_threads == 1 ? "s" : "");
  }
  const Torso torso = run.network.torso;
  return fmt::format(
      "{} x {}, {} back end{}, {}; {}, {}-{}{} {}{}, {} (policy={}); seed {}", shape.num_envs,
      run.type.name, shape.backend, workers, threads, run.algorithm.name, run.network.inputs,
      torso == Torso::kNone ? "" : std::string(kTorsoNames[static_cast<int>(torso)]) + "-",
      fmt::join(run.network.hidden, "-"),
      run.network.activation == Activation::kTanh ? "tanh" : "relu",
      run.network.shared ? " shared" : "", shape.policy.name, run.policy, run.seed);
}

Json machine_json(const RunShape& shape) {
  Json json = {{"cpu", cpu_model()},      {"cores", cpu_count()}, {"gpu", nullptr},
               {"compiler", __VERSION__}, {"torch", nullptr},     {"blas_kernel", nullptr}};
  const Implementation& policy = shape.policy;
  if (!policy.torch.empty()) json["torch"] = policy.torch;
  if (!policy.matrix_library.empty()) json["blas_kernel"] = policy.matrix_library;
  if (policy.memory == Memory::kCuda) {
    if (const std::string gpu = gpu_model(); !gpu.empty()) json["gpu"] = gpu;
  }
  return json;
}

Json eval_json(const Evaluation& eval, const EnvSpec& env) {
  Json metrics = Json::object();
  for (size_t i = 0; i < eval.metrics.size(); ++i) metrics[env.metrics[i]] = eval.metrics[i];
  return {{"episodes", eval.episodes},
          {"mean", eval.mean},
          {"std", eval.std},
          {"ci95", eval.ci95},
          {"mean_length", eval.mean_length},
          {"metrics", metrics}};
}

Json summary_json(const RunConfig& run, const Trainer& trainer, const Evaluation& eval,
                  const std::optional<BestEvaluation>& best, double wall_s,
                  const std::string& ended_by) {
  const Progress& progress = trainer.progress();
  const RunShape shape = trainer.shape();
  const Timing timing = trainer.timing();
  const CoreUse use = trainer.core_use();
  return {{"domain", run.type.name},
          {"algo", run.algorithm.name},
          {"backend", shape.backend},
          {"policy", shape.policy.kind},
          {"kernel", shape.policy.name},
          {"device", run.device},
          {"num_envs", shape.num_envs},
          {"workers", shape.workers},
          {"threads", shape.threads},
          {"learner_threads", shape.learner_threads},
          {"seed", run.seed},
          {"steps", progress.steps},
          {"episodes", progress.episodes},
          {"updates", progress.updates},
          {"ended_by", ended_by},
          {"wall_s", wall_s},
          {"steps_per_s", static_cast<double>(progress.steps) / progress.wall_s},
          {"final_steps_per_s", progress.steps_per_s},
          {"collect_s", timing.collect_s()},
          {"learn_s", timing.learn_s()},
          {"timing",
           {{"start_s", timing.start_s},
            {"step_s", timing.step_s},
            {"infer_s", timing.infer_s},
            {"wait_s", timing.wait_s},
            {"gae_s", timing.advantage_s},
            {"update_s", timing.update_s},
            {"eval_s", timing.eval_s},
            {"checkpoint_s", timing.checkpoint_s},
            {"other_s", timing.other_s}}},
          {"bottleneck", bottleneck(timing, shape, use)},
          {"env_failures", progress.env_failures},
          {"return_mean_100", return_json(progress.return_mean)},
          {"return_best", return_json(progress.return_best)},
          {"eval", eval_json(eval, trainer.env_spec())},
          {"best", best_json(best)},
          {"peak_rss_mb", static_cast<double>(peak_resident_bytes()) / 1e6},
          {"cpu_percent", 100 * use.own_s / use.wall_s},
          {"params_sha256", trainer.params_sha256()},
          {"config_sha256", run.config.sha256()},
          {"version", kVersionLine},
          {"machine", machine_json(shape)}};
}

}  // namespace flotilla
