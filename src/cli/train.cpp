// flotilla train RUN: trains a policy and leaves a run directory.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/run_arguments.h"
#include "flotilla/command/status_line.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

// "  saving_pct 2.41 +- 0.30" of the episodes that ended last, where people watch such a number.
std::string headline_of(const EnvSpec& env, const Progress& progress) {
  if (progress.ended.count == 0) return "";
  for (size_t i = 0; i < progress.ended.metrics.size(); ++i) {
    if (env.metrics[i] != env.headline) continue;
    return fmt::format("  {} {}", env.headline,
                       with_interval(progress.ended.metrics[i], progress.ended.metrics_ci95[i]));
  }
  return "";
}

std::string status(const EnvSpec& env, const Progress& progress) {
  const double rate = static_cast<double>(progress.steps) / std::max(progress.wall_s, 1e-9);
  const double left_s = progress.fraction > 0 ? progress.wall_s * (1 / progress.fraction - 1) : 0;
  return fmt::format("{:>5.1f} %  {} steps  {:.1f} k steps/s  return {:.2f}{}  {:.0f} s left",
                     100 * progress.fraction, progress.steps, rate * 1e-3, progress.return_mean,
                     headline_of(env, progress), left_s);
}

void print_end(const Run& run) {
  const Trainer& trainer = run.trainer();
  const Progress& progress = trainer.progress();
  const Evaluation& eval = run.evaluation();
  fmt::print("{} steps, {}, {} in {:.2f} s: {:.1f} k steps/s\n", progress.steps,
             counted(progress.episodes, "episode"), counted(progress.updates, "update"),
             run.wall_s(), static_cast<double>(progress.steps) / progress.wall_s * 1e-3);
  if (progress.episodes == 0) {
    fmt::print("no episode ended");
  } else {
    fmt::print("return of the last {} episodes {:.2f}", std::min<int64_t>(progress.episodes, 100),
               progress.return_mean);
  }
  if (eval.episodes > 0) {
    fmt::print("; {} {}", counted(eval.episodes, "evaluation episode"),
               with_interval(eval.mean, eval.ci95));
  }
  if (progress.env_failures > 0) {
    fmt::print("\n{} steps of environments failed and were left out", progress.env_failures);
  }
  fmt::print("\n\n{}\n{}\n\n", trainer.timing().tree(),
             bottleneck(trainer.timing(), trainer.shape()));
  fmt::print("parameters {}\nrun directory {}\n", trainer.params_sha256(), run.path());
}

constexpr const char* kInterruptNotice =
    "\nflotilla: interrupted: this update ends, then a checkpoint is written (again: stop at "
    "once)\n";

std::unique_ptr<Run> open_run(const Program& program, const RunArguments& arguments,
                              const std::string& out) {
  if (!arguments.resume().empty()) {
    if (!out.empty()) throw Error(ErrorCode::kUsage, "--out and --resume exclude each other");
    const auto adjust = [&](Config& config) { arguments.adjust(program, config); };
    return Run::resume(program.registry, arguments.resume(), adjust, arguments.from_step(),
                       program.algorithms);
  }
  const Config config = arguments.config(program, false);
  return std::make_unique<Run>(
      RunConfig(env_of(program.registry, config), config, program.algorithms), out);
}

void print_begin(const Program& program, const Run& run) {
  say(run_header(run.config(), run.trainer().shape()) + "\n");
  say(fmt::format("memory: {:.0f} MB so far, {:.1f} MB of rollouts\n",
                  static_cast<double>(resident_bytes()) * 1e-6,
                  static_cast<double>(run.trainer().rollout_bytes()) * 1e-6));
  for (const Program::Remark& remark : program.remarks) {
    if (const std::string text = remark(run.config()); !text.empty()) log::warn(text);
  }
  if (const int64_t steps = run.trainer().progress().steps; steps > 0) {
    say(fmt::format("going on after {} steps\n", steps));
  }
  for (const std::string& change : run.changes()) say("changed: " + change + "\n");
}

// One line, as --json promises.
std::string on_one_line(const std::string& json) { return Json::parse(json).dump(); }

void train(const Program& program, const RunArguments& arguments, const std::string& out,
           bool json) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop training
  const std::unique_ptr<Run> run = open_run(program, arguments, out);
  if (run->was_finished()) {
    say(fmt::format("'{}' is finished: {} steps\n", run->path(), run->trainer().progress().steps));
    for (const std::string& change : run->changes()) say("without effect: " + change + "\n");
    if (json) {
      fmt::print("{}\n", on_one_line(run->summary()));
    }
    return;
  }
  print_begin(program, *run);
  StatusLine line;
  const EnvSpec& env = run->trainer().env_spec();
  run->train([&](const Progress& progress) {
    // Not before the first update: it may take long, and a checkpoint of where it began is there.
    wait_for_interrupted_work(kInterruptNotice);
    line.show([&] { return status(env, progress); });
  });
  line.clear();
  const std::string summary = run->finish();
  if (json) {
    fmt::print("{}\n", on_one_line(summary));
  } else {
    print_end(*run);
  }
}

}  // namespace

void add_train_command(Command& root, Program& program) {
  Command& command = root.add("train", "train a policy");
  struct State {
    explicit State(const Program& program) : run(RunArguments::For::kTraining, program) {}
    RunArguments run;
    std::string out;
    bool json = false;
  };
  auto state = std::make_shared<State>(program);
  state->run.add_to(command, program);
  command.option("--out", state->out, "directory of the run (default runs/NAME-seedS-TIME)");
  command.flag("--json", state->json, "print summary.json as one line on stdout");
  command.action([&program, state] { train(program, state->run, state->out, state->json); });
}

}  // namespace flotilla
