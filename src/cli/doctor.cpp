// flotilla doctor: what this program sees of the machine, and whether its back ends start here.
#include <fmt/format.h>

#include "flotilla/cli/commands.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/random_run.h"
#include "flotilla/nn/fused/kernel_choice.h"
#include "flotilla/nn/make_policy.h"

namespace flotilla {
namespace {

// Starts a few envs, steps them, and stops them again.
bool try_backend(const Registry& registry, const char* name, const VecOptions& options) {
  const uint64_t start = now_ns();
  try {
    const EnvType& type = registry.find("cartpole");
    RandomRun run(type, Config(type.schema), options, 0);
    run.run(100);
  } catch (const std::exception& error) {
    fmt::print("{:<18} FAILED: {}\n", name, as_error(error).what());
    return false;
  }
  fmt::print("{:<18} ok, {:.0f} ms\n", name, static_cast<double>(now_ns() - start) * 1e-6);
  return true;
}

bool try_backends(const Registry& registry) {
  VecOptions options;
  options.num_envs = 4;
  options.threads = 2;
  options.workers = 2;
  options.start_timeout_s = 10;
  bool all = try_backend(registry, "serial", options);
  options.backend = Backend::kThreads;
  all &= try_backend(registry, "threads", options);
  options.backend = Backend::kProcesses;
  all &= try_backend(registry, "processes, spawn", options);
  options.start_method = StartMethod::kFork;
  return try_backend(registry, "processes, fork", options) && all;
}

bool show_kernels() {
  try {
    fmt::print("{:<18} {}\n", "fused kernels", fused::kernels().name);
    return true;
  } catch (const Error& error) {
    fmt::print("{:<18} {}\n", "fused kernels", error.what());
    return false;
  }
}

// A build may do without libtorch: that it has none is no failure.
void show_torch() {
  NetworkSpec spec;
  spec.inputs = 1;
  spec.hidden = {1};
  spec.action = ActionSpace::discrete(2);
  const uint64_t start = now_ns();
  try {
    const std::string name = make_torch_policy(spec, {})->implementation().name;
    const double ms = static_cast<double>(now_ns() - start) * 1e-6;
    fmt::print("{:<18} {}, opened in {:.0f} ms\n", "torch policy", name, ms);
  } catch (const Error& error) {
    fmt::print("{:<18} none: {}\n", "torch policy", error.what());
  }
}

}  // namespace

void add_doctor_command(Command& root, Program& program) {
  Command& command = root.add("doctor", "show what was found and try every back end");
  command.action([&program] {
    fmt::print("{:<18} {}\n", "program", kVersionLine);
    fmt::print("{:<18} {} x {}\n", "cpu", cpu_count(), cpu_model());
    fmt::print("{:<18} {}\n", "vectors", cpu_features());
    fmt::print("{:<18} {} available\n", "memory", human_bytes(available_memory_bytes()));
    bool healthy = show_kernels();
    healthy &= try_backends(program.registry);
    show_torch();
    program.exit_status = healthy ? 0 : exit_status(ErrorCode::kCheckFailed);
  });
}

}  // namespace flotilla
