// flotilla train RUN: trains a policy and leaves a run directory.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include "flotilla/cli/run_arguments.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/version.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run_directory.h"

namespace flotilla {
namespace {

// A run does not end because nobody reads its messages any more.
void say(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

// A line that replaces itself on a terminal; in a pipe, a plain line now and then.
class ProgressLine {
 public:
  void show(const Progress& progress) {
    const uint64_t interval_ns = terminal_ ? 200'000'000 : 5'000'000'000;
    if (now_ns() - shown_ns_ < interval_ns) return;
    shown_ns_ = now_ns();
    const double rate = static_cast<double>(progress.steps) / std::max(progress.wall_s, 1e-9);
    const double left_s = progress.fraction > 0 ? progress.wall_s * (1 / progress.fraction - 1) : 0;
    const std::string text = fmt::format(
        "{:>5.1f} %  {} steps  {:.1f} k steps/s  return {:.2f}  {:.0f} s left",
        100 * progress.fraction, progress.steps, rate * 1e-3, progress.return_mean, left_s);
    say(terminal_ ? kClearLine + text : text + "\n");
  }
  void clear() const {
    if (terminal_) say(kClearLine);
  }

 private:
  static inline const std::string kClearLine = "\r\033[K";
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  uint64_t shown_ns_ = now_ns();
};

nlohmann::ordered_json eval_json(const Evaluation& eval) {
  return {{"episodes", eval.episodes},
          {"mean", eval.mean},
          {"std", eval.std},
          {"ci95", eval.ci95},
          {"mean_length", eval.mean_length}};
}

// A run that saw no episode end has no return.
nlohmann::ordered_json return_json(const Progress& progress, double value) {
  if (progress.episodes == 0) return nullptr;
  return value;
}

nlohmann::ordered_json summary_json(const RunConfig& run, const Trainer& trainer,
                                    const Evaluation& eval, double wall_s) {
  const Progress& progress = trainer.progress();
  const RunShape shape = trainer.shape();
  const Timing timing = trainer.timing();
  return {{"domain", run.type.name},
          {"algo", run.algo},
          {"backend", shape.backend},
          {"policy", shape.fused ? "fused" : "torch"},
          {"kernel", shape.policy_kernel},
          {"device", run.device},
          {"num_envs", shape.num_envs},
          {"workers", shape.workers},
          {"threads", shape.threads},
          {"seed", run.seed},
          {"steps", progress.steps},
          {"episodes", progress.episodes},
          {"updates", progress.updates},
          {"wall_s", wall_s},
          {"steps_per_s", static_cast<double>(progress.steps) / progress.wall_s},
          {"collect_s", timing.collect_s()},
          {"learn_s", timing.learn_s()},
          {"timing",
           {{"step_s", timing.step_s},
            {"infer_s", timing.infer_s},
            {"wait_s", timing.wait_s},
            {"gae_s", timing.advantage_s},
            {"update_s", timing.update_s},
            {"eval_s", timing.eval_s},
            {"other_s", timing.other_s}}},
          {"bottleneck", bottleneck(timing, shape)},
          {"env_failures", progress.env_failures},
          {"return_mean_100", return_json(progress, progress.return_mean)},
          {"return_best", return_json(progress, progress.return_best)},
          {"eval", eval_json(eval)},
          {"peak_rss_mb", static_cast<double>(peak_resident_bytes()) / 1e6},
          {"params_sha256", trainer.params_sha256()},
          {"config_sha256", run.config.sha256()},
          {"version", kVersionLine},
          {"machine", machine_json(shape)}};
}

void print_end(const Trainer& trainer, const Evaluation& eval, const std::string& path,
               double wall_s) {
  const Progress& progress = trainer.progress();
  fmt::print("{} steps, {} episodes, {} updates in {:.2f} s: {:.1f} k steps/s\n", progress.steps,
             progress.episodes, progress.updates, wall_s,
             static_cast<double>(progress.steps) / progress.wall_s * 1e-3);
  if (progress.episodes == 0) {
    fmt::print("no episode ended");
  } else {
    fmt::print("return of the last {} episodes {:.2f}", std::min<int64_t>(progress.episodes, 100),
               progress.return_mean);
  }
  if (eval.episodes > 0) {
    fmt::print("; {} evaluation episodes {:.2f} +- {:.2f}", eval.episodes, eval.mean, eval.ci95);
  }
  if (progress.env_failures > 0) {
    fmt::print("\n{} steps of environments failed and were left out", progress.env_failures);
  }
  fmt::print("\n\n{}\n{}\n\n", trainer.timing().tree(),
             bottleneck(trainer.timing(), trainer.shape()));
  fmt::print("parameters {}\nrun directory {}\n", trainer.params_sha256(), path);
}

void train(const Program& program, const RunArguments& arguments, std::string out, bool json) {
  const uint64_t start = now_ns();
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop training
  const Config config = arguments.config(program.registry, false);
  const RunConfig run(env_of(program.registry, config), config);
  Trainer trainer(run);
  if (out.empty()) out = make_run_path(run.type.name, run.seed);
  const RunDirectory directory(out);
  if (run.vec.crash_dir == kDefaultCrashDir) {
    trainer.set_crash_dir(out + "/" + kDefaultCrashDir);
  }
  directory.write("config.yaml", run.config.to_yaml());
  say(run_header(run, trainer.shape()) + "\n");
  ProgressLine line;
  trainer.train([&line](const Progress& progress) { line.show(progress); });
  line.clear();
  const Evaluation eval = trainer.evaluate();
  const double wall_s = static_cast<double>(now_ns() - start) * 1e-9;
  const nlohmann::ordered_json summary = summary_json(run, trainer, eval, wall_s);
  directory.write("summary.json", summary.dump(2) + "\n");
  if (json) {
    fmt::print("{}\n", summary.dump());
  } else {
    print_end(trainer, eval, directory.path(), wall_s);
  }
}

}  // namespace

void add_train_command(CLI::App& app, Program& program) {
  CLI::App* command = app.add_subcommand("train", "train a policy");
  struct State {
    RunArguments run{RunArguments::Limits::kOffered};
    std::string out;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  state->run.add_to(*command);
  command->add_option("--out", state->out, "directory of the run (default runs/NAME-seedS-TIME)");
  command->add_flag("--json", state->json, "print summary.json as one line on stdout");
  command->callback([&program, state] { train(program, state->run, state->out, state->json); });
}

}  // namespace flotilla
