// flotilla train RUN: trains a policy and leaves a run directory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include "flotilla/cli/commands.h"
#include "flotilla/command/run_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

// "saving_pct 2.41 +- 0.30" of the episodes that ended last, where people watch such a number.
std::string headline_of(const EnvSpec& env, const Progress& progress) {
  if (progress.episodes == 0 && !env.headline.empty()) return env.headline + " -";
  if (progress.ended.count == 0) return "";
  for (size_t i = 0; i < progress.ended.metrics.size(); ++i) {
    if (env.metrics[i] != env.headline) continue;
    return fmt::format("{} {}", env.headline,
                       with_interval(progress.ended.metrics[i], progress.ended.metrics_ci95[i]));
  }
  return "";
}

// "475.21", or "-" before an episode has ended.
std::string return_of(const Progress& progress) {
  return progress.episodes == 0 ? "-" : number_or_dash("{:.2f}", progress.return_mean);
}

// Where a process began to train, from which it tells its speed: a run may have trained before.
struct Beginning {
  int64_t steps = 0;
  uint64_t time_ns = now_ns();
};

Status status_of(const EnvSpec& env, const Progress& progress, const Beginning& begin) {
  const double seconds = static_cast<double>(now_ns() - begin.time_ns) * 1e-9;
  Status status{.fraction = progress.fraction};
  if (progress.fraction > 0) status.left_s = progress.wall_s * (1 / progress.fraction - 1);
  if (std::string headline = headline_of(env, progress); !headline.empty()) {
    status.facts.push_back(std::move(headline));
  }
  status.facts.push_back("return " + return_of(progress));
  status.facts.push_back(rate(static_cast<double>(progress.steps - begin.steps) / seconds) +
                         " steps/s");
  status.facts.push_back(grouped(progress.steps) + " steps");
  return status;
}

void print_end(const Run& run) {
  const Trainer& trainer = run.trainer();
  const Progress& progress = trainer.progress();
  const Evaluation& eval = run.evaluation();
  std::string text =
      fmt::format("{} steps, {}, {} in {:.2f} s: {} steps/s\n", progress.steps,
                  counted(progress.episodes, "episode"), counted(progress.updates, "update"),
                  run.wall_s(), rate(static_cast<double>(progress.steps) / progress.wall_s));
  text += progress.episodes == 0
              ? std::string("no episode ended")
              : fmt::format("return of the last {} episodes {}",
                            std::min<int64_t>(progress.episodes, 100), return_of(progress));
  if (eval.episodes > 0) {
    text += fmt::format("; {} {}", counted(eval.episodes, "evaluation episode"),
                        with_interval(eval.mean, eval.ci95));
  }
  if (run.stopped_early()) text += fmt::format("\nended by {}", run.ended_by());
  if (progress.env_failures > 0) {
    text +=
        fmt::format("\n{} steps of environments failed and were left out", progress.env_failures);
  }
  text += fmt::format("\n\n{}\n{}\n\n", trainer.timing().tree(),
                      bottleneck(trainer.timing(), trainer.shape(), trainer.core_use()));
  text += fmt::format("parameters {}\nrun directory {}\n", trainer.params_sha256(),
                      for_terminal(run.path(), Lines::kOne));
  display(text, 0);
}

// Where it may take a while: training is over, but the run is not.
void announce_evaluation(const Run& run) {
  const int episodes = run.config().eval.episodes;
  const double seconds = run.trainer().expected_eval_s();
  if (episodes == 0 || seconds < 1) return;
  say(fmt::format("trained; now {} to evaluate the policy{}\n", counted(episodes, "episode"),
                  std::isfinite(seconds) ? ", about " + rough_time(seconds) : ""));
}

constexpr const char* kInterruptNotice =
    "flotilla: interrupted: this update ends, then a checkpoint is written\n"
    "  (again: stop at once)\n";

