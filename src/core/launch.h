// What a launcher (torchrun, mpirun, srun, or a person) tells a process by variables: which of how
// many it is, and where they meet.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace flotilla {

struct Launch {
  int rank = 0, size = 1;
  int local_size = 0;     // processes on this host; 0: not known
  int local_rank = 0;     // which of them this is, as far as is known
  std::string address;    // of rank 0; "": not said
  int port = 0;           // MASTER_PORT; 0: not said
  std::string id;         // of this start, the same in all of its processes
  bool one_host() const;  // all are on this host, as far as is known
};

using Variables = std::function<std::optional<std::string>(const char* name)>;

// Nothing where one process was started by itself. Throws Error(kUsage) that names the variable
// which is missing or no number.
std::optional<Launch> launch_from(const Variables& variables);
std::optional<Launch> launch_from_environment();

// Processes of one host share its GPUs, each in turn: what CUDA_VISIBLE_DEVICES is to be for this
// one, where it was `visible` (none: not set) and the host has so many. None: as it was.
std::optional<std::string> own_gpu(int local_rank, const std::optional<std::string>& visible,
                                   int gpus);
// Sees to that. CUDA reads the variable once, so this comes before anything that uses a GPU.
void keep_to_own_gpu(const Launch& launch);

}  // namespace flotilla
