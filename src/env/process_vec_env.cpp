#include "env/process_vec_env.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "core/clock.h"
#include "core/log.h"
#include "env/worker.h"

extern char** environ;

namespace flotilla {
namespace {

// How long the parent sleeps before it looks whether a worker died: the price of a death, not of
// a step.
constexpr double kLookEvery = 0.005;
constexpr double kStopGrace = 1.0;

uint64_t machine_oom_kills() {
  std::ifstream file("/proc/vmstat");
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "oom_kill") return value;
  }
  return 0;
}

double seconds_of(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Starts this same program as a worker. The segment is its only inherited file besides stderr;
// what an env prints goes there too, so that stdout stays the caller's.
pid_t spawn(int segment_fd, std::vector<std::string> arguments) {
  constexpr int kWorkerFd = 3;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (fcntl(STDERR_FILENO, F_GETFD) >= 0) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, segment_fd, kWorkerFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kWorkerFd + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

  std::string program = "/proc/self/exe";
  std::vector<char*> argv{program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int refusal =
      posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  errno = refusal;
  if (refusal != 0) throw_errno(ErrorCode::kInternal, "cannot start a worker process");
  return pid;
}

}  // namespace

ProcessVecEnv::ProcessVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                             ArenaLayout layout)
    : VecEnv(type, config, options), workers_(static_cast<size_t>(options.workers)) {
  control_ = layout.add<Control>("control", 1, 1);
  channels_ = layout.add<Channel>("channels", workers_.size(), 1);
  config_ = layout.add<char>("config", 1, config_yaml_.size() + 1);
  allocate(std::move(layout), Arena::Backing::kShared, options.workers, 2);
  fill_control(control_.offset);
  oom_kills_ = machine_oom_kills();
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
  control->groups = groups();
  control->workers = options_.workers;
  control->time_limit = options_.time_limit;
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
  channel.ready.store(0);
  channel.signal.store(0);
  channel.bell.sleepers.store(0);
  Worker& worker = workers_[static_cast<size_t>(index)];
  if (options_.start_method == StartMethod::kSpawn) {
    worker.pid = spawn(arena_->fd(), worker_arguments(3, arena_->bytes(), control_.offset, index));
  } else {
    worker.pid = fork();
    if (worker.pid < 0) throw_errno(ErrorCode::kInternal, "cannot fork a worker process");
    if (worker.pid == 0) {
      dup2(STDERR_FILENO, STDOUT_FILENO);
      follow_parent(segment_.control->parent);
      work(segment_, *kernel_, index);
      _exit(0);
    }
  }
  worker.progress = progress_of(index);
  worker.since_ns = now_ns();
  worker.stopped_ns = 0;
}

void ProcessVecEnv::wait_until_ready(int index) {
  const Deadline deadline = Deadline::after(options_.start_timeout_s);
  const Channel& channel = segment_.channel(index);
  while (true) {
    const uint32_t heard = segment_.control->done_bell.heard();
    const uint32_t ready = channel.ready.load();
    if (ready == 1) return;
    if (ready == 2) {
      throw Error(ErrorCode::kEnvironment, fmt::format("worker {} of '{}' could not start: {}",
                                                       index, env_name_, channel.start_error));
    }
    int status = 0;
    Worker& worker = workers_[static_cast<size_t>(index)];
    if (waitpid(worker.pid, &status, WNOHANG) == worker.pid) {
      worker.pid = -1;
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        report(-1, {}, {}, "worker " + describe_wait_status(status) + " while starting", true);
        require_restart_budget();
        start_worker(index);
        continue;
      }
      throw Error(ErrorCode::kEnvironment, fmt::format("worker {} of '{}' {} while starting", index,
                                                       env_name_, describe_wait_status(status)));
    }
    if (deadline.passed()) {
      throw Error(ErrorCode::kEnvironment,
                  fmt::format("worker {} of '{}' did not start within {} s", index, env_name_,
                              options_.start_timeout_s));
    }
    segment_.control->done_bell.wait(heard, patience_, Deadline::after(kLookEvery));
  }
}

std::byte* ProcessVecEnv::current_bank(int group) const {
  return segment_.bank(segment_.control->commands[group].sequence.load() + 1);
}

