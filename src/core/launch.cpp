#include "flotilla/core/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <system_error>
#include <vector>

#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// The variables of one kind of launcher.
struct Names {
  const char* marks;  // that it started this process
  const char *rank, *size, *local_size, *local_rank;
  const char* id;  // of a start
};

// In a batch script of Slurm the variables of ranks are there too; those of a step are not.
constexpr Names kLaunchers[] = {
    {"WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_NAMESPACE"},
    {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE",
     "SLURM_LOCALID", "SLURM_JOB_ID"},
};

int number_in(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && value >= least &&
      value <= most) {
    return value;
  }
  throw Error(ErrorCode::kUsage, fmt::format("{}: expected a number from {} to {}, not '{}'", name,
                                             least, most, text));
}

std::string required(const Variables& variables, const char* name, const char* because) {
  if (auto text = variables(name)) return *text;
  throw Error(ErrorCode::kUsage, fmt::format("{} is not set, though {} is", name, because));
}

// Processes of one start on one host have the same parent, and another start has another one; or
// whoever starts them says so. By hand each may be started in a terminal of its own: there the port
// must tell.
std::string start_id(const Variables& variables, const Names& names) {
  if (const auto given = variables("FLOTILLA_START_ID")) return *given;
  const auto id = variables(names.id), port = variables("MASTER_PORT");
  const bool by_hand = !id && port;
  return fmt::format("{}.{}.{}.{}", id.value_or(""),
                     variables("TORCHELASTIC_RESTART_COUNT").value_or(""), port.value_or(""),
                     by_hand ? 0 : ::getppid());
}

std::optional<std::string> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return text;
}

}  // namespace

bool Launch::one_host() const {
  return local_size == size || (local_size == 0 && is_loopback(address));
}

std::optional<Launch> launch_from(const Variables& variables) {
  constexpr int kMost = 1 << 20;
  for (const Names& names : kLaunchers) {
    if (!variables(names.marks)) continue;
    Launch launch;
    launch.size = number_in(names.size, required(variables, names.size, names.marks), 1, kMost);
    if (launch.size == 1) return std::nullopt;
    launch.rank =
        number_in(names.rank, required(variables, names.rank, names.marks), 0, launch.size - 1);
    if (const auto local = variables(names.local_size)) {
      // "2(x3)" of Slurm: three hosts with two each.
      const std::string first = local->substr(0, local->find_first_of("(,"));
      launch.local_size = number_in(names.local_size, first, 1, kMost);
    }
    if (const auto local = variables(names.local_rank)) {
      launch.local_rank = number_in(names.local_rank, *local, 0, kMost);
    }
    launch.address = variables("MASTER_ADDR").value_or("");
    if (const auto port = variables("MASTER_PORT")) {
      launch.port = number_in("MASTER_PORT", *port, 1, 65535);
    }
    launch.id = start_id(variables, names);
    if (!launch.one_host()) required(variables, "MASTER_ADDR", names.marks);
    return launch;
  }
  // Started by hand, with one variable forgotten: it is not to train alone.
  if (variables("RANK") && variables("MASTER_ADDR")) required(variables, "WORLD_SIZE", "RANK");
  return std::nullopt;
}

std::optional<Launch> launch_from_environment() { return launch_from(variable); }

std::optional<std::string> own_gpu(int local_rank, const std::optional<std::string>& visible,
                                   int gpus) {
  if (!visible) return gpus > 1 ? std::optional(std::to_string(local_rank % gpus)) : std::nullopt;
  std::vector<std::string> names;
  std::istringstream text(*visible);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  if (names.size() < 2) return std::nullopt;
  return names[static_cast<size_t>(local_rank) % names.size()];
}

void keep_to_own_gpu(const Launch& launch) {
  constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";
  std::error_code none_there;
  const std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", none_there);
  const auto count = static_cast<int>(std::distance(begin(gpus), end(gpus)));
  if (const auto own = own_gpu(launch.local_rank, variable(kVisible), count)) {
    ::setenv(kVisible, own->c_str(), 1);
  }
}

}  // namespace flotilla
