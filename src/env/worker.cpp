#include "flotilla/env/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>

#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/subprocess.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/env/failure.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/env/worker_process.h"

namespace flotilla {
namespace {

constexpr const char* kWorkerFlag = "--flotilla-worker";
constexpr const char* kDescribeFlag = "--flotilla-describe";
constexpr std::chrono::milliseconds kParentCheck(250);
constexpr const char* kParentsConfig = "the parent's config";

Channel* g_channel = nullptr;  // for the signal handler; a worker has one

// Notes who sent the signal, then lets it take its course, core dump included.
void on_crash(int signal, siginfo_t* info, void*) {
  const bool from_outside = info->si_code <= 0 && info->si_pid != getpid();
  g_channel->signal_from_outside.store(from_outside);
  // Only a fault of the processor has an address; of a sent signal that place holds the sender.
  g_channel->signal_has_address.store(info->si_code > 0);
  g_channel->signal_address.store(reinterpret_cast<uint64_t>(info->si_addr));
  g_channel->signal.store(signal);
  struct sigaction fallback {};
  fallback.sa_handler = SIG_DFL;
  sigaction(signal, &fallback, nullptr);
  raise(signal);
}

void install_signal_handlers(Channel& channel) {
  g_channel = &channel;
  // The handler needs a stack of its own: a stack overflow is a crash too.
  static char stack[64 * 1024];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction crash {};
  crash.sa_sigaction = on_crash;
  crash.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int signal :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPIPE, SIGTRAP, SIGSYS, SIGXCPU, SIGXFSZ}) {
    sigaction(signal, &crash, nullptr);
  }
  // Ctrl-C and the end of a terminal reach the whole process group; when to end is the parent's
  // decision.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &ignore, nullptr);
}

void carry_out(const Segment& segment, const EnvLoop& loop, int index, int group,
               uint32_t sequence) {
  const Control& control = *segment.control;
  const WorkOrder& command = control.commands[group];
  const std::byte* there = control.parent_base;
  const size_t actions_at = static_cast<size_t>(command.actions.data - there);
  const LoopCall call{
      .in = segment.bank(sequence),
      .out = segment.bank(sequence + 1),
      .actions = {command.work == Work::kStep ? segment.base + actions_at : nullptr},
      .view = command.view.moved(there, segment.base),
      .notes = Field<FailureNote>(segment.base, control.notes).row(0),
      .lane = &Field<Lane>(segment.base, control.lanes).row(static_cast<size_t>(index))[group],
      .on_failure = command.on_failure,
      .seed = command.seed,
      .first_env = control.first_env,
      .replicas = control.replicas};
  const Span envs = segment.span(index, group);
  switch (command.work) {
    case Work::kReset:
      loop.reset(envs, call);
      break;
    case Work::kStep:
      loop.step(envs, call);
      break;
    case Work::kRestore:
      loop.restore(envs, call);
      break;
  }
  segment.channel(index).done[group].store(sequence, std::memory_order_seq_cst);
  if (segment.all_done(group, sequence)) segment.control->done_bell.ring();
}

// Parses one whole decimal number; false for anything else.
template <class T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end;
}

[[noreturn]] void not_a_segment() {
  throw Error(ErrorCode::kUsage, "this is not a Flotilla segment");
}

// Whoever types the arguments of a worker may leave any file at the descriptor: nothing is read
// that is not there.
Segment find_segment(const Arena& arena, size_t control_offset, int index) {
  if (control_offset % alignof(Control) != 0 || control_offset > arena.bytes() ||
      arena.bytes() - control_offset < sizeof(Control)) {
    not_a_segment();
  }
  auto* control = reinterpret_cast<Control*>(arena.base() + control_offset);
  constexpr uint64_t kName = (uint64_t{1} << 56U) - 1;  // without the number
  if (control->magic != Control::kMagic && ((control->magic ^ Control::kMagic) & kName) == 0) {
    throw Error(
        ErrorCode::kUsage,
        "this worker and the program that started it are of different versions of Flotilla: "
        "install both anew");
  }
  if (control->magic != Control::kMagic || index < 0 || index >= control->workers) not_a_segment();
  return {arena.base(), control};
}

void require_size(int fd, size_t bytes) {
  struct stat facts {};
  const bool known = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
  if (!known || static_cast<uint64_t>(facts.st_size) != bytes) not_a_segment();
}

std::unique_ptr<EnvLoop> make_native_loop(const Registry& registry, const Segment& segment) {
  const Control& control = *segment.control;
  const EnvType& type = registry.find(control.env_name);
  Config config(type.schema);
  config.load_yaml_text(Field<char>(segment.base, control.config).row(0), kParentsConfig);
  if (!type.make_worker_loop) return type.make_loop(config, control.time_limit);
  return type.make_worker_loop(config, {.num_envs = control.num_envs,
                                        .first_env = control.first_env,
                                        .replicas = control.replicas,
                                        .time_limit = control.time_limit});
}

// What the env prints goes to stderr: stdout is for the answer alone.
int take_stdout() {
  const int taken = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, kSegmentFd);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return taken;
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

// The other side of ask_for_description().
int answer_description(const Registry& registry, const std::string& env,
                       const std::string& settings) {
  const int out = take_stdout();
  Json answer = Json::object();
  try {
    const EnvType& type = registry.find(env);
    Config config(type.schema);
    config.load_yaml_text(settings, kParentsConfig);
    answer["env"] = type.describe(config);
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    answer["error"] = error.what();
    answer["status"] = exit_status(error);
  }
  std::fflush(nullptr);
  write_all(out, answer.dump());
  // Not by the end of main(): threads of a library may be under way.
  _exit(0);
}

}  // namespace