void ProcessVecEnv::start_request(const Request& request) {
  if (broken_) {
    throw Error(ErrorCode::kEnvironment, "the workers of '" + env_name_ + "' were lost");
  }
  Command& command = segment_.control->commands[request.group];
  command.is_reset = request.op == Request::Op::kReset;
  command.on_failure = options_.on_failure;
  command.seed = request.seed;
  command.actions = request.actions;
  command.view = request.view;
  command.sequence.store(command.sequence.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  for (int w = 0; w < options_.workers; ++w) segment_.channel(w).bell.ring();
}

void ProcessVecEnv::finish_request(const Request& request) {
  const uint32_t sequence = segment_.control->commands[request.group].sequence.load();
  Bell& bell = segment_.control->done_bell;
  while (true) {
    const uint32_t heard = bell.heard();
    if (segment_.all_done(request.group, sequence)) return;
    if (!bell.wait(heard, patience_, Deadline::after(kLookEvery))) look_after(request);
  }
}

void ProcessVecEnv::look_after(const Request& request) {
  try {
    for (int w = 0; w < options_.workers; ++w) look_at(w, request);
  } catch (...) {
    broken_ = true;
    throw;
  }
}

void ProcessVecEnv::look_at(int index, const Request& request) {
  Worker& worker = workers_[static_cast<size_t>(index)];
  int status = 0;
  rusage usage{};
  const pid_t changed = wait4(worker.pid, &status, WNOHANG | WUNTRACED | WCONTINUED, &usage);
  if (changed == worker.pid && (WIFEXITED(status) || WIFSIGNALED(status))) {
    reaped_cpu_s_ += seconds_of(usage);
    worker.pid = -1;
    replace(index, status, "", request);
    return;
  }
  if (changed == worker.pid) worker.stopped_ns = WIFSTOPPED(status) ? now_ns() : 0;
  const auto since = [](uint64_t ns) { return static_cast<double>(now_ns() - ns) * 1e-9; };
  if (worker.stopped_ns != 0 && since(worker.stopped_ns) > options_.stopped_grace_s) {
    kill_worker(index);
    replace(index, 0, "worker stopped by a signal", request);
  } else if (worker.stopped_ns == 0 && is_hung(index)) {
    const std::string cause = fmt::format("hung for {} s", options_.step_timeout_s);
    kill_worker(index);
    replace(index, 0, cause, request);
  }
}

// Changes whenever the worker enters another env or finishes a kernel call.
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
  bool idle = true;
  for (int g = 0; g < groups(); ++g) {
    const uint32_t asked = segment_.control->commands[g].sequence.load();
    idle &= segment_.channel(index).done[g].load() == asked;
  }
  if (idle || progress != worker.progress) {
    worker.progress = progress;
    worker.since_ns = now_ns();
    return false;
  }
  return static_cast<double>(now_ns() - worker.since_ns) * 1e-9 > options_.step_timeout_s;
}

int ProcessVecEnv::culprit(int index) const {
  for (int g = 0; g < groups(); ++g) {
    if (lane(index, g).env.load() >= 0) return lane(index, g).env.load();
  }
  return -1;
}

std::string ProcessVecEnv::cause_of_death(int index, int status, bool& from_outside) {
  const Channel& channel = segment_.channel(index);
  std::string cause = "worker " + describe_wait_status(status);
  from_outside = false;
  if (!WIFSIGNALED(status)) return cause;
  if (WTERMSIG(status) == SIGKILL) {
    const uint64_t kills = machine_oom_kills();
    from_outside = kills == oom_kills_;
    oom_kills_ = kills;
    return cause + (from_outside ? " from outside" : " by the kernel: out of memory");
  }
  if (channel.signal.load() == 0) {  // a signal the worker does not catch
    from_outside = true;
    return cause + " from outside";
  }
  from_outside = channel.signal_from_outside.load();
  if (from_outside) return cause + " from outside";
  if (WTERMSIG(status) == SIGABRT) return cause;
  return cause + fmt::format(" at address {:#x}", channel.signal_address.load());
}

// `unusual_cause` is set when the worker did not die by itself but was ended by us.
void ProcessVecEnv::replace(int index, int status, const std::string& unusual_cause,
                            const Request& request) {
  bool from_outside = false;
  std::string cause = unusual_cause;
  if (cause.empty()) {
    cause = cause_of_death(index, status, from_outside);
  } else {
    from_outside = !cause.starts_with("hung");
  }
  const int env = culprit(index);
  if (from_outside || env < 0) {
    FailureNote note;
    if (env >= 0) note.set(Phase::kStep, slot_header(current_bank(request.group), env), "");
    report(env, note, request, cause, true);
  } else {
    blame(index, env, cause, request);
  }
  require_restart_budget();
  forget_attempt(index);
  start_worker(index);
  wait_until_ready(index);
}

// Marks the env in the slots the repeated command will read, so that the next worker treats its
// step as failed instead of making it again.
void ProcessVecEnv::blame(int index, int env, const std::string& cause, const Request& request) {
  int group_index = 0;
  while (env >= group(group_index).end) ++group_index;
  const uint32_t sequence = segment_.control->commands[group_index].sequence.load();
  SlotHeader& before = slot_header(segment_.bank(sequence), env);
  const Phase phase = lane(index, group_index).phase.load();
  FailureNote note;
  // A reset inside a step has already noted where its generator stood.
  note.set(phase, phase == Phase::kReset ? slot_header(segment_.bank(sequence + 1), env) : before,
           "");
  ++before.failures;
  before.status = SlotStatus::kFailed;
  if (options_.on_failure == OnFailure::kStop) retire_rest(index);
  report(env, note, request, cause, false);
}

// The run stops: the worker's other envs are not stepped any more, for they may hang as well.
void ProcessVecEnv::retire_rest(int index) {
  for (int g = 0; g < groups(); ++g) {
    const uint32_t asked = segment_.control->commands[g].sequence.load();
    if (segment_.channel(index).done[g].load() == asked) continue;
    const Span envs = lane_span(group(g), lanes(), index);
    for (int env = envs.begin; env < envs.end; ++env) {
      slot_header(segment_.bank(asked), env).status = SlotStatus::kDropped;
    }
  }
}

// What the dead worker left of commands it did not finish: the next one starts afresh.
void ProcessVecEnv::forget_attempt(int index) {
  for (int g = 0; g < groups(); ++g) {
    const uint32_t asked = segment_.control->commands[g].sequence.load();
    lane(index, g).env.store(-1);
    if (segment_.channel(index).done[g].load() == asked) continue;
    lane(index, g).failures.store(0);
    const Span envs = lane_span(group(g), lanes(), index);
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
      if (wait4(worker.pid, nullptr, WNOHANG, &usage) == worker.pid) {
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
