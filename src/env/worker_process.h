// Starting worker processes, and telling why one ended.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "flotilla/env/process_protocol.h"

namespace flotilla {

// Set in the environment of a worker until run_if_worker() has seen that it is one. Whoever finds
// it later is a program that does not call that function: it must not start workers in turn.
constexpr const char* kWorkerVariable = "FLOTILLA_IS_WORKER";

// What workers are started with where nothing else is said: not this same program, which may be an
// interpreter. To be said before the first of them starts.
void set_worker_program(std::vector<std::string> command);
const std::vector<std::string>& worker_program();
// Throws Error(kUsage) in a process that was started as a worker and did not notice.
void require_worker_main();

// Starts a worker: `command` with `arguments` behind it, or where it is empty the one of
// set_worker_program(), or this same program.
// The segment is its only inherited file besides stderr; what an env prints goes there too, so that
// stdout stays the caller's.
pid_t spawn_worker(int segment_fd, const std::vector<std::string>& command,
                   const std::vector<std::string>& arguments);

// Runs `body` in a child that is a copy of this process, and ends the child with it.
pid_t fork_worker(const std::function<void()>& body);

constexpr int kSegmentFd = 3;  // where a spawned worker finds the segment

// How a worker came to its end.
struct Death {
  std::string cause;          // "worker killed by signal 11 (SIGSEGV) at address 0x0"
  bool from_outside = false;  // somebody else ended it: no fault of the env it was in
};

class PostMortem {
 public:
  PostMortem();
  // `status` as wait4() gives it; `channel` of the dead worker.
  Death examine(int status, const Channel& channel);

 private:
  uint64_t oom_kills_;  // by the kernel, when last looked
};

}  // namespace flotilla
