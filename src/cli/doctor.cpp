// flotilla doctor: what this program sees of the machine, and whether its back ends start here.
#include <fmt/format.h>

#include "flotilla/cli/commands.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/random_run.h"
#include "flotilla/nn/fused/kernel_choice.h"
#include "flotilla/nn/make_policy.h"

namespace flotilla {
namespace {

// A line of the table; what is long goes on in its second column.
void show(const char* name, const std::string& text) {
  constexpr size_t kColumn = 19;
  display(fmt::format("{:<{}} {}\n", name, kColumn - 1, text), kColumn);
}

// Starts a few envs, steps them, and stops them again.
bool try_backend(const Registry& registry, const char* name, const VecOptions& options) {
  const uint64_t start = now_ns();
  try {
    const EnvType& type = registry.find("cartpole");
    RandomRun run(type, Config(type.schema), options, 0);
    run.run(100);
  } catch (const std::exception& error) {
    show(name, coloured(Stream::kOut, Colour::kRed, "FAILED") + ": " + as_error(error).what());
    return false;
  }
  show(name, coloured(Stream::kOut, Colour::kGreen, "ok") +
                 fmt::format(", {:.0f} ms", static_cast<double>(now_ns() - start) * 1e-6));
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
    show("fused kernels", fused::kernels().name);
    return true;
  } catch (const Error& error) {
    show("fused kernels", error.what());
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
    show("torch policy", fmt::format("{}, opened in {:.0f} ms", name, ms));
  } catch (const Error& error) {
    show("torch policy", std::string("none: ") + error.what());
  }
}

}  // namespace

void add_doctor_command(Command& root, Program& program) {
  Command& command = root.add("doctor", "show what was found and try every back end");
  command.action([&program] {
    show("program", kVersionLine);
    show("cpu", fmt::format("{} x {}", cpu_count(), cpu_model()));
    show("vectors", cpu_features());
    show("memory", human_bytes(available_memory_bytes()) + " available");
    const Activity trying("trying every back end");
    bool healthy = show_kernels();
    healthy &= try_backends(program.registry);
    show_torch();
    program.exit_status = healthy ? 0 : exit_status(ErrorCode::kCheckFailed);
  });
}

}  // namespace flotilla
