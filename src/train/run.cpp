#include "flotilla/train/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/log.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/libenv/libenv.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/orders.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/resume_changes.h"
#include "flotilla/train/summary.h"

namespace flotilla {
namespace {

constexpr const char* kSummary = "summary.json";
constexpr const char* kHistory = "history.jsonl";
constexpr double kLongUpdate = 0.1;  // of the time that a run is given
constexpr size_t kLargestSummary = size_t{1} << 24U;

// What a run writes; event files have the time in their names.
const RunDirectory::Names kNames = {
    kConfigFile,   kSummary,         "metrics.jsonl",        kHistory,
    "checkpoints", kDefaultCrashDir, "events.out.tfevents.*"};

int64_t choose_step(const std::vector<int64_t>& steps, std::optional<int64_t> from_step) {
  if (!from_step) return steps.back();
  if (std::ranges::count(steps, *from_step) > 0) return *from_step;
  throw Error(ErrorCode::kUsage, fmt::format("there is no checkpoint of step {}; there are {}",
                                             *from_step, fmt::join(steps, ", ")));
}

Config read_config(const Registry& registry, const Algorithms& algorithms,
                   const RunDirectory& directory) {
  try {
    return parse_run_config(registry, directory.read(kConfigFile, kLargestConfig),
                            directory.file(kConfigFile), algorithms);
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, error.what());
  }
}

// Before a trainer is made, which may take long.
const RunConfig& require_free(const RunConfig& config, const std::string& directory) {
  if (!directory.empty()) RunDirectory::require_free(directory, kNames);
  return config;
}

// Before there is a directory, and with the words of whoever gave the keys: a policy serves where
// it fits the spaces, and where the network is its own.
RunConfig with_fitting_init(RunConfig run) {
  if (run.init.empty()) return run;
  const PolicyFile file = find_policy(run.init, "last");
  require_same_spaces(file, run.spec);
  const Config its = network_of(file, run.spec).to_config(), asked = run.network.to_config();
  for (const std::string name :
       {"torso", "groups", "fusion", "hidden", "shared", "normalize_obs"}) {
    const std::string expected = its.input_text(name), got = asked.input_text(name);
    if (expected == got) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: expected {}, as the policy of init has it ({}); got {}",
                            run.config.schema().at("net." + name).name, expected,
                            file.tensors.origin, got));
  }
  return run;
}

// Before the first one is trained, lest a mistake in the last show after hours.
std::vector<CurriculumPhase> checked_phases(const RunConfig& run, const Algorithms& algorithms) {
  std::vector<CurriculumPhase> phases = phases_of(run);
  for (size_t i = 0; i < phases.size(); ++i) in_phase(run, phases, i, algorithms);
  return phases;
}

size_t require_phase(const PhaseStart& phase, const std::vector<CurriculumPhase>& phases) {
  const auto index = static_cast<size_t>(phase.index);
  if (phase.index < 0 || index >= phases.size()) {
    throw Error(ErrorCode::kData, fmt::format("the checkpoint is of phase {}, there are {}",
                                              phase.index + 1, phases.size()));
  }
  return index;
}

}  // namespace

Run::Run(const RunConfig& config, const std::string& directory, const Algorithms& algorithms)
    : opened_ns_(now_ns()),
      run_(require_free(config, directory)),
      algorithms_(algorithms),
      phases_(checked_phases(run_, algorithms)),
      trainer_(
          std::make_unique<Trainer>(with_fitting_init(in_phase(run_, phases_, 0, algorithms)))),
      directory_(RunDirectory::make(
          directory.empty() ? make_run_path(run_.type.name, run_.seed) : directory, kNames)),
      checkpoints_(directory_.directory()) {
  set_up();
  begin();
}

Run::Run(const RunConfig& config, const Algorithms& algorithms, RunDirectory directory,
         const PhaseStart& phase)
    : opened_ns_(now_ns()),
      run_(config),
      algorithms_(algorithms),
      phases_(checked_phases(run_, algorithms)),
      phase_(phase),
      trainer_(std::make_unique<Trainer>(
          in_phase(run_, phases_, require_phase(phase, phases_), algorithms))),
      directory_(std::move(directory)),
      checkpoints_(directory_.directory()) {
  set_up();
}

void Run::begin() {
  if (!run_.init.empty()) {
    start_from(find_policy(run_.init, "last"), trainer_->env_spec(), trainer_->policy());
    share_policy();
  }
  id_ = new_run_id();
  directory_.write(kConfigFile, run_.config.to_yaml());
  record("start");
  metrics_ = std::make_unique<MetricsLog>(directory_.directory(), 0);
  metrics_->write_text("config", "```\n" + run_.config.to_yaml() + "```\n", 0);
  // Not worth waiting for the disk: a crash of the machine now loses nothing.
  checkpoint(false);
  wait_for_checkpoint();
}

