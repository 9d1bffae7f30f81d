// The worker side of the processes back end.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/env/process_protocol.h"
#include "flotilla/env/registry.h"

namespace flotilla {

// Call first in main() of every program that uses the processes back end with `spawn`: workers
// are this same program, started with arguments that only this function knows. Returns the exit
// status when this process is such a worker, or one that describes an env; nothing otherwise.
std::optional<int> run_if_worker(int argc, char** argv, const Registry& registry);

// Asks a process of this program what EnvType::describe says of an env with these settings, YAML.
// Throws the error that it had, or Error(kEnvironment), with `where` in front, when it came to
// another end or took longer than outside code may (outside_code.h).
Json ask_for_description(const std::string& env, const std::string& settings,
                         const std::string& where);

// Where a worker finds its work: the segment's descriptor and size, its control block in it, and
// which of the workers it is.
struct WorkerPost {
  int fd = 0;
  size_t bytes = 0, control_offset = 0;
  int index = 0;

  // Behind the name of a program and its own arguments. Nothing: they are not those of a worker.
  static std::optional<WorkerPost> from(const std::vector<std::string>& arguments);
};

// Maps the segment and carries out commands until told to stop, with the loop that `make_loop`
// gives for its control block. The status to exit with; why `make_loop` threw is the parent's to
// say. Throws Error(kUsage) where there is no segment.
int serve(const WorkerPost& post,
          const std::function<std::unique_ptr<EnvLoop>(const Segment& segment)>& make_loop);

// The arguments with which the parent starts a worker.
std::vector<std::string> worker_arguments(int fd, size_t bytes, size_t control_offset, int index);

// Ends this process soon after `parent`, even while an env hangs.
void follow_parent(pid_t parent);

// Tells the parent why this worker does not come up.
void start_failed(const Segment& segment, int index, const std::exception& why);

// Carries out commands until told to stop. In a forked child, call _exit() after it.
void work(const Segment& segment, const EnvLoop& loop, int index);

}  // namespace flotilla
