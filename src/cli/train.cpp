// flotilla train RUN: trains a policy and leaves a run directory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include "flotilla/cli/commands.h"
#include "flotilla/cli/processes.h"
#include "flotilla/command/run_arguments.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/choose_envs.h"
#include "flotilla/train/follower.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "flotilla/train/run_directory.h"
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
  return number_or_dash("{:.2f}", progress.return_mean);
}

std::string last_return(const Trainer& trainer) {
  if (trainer.progress().episodes == 0) return "no episode ended";
  if (trainer.recent_episodes() == 0) return "no return yet";  // of a valid episode, in this phase
  return fmt::format("return of the last {} episodes {}", trainer.recent_episodes(),
                     return_of(trainer.progress()));
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
  text += last_return(trainer);
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

// What train was asked for.
struct TrainArguments {
  explicit TrainArguments(const Program& program) : run(RunArguments::For::kTraining, program) {}
  RunArguments run;
  std::string out;
  bool auto_resume = false, json = false;

  void require_consistent() const {
    const bool resumes = !run.resume().empty();
    if (resumes && !out.empty()) {
      throw Error(ErrorCode::kUsage, "--out and --resume exclude each other");
    }
    if (auto_resume && (resumes || out.empty())) {
      throw Error(ErrorCode::kUsage, "--auto-resume needs --out, the directory to go on with");
    }
  }
  // The directory to go on with; "": the run is new.
  std::string resumed() const {
    if (!auto_resume) return run.resume();
    return path_exists(out + "/" + kConfigFile) ? out : "";
  }
};

// Of the run, which goes on or is new; the defaults where it cannot be read, for what is wrong with
// it is said when all are there to hear it.
ClusterOptions cluster_of_run(const Program& program, const TrainArguments& arguments) {
  try {
    const std::string path = arguments.resumed();
    if (path.empty()) {
      return ClusterOptions::from(arguments.run.config(program, false), "cluster.");
    }
    arguments.run.admit();
    const RunDirectory directory = RunDirectory::open(path);
    const Config config =
        parse_run_config(program.registry, directory.read(kConfigFile, kLargestConfig),
                         directory.file(kConfigFile), program.algorithms);
    return ClusterOptions::from(config, "cluster.");
  } catch (const Error&) {
    return {};
  }
}

// Where processes meet, which each must know before they can agree on anything.
MeetingOptions meeting_of(const Program& program, const TrainArguments& arguments) {
  const ClusterOptions of_run = cluster_of_run(program, arguments);
  Schema schema;
  schema.include("cluster", ClusterOptions::schema());
  Config config(schema);
  config.set("cluster.port", std::to_string(of_run.port));
  config.set("cluster.deadline_s", fmt::format("{}", of_run.deadline_s));
  for (const std::string& setting : arguments.run.overrides()) {
    if (setting.starts_with("cluster.")) config.apply_override(setting);
  }
  const ClusterOptions cluster = ClusterOptions::from(config, "cluster.");
  return {.port = cluster.port, .deadline_s = cluster.deadline_s};
}

Config new_config(const Program& program, const RunArguments& arguments, int on_this_host,
                  std::optional<int> num_envs = std::nullopt) {
  Config config = arguments.config(program, false, num_envs);
  if (on_this_host == 1) return config;
  // Processes on one host share its cores.
  const int64_t cores = std::max(1, cpu_count() / on_this_host);
  const auto choose = [&config](const char* key, int64_t number) {
    if (config.get_integer(key) == 0) config.set(key, std::to_string(number));
  };
  choose("threads", cores);
  if (config.get_text("backend") == "processes") {
    choose("workers", std::min(cores, config.get_integer("num_envs")));
  }
  return config;
}

// With a number of envs that suits the machine, where that is asked for.
Config chosen_config(const Program& program, const RunArguments& arguments,
                     const Processes& processes) {
  const auto config_with = [&](std::optional<int> num_envs) {
    return new_config(program, arguments, processes.on_this_host(), num_envs);
  };
  if (!arguments.auto_envs()) return config_with(std::nullopt);
  EnvsChooser chooser(program.registry, program.algorithms, config_with, program.policy_factory);
  const EnvsChoice choice = chooser.choose();
  say(choice.text() + "\n");
  return config_with(choice.num_envs);
}

std::unique_ptr<Run> open_run(const Program& program, const TrainArguments& arguments,
                              const Processes& processes) {
  if (const std::string path = arguments.resumed(); !path.empty()) {
    arguments.run.admit();
    const auto adjust = [&](Config& config) { arguments.run.adjust(program, path, config); };
    return Run::resume(program.registry, path, adjust, arguments.run.from_step(),
                       program.algorithms, program.policy_factory, processes.all());
  }
  const Config config = chosen_config(program, arguments.run, processes);
  RunConfig run(env_of(program.registry, config), config, program.algorithms);
  run.policy_factory = program.policy_factory;
  run.cluster.collective = &processes.all();
  return std::make_unique<Run>(run, arguments.out, program.algorithms);
}

// What processes must have in common before the first of them begins.
void require_same_start(const Program& program, const TrainArguments& arguments,
                        const Processes& processes) {
  if (processes.all().size() == 1) return;
  if (arguments.run.auto_envs() && arguments.resumed().empty()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("num_envs: expected a number for {} processes, not {}",
                            processes.all().size(), kAutoEnvs));
  }
  processes.require_same("version", kVersionLine);
  const bool resumes = !arguments.run.resume().empty();
  std::string settings = join(arguments.run.overrides(), " ");
  if (!resumes) {
    settings = new_config(program, arguments.run, processes.on_this_host()).to_yaml();
  }
  processes.require_same("config", settings);
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
  for (const auto& [setting, keys] : run.config().without_effect()) {
    log::warn("without effect with " + setting + ": " + join(keys, ", "));
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

void train_here(const Program& program, const TrainArguments& arguments,
                const Processes& processes) {
  const bool resumes = !arguments.resumed().empty();
  const std::unique_ptr<Run> run = [&] {
    const Activity starting("starting");
    return open_run(program, arguments, processes);
  }();
  if (run->was_finished()) {
    run->end();
    say(fmt::format("'{}' is finished: {} steps, {}\n", run->path(),
                    run->trainer().progress().steps, what_ended(*run)));
    for (const std::string& change : run->changes()) say("without effect: " + change + "\n");
    if (arguments.json) {
      display_data(on_one_line(run->summary()) + "\n");
    }
    return;
  }
  print_begin(program, *run, resumes);
  if (!run->ended_by().empty()) say("nothing is left to train: " + what_ended(*run) + "\n");
  train_shown(*run);
  announce_evaluation(*run);
  const std::string summary = run->finish();
  run->end();
  if (arguments.json) {
    display_data(on_one_line(summary) + "\n");
  } else {
    print_end(*run);
    for (const Program::Ending& ending : program.endings) fmt::print("{}", ending(*run));
  }
}

void train(const Program& program, const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop training
  arguments.require_consistent();
  const Processes processes(meeting_of(program, arguments));
  processes.run([&] {
    require_same_start(program, arguments, processes);
    if (processes.all().rank() == 0) return train_here(program, arguments, processes);
    Follower follower(program.registry, program.algorithms, processes.all());
    follower.set_policy_factory(program.policy_factory);
    // Rank 0 is told, and ends in order.
    wait_for_interrupted_work("");
    follower.follow();
  });
}

}  // namespace

void add_train_command(Command& root, Program& program) {
  Command& command = root.add("train", "train a policy");
  auto state = std::make_shared<TrainArguments>(program);
  state->run.add_to(command, program);
  command.option("--out,--checkpoint-dir,--save-dir", state->out,
                 "directory of the run (default runs/NAME-seedS-TIME)");
  command.flag("--auto-resume", state->auto_resume,
               "go on with the run in --out if there is one, and start it otherwise");
  command.flag("--json", state->json, "print summary.json as one line on stdout");
  command.action([&program, state] {
    state->run.take_auto();
    train(program, *state);
  });
}

}  // namespace flotilla