void Run::set_up() {
  order_start(run_, trainer_->implementation(), phase_.index);
  saved_ns_ = now_ns();
  if (run_.vec.crash_dir.path() == kDefaultCrashDir) {
    trainer_->set_crash_dir({directory_.directory(), kDefaultCrashDir});
  }
}

// With the other processes, for what rank 0 has read alone.
void Run::share_policy() const {
  const EnvSpec& env = trainer_->env_spec();
  give_order(*run_.cluster.collective,
             {.order = Order::kLoad,
              .model = encode_policy(
                  trainer_->policy(), env,
                  {.env = env.name, .env_config = trainer_->run().env_config.to_yaml()})});
}

void Run::end() const { give_order(*run_.cluster.collective, {.order = Order::kEnd}); }

std::unique_ptr<Run> Run::resume(const Registry& registry, const std::string& path,
                                 const Adjust& adjust, std::optional<int64_t> from_step,
                                 const Algorithms& algorithms, const PolicyFactory& policy_factory,
                                 Collective& collective) {
  RunDirectory directory = RunDirectory::open(path);
  for (const ForeignDirectory& kind : registry.foreign_directories()) {
    if (!directory.holds(kind.file)) continue;
    throw Error(ErrorCode::kUsage, "'" + path + "' is no run but " + kind.what + ": go on with " +
                                       kind.resume + " " + path);
  }
  Config config = read_config(registry, algorithms, directory);
  keep_crashes_inside(config, path);
  if (adjust) adjust(config);
  RunConfig run(env_of(registry, config), config, algorithms);
  run.policy_factory = policy_factory;
  run.cluster.collective = &collective;
  const Checkpoints checkpoints(directory.directory());
  const std::vector<int64_t> steps = checkpoints.steps();
  if (steps.empty()) {  // stopped before it had begun
    if (has_metrics(directory.directory())) {
      throw Error(ErrorCode::kData,
                  "'" + path + "' has metrics but no checkpoint to go on from: start a new run");
    }
    std::unique_ptr<Run> fresh(new Run(run, algorithms, std::move(directory), {}));
    fresh->begin();
    return fresh;
  }
  const int64_t step = choose_step(steps, from_step);
  checkpoints.warn_of_other_runs(step);
  CheckpointState state;
  std::unique_ptr<Run> resumed;
  try {
    state = checkpoints.read_state(step);
    std::vector<std::string> changes = changes_since(state, checkpoints.path(step), run);
    resumed.reset(new Run(run, algorithms, std::move(directory), state.phase));
    resumed->changes_ = std::move(changes);
    const Checkpoint whole = checkpoints.read(step);
    load_checkpoint(whole, checkpoints.path(step), *resumed->trainer_);
    give_order(collective, {.order = Order::kLoad,
                            .model = whole.model,
                            .optimizer = whole.optimizer,
                            .state = whole.state});
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kData) throw;
    checkpoints.offer_another(error, step, run.type.name, "--from-step");
  }
  resumed->go_on_from(step, state);
  return resumed;
}

void Run::go_on_from(int64_t step, const CheckpointState& state) {
  earlier_s_ = trainer_->progress().wall_s;
  best_ = state.best;
  id_ = state.run_id;
  saved_step_ = step;
  if (state.implementation != trainer_->implementation()) {
    log::warn("another kernel than before: results may differ",
              {{"before", state.implementation}, {"now", trainer_->implementation()}});
  }
  was_finished_ = finished() && directory_.holds(kSummary);
  if (was_finished_) return;
  require_whole_metrics(directory_.directory(), step);  // before anything is removed
  checkpoints_.require_writable();
  checkpoints_.cut(step, id_);
  metrics_ = std::make_unique<MetricsLog>(directory_.directory(), step);
  directory_.directory().remove_file(kSummary);  // of a run with an earlier end
  if (!changes_.empty()) directory_.write(kConfigFile, run_.config.to_yaml());
  record("resume");
}

double Run::wall_s() const { return earlier_s_ + seconds_since(opened_ns_); }

bool Run::stopped_early() const { return !why_stopped().empty(); }

