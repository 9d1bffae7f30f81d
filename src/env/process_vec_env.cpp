#include "flotilla/env/process_vec_env.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "flotilla/core/clock.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/env/worker.h"

namespace flotilla {
namespace {

// How long the parent sleeps before it looks whether a worker died: the price of a death, not of
// a step.
constexpr double kLookEvery = 0.005;
constexpr double kStopGrace = 1.0;
// Seconds between two looks that are taken for a stop: at most, and for a busy machine at least.
constexpr double kStoppedAfter = 0.5, kStoppedAtLeast = 0.05;
// How often a worker may be ended from outside over the same work before the env is blamed.
constexpr int kMaxRepeats = 5;

double seconds_of(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A program may have been started with SIGCHLD ignored; then the system keeps no exit status, and
// nobody could tell why a worker ended.
void keep_exit_statuses() {
  struct sigaction current {};
  sigaction(SIGCHLD, nullptr, &current);
  if (current.sa_handler == SIG_IGN) std::signal(SIGCHLD, SIG_DFL);
}

}  // namespace

ProcessVecEnv::ProcessVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                             ArenaLayout layout)
    : SlotVecEnv(type, config, options),
      repeatable_(type.repeatable && loop_->keeps_states()),
      worker_command_(type.worker_command ? type.worker_command(config) : options.worker_command),
      workers_(static_cast<size_t>(options.workers)) {
  control_ = layout.add<Control>("control", 1, 1);
  channels_ = layout.add<Channel>("channels", workers_.size(), 1);
  config_ = layout.add<char>("config", 1, config_yaml_.size() + 1);
  allocate(std::move(layout), Arena::Backing::kShared, options.workers, 2);
  fill_control(control_.offset);
  keep_exit_statuses();
  try {
    start_all();
  } catch (...) {
    stop_all();
    throw;
  }
}

ProcessVecEnv::~ProcessVecEnv() { stop_all(); }

void ProcessVecEnv::fill_control(size_t control_offset) {
  Control* control = new (arena_->base() + control_offset) Control;
  segment_ = {arena_->base(), control};
  control->parent_base = arena_->base();
  control->parent = getpid();
  control->num_envs = num_envs();
  control->first_env = options_.first_env;
  control->replicas = options_.replicas;
  control->groups = groups();
  control->workers = options_.workers;
  control->whole_groups = options_.backend == Backend::kActors;
  control->time_limit = options_.time_limit;
  control->frame_stack = loop_->frame_stack().frames();
  control->slot_bytes = loop_->slot_bytes();
  if (env_name_.size() >= sizeof(control->env_name)) {
    throw Error(ErrorCode::kUsage, "the environment's name is too long: " + env_name_);
  }
  std::strncpy(control->env_name, env_name_.c_str(), sizeof(control->env_name) - 1);
  std::strncpy(control->spec_sha256, spec().sha256().c_str(), sizeof(control->spec_sha256) - 1);
  control->banks = banks_;
  control->lanes = lanes_;
  control->notes = notes_;
  control->channels = channels_;
  control->config = config_;
  std::memcpy(arena_->view(config_).row(0), config_yaml_.c_str(), config_yaml_.size() + 1);
  for (int w = 0; w < options_.workers; ++w) new (&segment_.channel(w)) Channel;
}

void ProcessVecEnv::start_all() {
  for (int w = 0; w < options_.workers; ++w) start_worker(w);
  for (int w = 0; w < options_.workers; ++w) wait_until_ready(w);
}

void ProcessVecEnv::start_worker(int index) {
  Channel& channel = segment_.channel(index);
  channel.state.store(WorkerState::kStarting);
  channel.signal.store(0);
  channel.bell.sleepers.store(0);
  Worker& worker = workers_[static_cast<size_t>(index)];
  if (options_.start_method == StartMethod::kSpawn) {
    worker.pid =
        spawn_worker(arena_->fd(), worker_command_,
                     worker_arguments(kSegmentFd, arena_->bytes(), control_.offset, index));
  } else {
    worker.pid = fork_worker([this, index] {
      try {
        follow_parent(segment_.control->parent);
        work(segment_, *loop_, index);
      } catch (const std::exception& error) {
        start_failed(segment_, index, error);
        throw;
      }
    });
  }
  worker.progress = progress_of(index);
  worker.since_ns = now_ns();
  worker.stopped_ns = 0;
}

void ProcessVecEnv::wait_until_ready(int index) {
  const Deadline deadline = Deadline::after(options_.start_timeout_s);
  Worker& worker = workers_[static_cast<size_t>(index)];
  int kills = 0;
  while (true) {
    const uint32_t heard = segment_.control->done_bell.heard();
    if (segment_.channel(index).state.load() == WorkerState::kReady) return;
    require_no_start_error(index);
    int status = 0;
    if (waitpid(worker.pid, &status, WNOHANG) == worker.pid) {
      worker.pid = -1;
      require_no_start_error(index);  // said just before its end
      const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
      if (!killed || ++kills == kMaxRepeats) ended_while_starting(index, status);
      report(-1, {}, "worker " + describe_wait_status(status) + " while starting", true);
      require_restart_budget();
      start_worker(index);
      continue;
    }
    if (deadline.passed()) {
      cannot_start(index, fmt::format("did not start within {} s (start_timeout_s)",
                                      options_.start_timeout_s));
    }
    segment_.control->done_bell.wait(heard, patience_, Deadline::after(kLookEvery));
  }
}

void ProcessVecEnv::cannot_start(int index, const std::string& how, ErrorCode code) const {
  throw Error(code, fmt::format("worker {} of '{}' {}", index, title_, how));
}

void ProcessVecEnv::require_no_start_error(int index) const {
  const Channel& channel = segment_.channel(index);
  const WorkerState state = channel.state.load();
  const std::string how = std::string("could not start: ") + channel.start_error;
  if (state == WorkerState::kFailed) cannot_start(index, how);
  if (state == WorkerState::kRefused) cannot_start(index, how, ErrorCode::kInternal);
}

void ProcessVecEnv::ended_while_starting(int index, int status) const {
  const std::string how = describe_wait_status(status) + " while starting";
  // Before it could map the segment, and say why.
  if (WIFEXITED(status) && WEXITSTATUS(status) == exit_status(ErrorCode::kInternal)) {
    cannot_start(index, how + ": the system refused it memory", ErrorCode::kInternal);
  }
  // A forked one does not come through main().
  if (WIFEXITED(status) && options_.start_method == StartMethod::kSpawn) {
    cannot_start(index, how + ": " +
                            (worker_command_.empty()
                                 ? "main() must begin with run_if_worker() or run_program()"
                                 : in_quotes(worker_command_[0]) + " does not serve as a worker"));
  }
  cannot_start(index, how);
}

std::byte* ProcessVecEnv::current_bank(int group) const {
  return segment_.bank(segment_.control->commands[group].sequence.load() + 1);
}

void ProcessVecEnv::require_workers() const {
  if (broken_) {
    throw Error(ErrorCode::kEnvironment, "the workers of '" + env_name_ + "' were lost");
  }
}

void ProcessVecEnv::start_request(const Request& request) {
  const std::lock_guard lock(mutex_);
  require_workers();
  // Time without work is not time without progress.
  const uint64_t now = now_ns();
  for (int w = 0; w < options_.workers; ++w) {
    if (segment_.serves(w, request.group) && is_idle(w))
      workers_[static_cast<size_t>(w)].since_ns = now;
  }
  WorkOrder& command = segment_.control->commands[request.group];
  command.work = request.work;
  command.on_failure = options_.on_failure;
  command.seed = request.seed;
  command.actions = request.actions;
  command.view = request.view;
  command.sequence.store(command.sequence.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  for (int w = 0; w < options_.workers; ++w) {
    if (segment_.serves(w, request.group)) segment_.channel(w).bell.ring();
  }
}

bool ProcessVecEnv::ready(int group) const {
  return segment_.all_done(group, segment_.control->commands[group].sequence.load());
}

void ProcessVecEnv::wait(int group) {
  if (!segment_.control->whole_groups) return SlotVecEnv::wait(group);
  const Request& request = end_step(group);
  if (!ready(group)) finish_request(request);  // who waits here is alone
  if (lane(group % options_.workers, group).failures.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(mutex_);
  take_notes(request);
}

void ProcessVecEnv::look_after() {
  const std::lock_guard lock(mutex_);
  const size_t before = failure_count();
  look_after_workers();
  throw_if_over(before);
}

std::vector<FailureReport> ProcessVecEnv::take_failures() {
  const std::lock_guard lock(mutex_);
  return SlotVecEnv::take_failures();
}

void ProcessVecEnv::finish_request(const Request& request) {
  require_workers();
  const uint32_t sequence = segment_.control->commands[request.group].sequence.load();
  Bell& bell = segment_.control->done_bell;
  last_look_ns_ = now_ns();
  while (true) {
    const uint32_t heard = bell.heard();
    if (segment_.all_done(request.group, sequence)) return;
    if (bell.wait(heard, patience_, Deadline::after(kLookEvery))) continue;
    const std::lock_guard lock(mutex_);
    look_after_workers();
  }
}

void ProcessVecEnv::look_after_workers() {
  require_workers();  // after some were lost there is nobody left to wait for
  // A long time between two looks: this process itself was stopped, and the workers with it. Their
  // time starts anew.
  const bool was_stopped = seconds_since(last_look_ns_) >
                           std::clamp(options_.step_timeout_s / 2, kStoppedAtLeast, kStoppedAfter);
  last_look_ns_ = now_ns();
  try {
    for (int w = 0; w < options_.workers; ++w) {
      Worker& worker = workers_[static_cast<size_t>(w)];
      if (was_stopped) worker.since_ns = last_look_ns_;
      if (was_stopped && worker.stopped_ns != 0) worker.stopped_ns = last_look_ns_;
      look_at(w);
    }
  } catch (...) {
    broken_ = true;
    throw;
  }
}

void ProcessVecEnv::look_at(int index) {
  Worker& worker = workers_[static_cast<size_t>(index)];
  int status = 0;
  rusage usage{};
  const pid_t changed = wait4(worker.pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
  if (changed < 0) {
    worker.pid = -1;
    replace(index, {"worker is gone, and the system does not say why", false});
  } else if (changed > 0 && (WIFEXITED(status) || WIFSIGNALED(status))) {
    reaped_cpu_s_ += seconds_of(usage);
    worker.pid = -1;
    replace(index, post_mortem_.examine(status, segment_.channel(index)));
  } else if (changed > 0) {
    worker.since_ns = now_ns();
    worker.stopped_ns = WIFSTOPPED(status) ? now_ns() : 0;
  } else if (worker.stopped_ns != 0) {
    if (seconds_since(worker.stopped_ns) < options_.stopped_grace_s) return;
    kill_worker(index);
    replace(index, {"worker stopped by a signal", true});
  } else if (is_hung(index)) {
    kill_worker(index);
    replace(index, {fmt::format("hung for {} s", options_.step_timeout_s), false});
  }
}

// Changes whenever the worker enters another env or finishes a call.
uint64_t ProcessVecEnv::progress_of(int index) const {
  uint64_t sum = 0;
  for (int g = 0; g < groups(); ++g) {
    const Lane& at = lane(index, g);
    sum = sum * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(at.env.load()) + 1;
    sum = sum * 0x9E3779B97F4A7C15u + at.calls.load();
  }
  return sum;
}

bool ProcessVecEnv::is_hung(int index) {
  Worker& worker = workers_[static_cast<size_t>(index)];
  const uint64_t progress = progress_of(index);
  if (is_idle(index) || progress != worker.progress) {
    worker.progress = progress;
    worker.since_ns = now_ns();
    return false;
  }
  return seconds_since(worker.since_ns) > options_.step_timeout_s;
}

int ProcessVecEnv::culprit(int index) const {
  for (int g = 0; g < groups(); ++g) {
    if (lane(index, g).env.load() >= 0) return lane(index, g).env.load();
  }
  return -1;
}

// Counts the deaths of a worker over one and the same work. Ends from outside are repeated, but not
// for ever: an env can kill its worker in ways that look like it.
int ProcessVecEnv::deaths_in_a_row(int index) {
  Worker& worker = workers_[static_cast<size_t>(index)];
  uint64_t done = 0;
  for (int g = 0; g < groups(); ++g) done += segment_.channel(index).done[g].load();
  worker.deaths = done == worker.done_at_death ? worker.deaths + 1 : 1;
  worker.done_at_death = done;
  return worker.deaths;
}

void ProcessVecEnv::replace(int index, const Death& death) {
  const bool repeats = deaths_in_a_row(index) < kMaxRepeats;
  const int env = culprit(index);
  const bool blamed = env >= 0 && !(repeatable_ && death.from_outside && repeats);
  if (blamed) blame(index, env, death.cause);  // first: it is the one to be named
  const bool lost = !repeatable_ && lose_others(index, env, death.cause);
  if (!blamed && !lost) {
    report(env, env < 0 ? FailureNote{} : note_of(index, env), death.cause, true);
    if (!repeats) throw_last_failure("; it keeps dying");
  }
  require_restart_budget();
  forget_attempt(index);
  start_worker(index);
  wait_until_ready(index);
}

// Where the env stood when its worker ended.
FailureNote ProcessVecEnv::note_of(int index, int env) const {
  const int g = group_of(env);
  const uint32_t sequence = segment_.control->commands[g].sequence.load();
  const Phase phase = lane(index, g).phase.load();
  // A reset inside a step has already noted where its generator stood.
  std::byte* bank = segment_.bank(phase == Phase::kReset ? sequence + 1 : sequence);
  FailureNote note;
  note.set(phase, slot_header(bank, env), "");
  return note;
}

// Marks the env in the slots the repeated command will read, so that the next worker treats its
// step as failed instead of making it again.
void ProcessVecEnv::blame(int index, int env, const std::string& cause) {
  const FailureNote note = note_of(index, env);
  const uint32_t sequence = segment_.control->commands[group_of(env)].sequence.load();
  SlotHeader& before = slot_header(segment_.bank(sequence), env);
  ++before.failures;
  before.status = SlotStatus::kFailed;
  if (options_.on_failure == OnFailure::kStop) retire_rest(index);
  report(env, note, cause, false);
}

// The same for all other envs of a worker whose steps cannot be repeated, also for those that wait
// for their next actions. False: there was none left.
bool ProcessVecEnv::lose_others(int index, int culprit, const std::string& cause) {
  bool any = false;
  for (int g = 0; g < groups(); ++g) {
    const WorkOrder& command = segment_.control->commands[g];
    // Groups are reset one after the other, and restored: this one and those behind it begin anew
    // in any case.
    if (command.work != Work::kStep && !is_done(index, g)) break;
    std::byte* bank = is_done(index, g) ? current_bank(g) : segment_.bank(command.sequence.load());
    const Span envs = segment_.span(index, g);
    for (int env = envs.begin; env < envs.end; ++env) {
      SlotHeader& header = slot_header(bank, env);
      if (env == culprit || header.status != SlotStatus::kLive) continue;
      FailureNote note;
      note.set(Phase::kStep, header, "");
      ++header.failures;
      header.status = SlotStatus::kFailed;
      report(env, note, cause, false);
      any = true;
    }
  }
  return any;
}

// Whether the worker has carried out the latest command of a group.
bool ProcessVecEnv::is_done(int index, int group) const {
  return !segment_.serves(index, group) || segment_.channel(index).done[group].load() ==
                                               segment_.control->commands[group].sequence.load();
}

bool ProcessVecEnv::is_idle(int index) const {
  for (int g = 0; g < groups(); ++g) {
    if (!is_done(index, g)) return false;
  }
  return true;
}

// The run stops: the worker's other envs are not stepped any more, for they may hang as well.
void ProcessVecEnv::retire_rest(int index) {
  for (int g = 0; g < groups(); ++g) {
    if (is_done(index, g)) continue;
    const uint32_t asked = segment_.control->commands[g].sequence.load();
    const Span envs = segment_.span(index, g);
    for (int env = envs.begin; env < envs.end; ++env) {
      slot_header(segment_.bank(asked), env).status = SlotStatus::kDropped;
    }
  }
}

// What the dead worker left of commands it did not finish: the next one starts afresh.
void ProcessVecEnv::forget_attempt(int index) {
  for (int g = 0; g < groups(); ++g) {
    lane(index, g).env.store(-1);
    if (is_done(index, g)) continue;
    lane(index, g).failures.store(0);
    const Span envs = segment_.span(index, g);
    for (int env = envs.begin; env < envs.end; ++env) notes()[env] = FailureNote{};
  }
}

void ProcessVecEnv::kill_worker(int index) {
  Worker& worker = workers_[static_cast<size_t>(index)];
  if (worker.pid < 0) return;
  kill(worker.pid, SIGKILL);
  rusage usage{};
  while (wait4(worker.pid, nullptr, 0, &usage) < 0 && errno == EINTR) {
  }
  reaped_cpu_s_ += seconds_of(usage);
  worker.pid = -1;
}

void ProcessVecEnv::stop_all() {
  if (segment_.control == nullptr) return;
  segment_.control->stop.store(true, std::memory_order_release);
  for (int w = 0; w < options_.workers; ++w) segment_.channel(w).bell.ring();
  const Deadline deadline = Deadline::after(kStopGrace);
  for (size_t w = 0; w < workers_.size(); ++w) {
    Worker& worker = workers_[w];
    while (worker.pid >= 0 && !deadline.passed()) {
      rusage usage{};
      if (wait4(worker.pid, nullptr, WNOHANG, &usage) != 0) {
        reaped_cpu_s_ += seconds_of(usage);
        worker.pid = -1;
      } else {
        usleep(200);
      }
    }
    kill_worker(static_cast<int>(w));
  }
}

double ProcessVecEnv::cpu_seconds() const {
  double total = process_cpu_seconds() + reaped_cpu_s_;
  for (const Worker& worker : workers_) {
    if (worker.pid >= 0) total += process_cpu_seconds(worker.pid);
  }
  return total;
}

std::vector<pid_t> ProcessVecEnv::worker_pids() const {
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_) pids.push_back(worker.pid);
  return pids;
}

}  // namespace flotilla
