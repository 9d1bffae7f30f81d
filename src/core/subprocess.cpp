#include "flotilla/core/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

extern char** environ;

namespace flotilla {
namespace {

// The two ends of a pipe, which no other child inherits: its end would never be seen.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw_errno(ErrorCode::kInternal, "cannot make a pipe");
  }
  ~Pipe() {
    ::close(ends_[0]);
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int writer() const { return ends_[1]; }
  void close_writer() {
    if (ends_[1] >= 0) ::close(ends_[1]);
    ends_[1] = -1;
  }
  // False: the deadline came before its end.
  bool read_to_the_end(std::string& text, const Deadline& deadline) const {
    char buffer[4096];
    for (;;) {
      if (!wait_for_data(deadline)) return false;
      const ssize_t n = ::read(ends_[0], buffer, sizeof(buffer));
      if (n == 0 || (n < 0 && errno != EINTR)) return true;
      if (n > 0) text.append(buffer, static_cast<size_t>(n));
    }
  }

 private:
  bool wait_for_data(const Deadline& deadline) const {
    for (;;) {
      const uint64_t left_ms = deadline.remaining_ns() / 1'000'000;
      const int timeout = left_ms > INT_MAX ? -1 : static_cast<int>(left_ms) + 1;
      pollfd at{.fd = ends_[0], .events = POLLIN, .revents = 0};
      const int ready = ::poll(&at, 1, timeout);
      if (ready != 0 && !(ready < 0 && errno == EINTR)) return true;
      if (deadline.passed()) return false;
    }
  }

  int ends_[2];
};

// As the C library wants them: with a null at the end.
std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& each : words) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

pid_t start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            int out) {
  const std::vector<char*> arguments = pointers_to(command);
  std::vector<char*> variables = pointers_to(environment);
  variables.pop_back();
  for (char** each = environ; *each != nullptr; ++each) variables.push_back(*each);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t child = 0;
  errno =
      ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) throw_errno(ErrorCode::kUsage, "cannot run " + in_quotes(command[0]));
  return child;
}

void wait_for(pid_t child, Ended& ended) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

Ended run_to_end(const std::vector<std::string>& command, double seconds,
                 const std::vector<std::string>& environment) {
  Pipe pipe;
  const pid_t child = start(command, environment, pipe.writer());
  pipe.close_writer();
  Ended ended;
  const Deadline deadline = seconds > 0 ? Deadline::after(seconds) : Deadline::never();
  ended.timed_out = !pipe.read_to_the_end(ended.output, deadline);
  if (ended.timed_out) ::kill(child, SIGKILL);
  wait_for(child, ended);
  return ended;
}

}  // namespace flotilla