std::string Run::why_stopped() const {
  const bool is_last_phase = static_cast<size_t>(phase_.index) + 1 == phases_.size();
  if (!best_ || !is_last_phase) return "";
  if (best_->mean >= run_.eval.stop_at) {
    return fmt::format("eval.stop_at: the evaluation at step {} has {:.2f}, {} was asked for",
                       best_->step, best_->mean, run_.config.get_text("eval.stop_at"));
  }
  if (run_.eval.patience == 0 || best_->since < run_.eval.patience) return "";
  return fmt::format("eval.patience: {} since the best of {:.2f} at step {}",
                     counted(best_->since, "evaluation"), best_->mean, best_->step);
}

std::string Run::ended_by() const {
  if (const std::string why = why_stopped(); !why.empty()) return why;
  if (!trainer_->finished()) return stopped_by_callback_ ? "callback" : "";
  const Progress& progress = trainer_->progress();
  const auto reached = [](auto done, auto limit) { return limit > 0 && done >= limit; };
  if (reached(progress.steps, run_.limits.steps)) return "total_timesteps";
  if (reached(progress.episodes, run_.limits.episodes)) return "episodes";
  if (reached(progress.updates, run_.limits.updates)) return "iterations";
  return "duration_s";
}

bool Run::finished() const { return !ended_by().empty(); }

void Run::train(const UpdateCallback& after) {
  line_ = mark_of(*trainer_);
  try {
    while (!finished()) {
      if (trainer_->asked_to_stop()) stop_interrupted();
      try {
        iterate(after);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kInterrupted) throw;
        stop_interrupted();  // it waited for a rollout: nothing has changed
      }
    }
    if (saved_step_ != trainer_->progress().steps) checkpoint(true);
    if (metrics_ != nullptr) metrics_->flush();
  } catch (const std::exception& error) {
    fail(error);
  }
}

void Run::iterate(const UpdateCallback& after) {
  if (phase_ended()) next_phase();  // here: a resumed run may have stopped where one ended
  const int64_t best_step = best_ ? best_->step : -1;
  const uint64_t start = now_ns();
  trainer_->iterate();
  warn_of_long_updates(seconds_since(start));
  const std::optional<Evaluation> eval = evaluate_if_due();
  trainer_->mark_time();
  const Mark now = mark_of(*trainer_);
  metrics_->write(trainer_->progress(), now.wall_s, metrics_of(*trainer_, line_, now, eval));
  line_ = now;
  stopped_by_callback_ = !after(trainer_->progress());
  const bool better = best_ && best_->step != best_step;
  if (better || checkpoint_due()) checkpoint(true);
}

// A run ends with an update: who gave it little time may wait for much longer.
void Run::warn_of_long_updates(double update_s) {
  const double duration_s = run_.limits.duration_s;
  if (warned_ || !(update_s > kLongUpdate * duration_s) || duration_s == 0) return;
  warned_ = true;
  log::warn(
      fmt::format("an update takes {:.1f} s, more than a tenth of the {:g} s that the run is "
                  "given: it may end so much later; smaller rollouts take less",
                  update_s, duration_s));
}

bool Run::phase_ended() const {
  const CurriculumPhase& phase = phases_[static_cast<size_t>(phase_.index)];
  const Progress& progress = trainer_->progress();
  if (phase.until_steps > 0 && progress.steps - phase_.step >= phase.until_steps) return true;
  constexpr size_t kEnough = 100;  // episodes, for a mean
  return phase.until_score && trainer_->recent_episodes() >= kEnough &&
         progress.return_mean >= *phase.until_score;
}

void Run::next_phase() {
  phase_ = {.index = phase_.index + 1, .step = trainer_->progress().steps};
  const auto index = static_cast<size_t>(phase_.index);
  auto next = std::make_unique<Trainer>(in_phase(run_, phases_, index, algorithms_));
  next->take_over(*trainer_);
  trainer_ = std::move(next);
  best_.reset();  // of easier episodes, or of harder ones
  set_up();
  log::info("the next phase begins", {{"phase", std::to_string(index + 1)},
                                      {"of", std::to_string(phases_.size())},
                                      {"step", std::to_string(phase_.step)},
                                      {"settings", join(phases_[index].settings, " ")}});
  record("phase");
}

bool Run::evaluation_due() const {
  const int64_t steps = trainer_->progress().steps, updates = trainer_->progress().updates;
  if (run_.eval.freq > 0) return steps / run_.eval.freq > line_.steps / run_.eval.freq;
  return run_.eval.every > 0 && updates % run_.eval.every == 0;
}

std::optional<Evaluation> Run::evaluate_if_due() {
  if (!evaluation_due()) return std::nullopt;
  const Progress& progress = trainer_->progress();
  // To its end even when interrupted: half an evaluation would have to be repeated.
  const Evaluation eval = trainer_->evaluate(false);
  if (eval.episodes == 0) return std::nullopt;
  if (!best_ || eval.mean > best_->mean) {
    best_ = {.step = progress.steps, .mean = eval.mean, .since = 0};
  } else {
    ++best_->since;
  }
  return eval;
}