std::unique_ptr<Run> open_run(const Program& program, const RunArguments& arguments,
                              const std::string& out) {
  if (!arguments.resume().empty()) {
    if (!out.empty()) throw Error(ErrorCode::kUsage, "--out and --resume exclude each other");
    arguments.admit();
    const auto adjust = [&](Config& config) { arguments.adjust(program, config); };
    return Run::resume(program.registry, arguments.resume(), adjust, arguments.from_step(),
                       program.algorithms, program.policy_factory);
  }
  const Config config = arguments.config(program, false);
  RunConfig run(env_of(program.registry, config), config, program.algorithms);
  run.policy_factory = program.policy_factory;
  return std::make_unique<Run>(run, out, program.algorithms);
}

void print_begin(const Program& program, const Run& run, bool resumed) {
  say(run_header(run.config(), run.trainer().shape()) + "\n");
  say(fmt::format("memory: {:.0f} MB so far, {:.1f} MB of rollouts\n",
                  static_cast<double>(resident_bytes()) * 1e-6,
                  static_cast<double>(run.trainer().rollout_bytes()) * 1e-6));
  if (!run.trainer().keeps_states()) {
    const std::string& env = run.config().type.name;
    say(fmt::format("the states of {} cannot be saved: a resumed run begins new episodes\n",
                    is_python_env(env) ? "Python environments" : "'" + env + "' environments"));
  }
  if (const std::vector<std::string> keys = run.config().without_effect(); !keys.empty()) {
    log::warn("without effect with backend=" + run.config().config.get_text("backend") + ": " +
              join(keys, ", "));
  }
  for (const Program::Remark& remark : program.remarks) {
    if (const std::string text = remark(run.config()); !text.empty()) log::warn(text);
  }
  if (resumed) say(fmt::format("going on after {} steps\n", run.trainer().progress().steps));
  for (const std::string& change : run.changes()) say("changed: " + change + "\n");
}

void train_shown(Run& run) {
  const Beginning begin{.steps = run.trainer().progress().steps};
  Activity training("");
  std::optional<Activity> first(std::in_place, "first update");
  run.train([&](const Progress& progress) {
    // Not before the first update: it may take long, and a checkpoint of where it began is there.
    wait_for_interrupted_work(kInterruptNotice);
    first.reset();
    training.tell([&] { return status_of(run.trainer().env_spec(), progress, begin); });
  });
}

// Of a run that had trained before.
std::string what_ended(const Run& run) {
  const std::string by = run.ended_by();
  if (run.stopped_early() || by == "callback") return "ended by " + by;
  return fmt::format("{} is reached ({} of training; limits count from the run's beginning)", by,
                     rough_time(run.trainer().progress().wall_s));
}

// One line, as --json promises.
std::string on_one_line(const std::string& json) { return Json::parse(json).dump(); }

void train(const Program& program, const RunArguments& arguments, const std::string& out,
           bool json) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop training
  const std::unique_ptr<Run> run = [&] {
    const Activity starting("starting");
    return open_run(program, arguments, out);
  }();
  if (run->was_finished()) {
    say(fmt::format("'{}' is finished: {} steps, {}\n", run->path(),
                    run->trainer().progress().steps, what_ended(*run)));
    for (const std::string& change : run->changes()) say("without effect: " + change + "\n");
    if (json) {
      display_data(on_one_line(run->summary()) + "\n");
    }
    return;
  }
  print_begin(program, *run, !arguments.resume().empty());
  if (!run->ended_by().empty()) say("nothing is left to train: " + what_ended(*run) + "\n");
  train_shown(*run);
  announce_evaluation(*run);
  const std::string summary = run->finish();
  if (json) {
    display_data(on_one_line(summary) + "\n");
  } else {
    print_end(*run);
    for (const Program::Ending& ending : program.endings) fmt::print("{}", ending(*run));
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
  command.option("--out,--checkpoint-dir,--save-dir", state->out,
                 "directory of the run (default runs/NAME-seedS-TIME)");
  command.flag("--json", state->json, "print summary.json as one line on stdout");
  command.action([&program, state] { train(program, state->run, state->out, state->json); });
}

}  // namespace flotilla