std::optional<WorkerPost> WorkerPost::from(const std::vector<std::string>& arguments) {
  if (arguments.size() != 5 || arguments[0] != kWorkerFlag) return std::nullopt;
  WorkerPost post;
  const bool good = parse(arguments[1], post.fd) && parse(arguments[2], post.bytes) &&
                    parse(arguments[3], post.control_offset) && parse(arguments[4], post.index);
  if (!good) throw Error(ErrorCode::kUsage, "the arguments of a worker are not its parent's");
  return post;
}

int serve(const WorkerPost& post,
          const std::function<std::unique_ptr<EnvLoop>(const Segment& segment)>& make_loop) {
  require_size(post.fd, post.bytes);
  const Arena arena(post.fd, post.bytes);
  close(post.fd);
  const Segment segment = find_segment(arena, post.control_offset, post.index);
  try {
    follow_parent(segment.control->parent);
    const auto loop = make_loop(segment);
    const Control& control = *segment.control;
    if (loop->spec().sha256() != control.spec_sha256 || loop->slot_bytes() != control.slot_bytes) {
      throw Error(ErrorCode::kEnvironment, "the worker's environment differs from the parent's");
    }
    work(segment, *loop, post.index);
  } catch (const std::exception& error) {
    start_failed(segment, post.index, error);
    return exit_status(ErrorCode::kEnvironment);
  }
  return 0;
}

std::vector<std::string> worker_arguments(int fd, size_t bytes, size_t control_offset, int index) {
  return {kWorkerFlag, fmt::to_string(fd), fmt::to_string(bytes), fmt::to_string(control_offset),
          fmt::to_string(index)};
}

Json ask_for_description(const std::string& env, const std::string& settings,
                         const std::string& where) {
  require_worker_main();
  std::vector<std::string> command = worker_program();
  command.insert(command.end(), {kDescribeFlag, env, settings});
  const double seconds = outside_code().start_timeout_s;
  const Ended ended = run_to_end(command, seconds, {std::string(kWorkerVariable) + "=1"});
  stop_if_interrupted();
  const std::optional<Json> answer = Json::try_parse(ended.output);
  if (answer && answer->is_object() && answer->contains("env")) return (*answer)["env"];
  if (answer && answer->is_object() && answer->contains("error")) {
    throw Error(static_cast<ErrorCode>((*answer)["status"].get<int64_t>()),
                (*answer)["error"].text());
  }
  const std::string how =
      ended.timed_out ? fmt::format("gave no answer within {} s (start_timeout_s)", seconds)
      : ended.signal > 0
          ? fmt::format("was killed by signal {} ({})", ended.signal, signal_name(ended.signal))
          : fmt::format("exited with status {}", ended.status);
  throw Error(ErrorCode::kEnvironment,
              fmt::format("{}the process that looked at it {}", where, how));
}

std::optional<int> run_if_worker(int argc, char** argv, const Registry& registry) {
  if (argc == 4 && std::string_view(argv[1]) == kDescribeFlag) {
    ::unsetenv(kWorkerVariable);
    return answer_description(registry, argv[2], argv[3]);
  }
  if (argc != 6) return std::nullopt;
  try {
    const auto post = WorkerPost::from({argv + 1, argv + argc});
    if (!post) return std::nullopt;
    ::unsetenv(kWorkerVariable);
    expect_live_line();
    return serve(
        *post, [&registry](const Segment& segment) { return make_native_loop(registry, segment); });
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    say(fmt::format("flotilla worker: {}\n", error.what()));
    return exit_status(error);
  }
}

void start_failed(const Segment& segment, int index, const std::exception& why) {
  Channel& channel = segment.channel(index);
  const bool refused = is_refusal(why);
  std::strncpy(channel.start_error, refused ? as_error(why).what() : why.what(),
               sizeof(channel.start_error) - 1);
  channel.state.store(refused ? WorkerState::kRefused : WorkerState::kFailed);
  segment.control->done_bell.ring();
}

// A thread that asks, because a death signal (PR_SET_PDEATHSIG) would come when the starting thread
// ends, not the process.
void follow_parent(pid_t parent) {
  std::thread([parent] {
    while (getppid() == parent) std::this_thread::sleep_for(kParentCheck);
    _exit(0);
  }).detach();
}

void work(const Segment& segment, const EnvLoop& loop, int index) {
  Control& control = *segment.control;
  Channel& channel = segment.channel(index);
  install_signal_handlers(channel);
  prctl(PR_SET_NAME, fmt::format("flotilla-w{}", index).c_str());
  channel.state.store(WorkerState::kReady);
  control.done_bell.ring();
  Patience patience;
  while (!control.stop.load(std::memory_order_acquire)) {
    const uint32_t heard = channel.bell.heard();
    bool worked = false;
    for (int group = 0; group < control.groups; ++group) {
      if (!segment.serves(index, group)) continue;
      const uint32_t sequence = control.commands[group].sequence.load(std::memory_order_acquire);
      if (sequence == channel.done[group].load(std::memory_order_relaxed)) continue;
      carry_out(segment, loop, index, group, sequence);
      worked = true;
    }
    if (!worked) channel.bell.wait(heard, patience, Deadline::never());
  }
}

}  // namespace flotilla