bool Run::checkpoint_due() const {
  const CheckpointOptions& options = run_.checkpoint;
  const int64_t steps = trainer_->progress().steps;
  if (options.every > 0 && steps / options.every > saved_step_ / options.every) return true;
  return options.every_s > 0 && seconds_since(saved_ns_) >= options.every_s;
}

void Run::checkpoint(bool sync) {
  const uint64_t start = now_ns();
  wait_for_checkpoint();
  directory_.require_in_place();
  Checkpoint taken = take_checkpoint(*trainer_, run_, best_, id_, phase_);
  // What the checkpoint stands behind is in the file before the checkpoint is there.
  metrics_->flush();
  saved_step_ = taken.step;
  saved_ns_ = now_ns();
  writing_ = std::async(std::launch::async, [this, sync, taken = std::move(taken)] {
    if (sync) metrics_->sync_lines();
    checkpoints_.write(taken, sync);
    checkpoints_.prune(run_.checkpoint.keep, id_);
  });
  trainer_->add_checkpoint_time(seconds_since(start));
}

void Run::wait_for_checkpoint() {
  if (writing_.valid()) writing_.get();
}

// Code is named on the command line again: a file alone must not choose what runs.
std::string Run::how_to_resume(const std::string& place) const {
  const std::string resume = "--resume " + place;
  if (names_code(run_.type.name)) return run_.type.name + " " + resume;
  if (run_.type.name != kLibenv) return resume;
  return resume + " env.library=" + run_.env_config.get_text("library");
}

void Run::stop_interrupted() {
  if (saved_step_ != trainer_->progress().steps) checkpoint(true);
  wait_for_checkpoint();
  record("interrupted");
  throw Error(ErrorCode::kInterrupted,
              fmt::format("interrupted after {} steps; resume with {}", trainer_->progress().steps,
                          how_to_resume(path())));
}

std::string Run::finish() {
  try {
    try {
      evaluation_ = trainer_->evaluate();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kEnvironment) tell_what_is_kept(error);
      if (error.code() != ErrorCode::kInterrupted) throw;
      stop_interrupted();
    }
    wait_for_checkpoint();
    const std::string summary =
        summary_json(run_, *trainer_, evaluation_, best_, wall_s(), ended_by()).dump(2) + "\n";
    directory_.write(kSummary, summary);
    record("finish");
    return summary;
  } catch (const std::exception& error) {
    fail(error);
  }
}

// The evaluation failed, but what was trained is there.
void Run::tell_what_is_kept(const Error& error) {
  wait_for_checkpoint();
  throw Error(
      error.code(),
      fmt::format("{}; training is done and its policy is in checkpoint step_{}: evaluate it "
                  "with {}, or end the run without that by eval.episodes=0 besides",
                  error.what(), saved_step_, how_to_resume(path())));
}

std::string Run::summary() const { return directory_.read(kSummary, kLargestSummary); }

void Run::fail(const std::exception& exception) const {
  const Error error = as_error(exception);
  const auto* failure = dynamic_cast<const EnvFailure*>(&exception);
  const bool of_files = error.code() == ErrorCode::kData;
  // What is being handled, whatever it is.
  if (failure == nullptr && !of_files && !is_refusal(exception)) throw;
  if (writing_.valid()) writing_.wait();
  const std::vector<int64_t> steps = checkpoints_.steps();
  const std::string kept =
      steps.empty() ? ""
                    : fmt::format("; the last checkpoint is step_{}: resume with {}", steps.back(),
                                  how_to_resume(directory_.directory().place()));
  if (failure != nullptr) throw EnvFailure(failure->report(), failure->consequence() + kept);
  throw Error(error.code(), error.what() + kept);
}

// For people who read what became of a run; nothing depends on it.
void Run::record(const std::string& event) const {
  directory_.require_in_place();
  Json json = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
               {"event", event},
               {"step", trainer_->progress().steps},
               {"version", kVersionLine}};
  if (event == "start" && !run_.init.empty()) {
    json["init"] = run_.init;
    json["init_params_sha256"] = trainer_->params_sha256();
  }
  if (event == "resume") json["changes"] = changes_;
  if (event == "finish") json["ended_by"] = ended_by();
  AppendFile file(directory_.directory(), kHistory);
  file.append(json.dump() + "\n");
  file.flush();
}

}  // namespace flotilla
