#include "flotilla/env/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/env/failure.h"

extern char** environ;

namespace flotilla {
namespace {

constexpr const char* kSelf = "/proc/self/exe";

// The number behind `name` in a file of "name number" lines.
bool read_counter(const std::string& path, const std::string& name, uint64_t& value) {
  std::ifstream file(path);
  for (std::string key; file >> key >> value;) {
    if (key == name) return true;
  }
  return false;
}

// Processes killed for want of memory: in our own control group, or else on the whole machine.
uint64_t count_oom_kills() {
  uint64_t kills = 0;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    if (read_counter("/sys/fs/cgroup" + line.substr(3) + "/memory.events", "oom_kill", kills)) {
      return kills;
    }
  }
  return read_counter("/proc/vmstat", "oom_kill", kills) ? kills : 0;
}

std::vector<std::string>& stored_program() {
  static std::vector<std::string> program = {kSelf};
  return program;
}

void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void point_to(int fd, const char* path, int flags) {
  const int opened = open(path, flags | O_CLOEXEC);
  dup2(opened, fd);
}

}  // namespace

void set_worker_program(std::vector<std::string> command) { stored_program() = std::move(command); }

const std::vector<std::string>& worker_program() { return stored_program(); }

void require_worker_main() {
  if (std::getenv(kWorkerVariable) == nullptr) return;
  throw Error(ErrorCode::kUsage,
              "worker processes are this program itself: its main() must begin with "
              "run_if_worker() or run_program()");
}

pid_t spawn_worker(int segment_fd, const std::vector<std::string>& command,
                   const std::vector<std::string>& arguments) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (fcntl(STDERR_FILENO, F_GETFD) >= 0) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, segment_fd, kSegmentFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kSegmentFd + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);

  std::vector<std::string> words = command.empty() ? worker_program() : command;
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> environment;
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  std::string mark = std::string(kWorkerVariable) + "=1";
  environment.push_back(mark.data());
  environment.push_back(nullptr);
  pid_t pid = -1;
  const int refusal =
      posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  errno = refusal;
  if (refusal == 0) return pid;
  if (command.empty()) throw_errno(ErrorCode::kInternal, "cannot start a worker process");
  throw_errno(ErrorCode::kUsage, "cannot start a worker process with " + in_quotes(command[0]));
}

pid_t fork_worker(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid < 0) throw_errno(ErrorCode::kInternal, "cannot fork a worker process");
  if (pid > 0) return pid;
  // Nothing may escape from here: the child must never go on as a second parent.
  try {
    unblock_signals();
    point_to(STDIN_FILENO, "/dev/null", O_RDONLY);
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) point_to(STDOUT_FILENO, "/dev/null", O_WRONLY);
    body();
  } catch (...) {
    _exit(exit_status(ErrorCode::kInternal));
  }
  _exit(0);
}

PostMortem::PostMortem() : oom_kills_(count_oom_kills()) {}

Death PostMortem::examine(int status, const Channel& channel) {
  Death death{"worker " + describe_wait_status(status), false};
  if (!WIFSIGNALED(status)) return death;
  if (WTERMSIG(status) == SIGKILL) {
    const uint64_t kills = count_oom_kills();
    death.from_outside = kills == oom_kills_;
    oom_kills_ = kills;
    death.cause += death.from_outside ? " from outside" : " by the kernel: out of memory";
    return death;
  }
  // A signal that left no word is one the worker does not catch: nothing an env does by mistake.
  death.from_outside = channel.signal.load() == 0 || channel.signal_from_outside.load();
  if (death.from_outside) {
    death.cause += " from outside";
  } else if (channel.signal_has_address.load()) {
    death.cause += fmt::format(" at address {:#x}", channel.signal_address.load());
  }
  return death;
}

}  // namespace flotilla
