// A forked child that runs one function: for tests that change or end their process.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace flotilla::test {

// Returns the wait status. The child exits with what `body` returns, 99 when it throws.
template <class F>
int status_of_child(F&& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    int status = 99;
    try {
      status = body();
    } catch (...) {
    }
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

inline bool exited_with(int status, int code) {
  return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

}  // namespace flotilla::test
