// flotilla doctor: what this program sees of the machine, and whether its back ends start here.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/version.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/system.h"
#include "core/text.h"
#include "env/random_run.h"

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
    fmt::print("{:<18} FAILED: {}\n", name, error.what());
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

}  // namespace

void add_doctor_command(CLI::App& app, Program& program) {
  app.add_subcommand("doctor", "show what was found and try every back end")->callback([&program] {
    fmt::print("{:<18} {}\n", "program", kVersionLine);
    fmt::print("{:<18} {} x {}\n", "cpu", cpu_count(), cpu_model());
    fmt::print("{:<18} {}\n", "vectors", cpu_features());
    fmt::print("{:<18} {} available\n", "memory", human_bytes(available_memory_bytes()));
    const bool healthy = try_backends(program.registry);
    program.exit_status = healthy ? 0 : exit_status(ErrorCode::kCheckFailed);
  });
}

}  // namespace flotilla
