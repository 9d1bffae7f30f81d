#include "flotilla/cli/program.h"

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "flotilla/cli/commands.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/worker.h"

namespace flotilla {

// Longer than any command needs to finish a step and end its workers.
constexpr unsigned kInterruptGraceSeconds = 4;

namespace {

constexpr const char* kDescription =
    "Flotilla trains reinforcement-learning policies on many environments at once.";
constexpr const char* kFooter =
    "Exit status: 0 ok, 1 a check failed, 2 usage, 3 environment failure, 4 data file,\n"
    "5 numeric failure, 70 refused by the system, 130 interrupted.";

// The program's own name in front of errors: a user's may be another one.
std::string g_name = "flotilla";

// Says it on stderr, which may be closed. Where there is no memory left to make it fit for a
// terminal, as it is.
int fail(const char* message, ErrorCode code, Lines lines = Lines::kOne) {
  try {
    say_as_is(g_name + ": " + for_terminal(message, lines) + "\n");
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: %s\n", g_name.c_str(), message);
  }
  return exit_status(code);
}

// The status to end with: output that did not arrive is a failure, too.
int ended(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return fail("cannot write to stdout", ErrorCode::kInternal);
}

void add_commands(Command& root, Program& program) {
  add_list_command(root, program);
  add_train_command(root, program);
  add_actor_command(root, program);
  add_eval_command(root, program);
  add_plot_command(root);
  add_compare_command(root);
  add_export_command(root);
  add_check_command(root, program);
  add_verify_command(root, program);
  add_bench_command(root, program);
  add_doctor_command(root, program);
  for (const auto& [domain, add] : program.commands) add(root, program);
}

int run(int argc, char** argv, Program& program) {
  try {
    log::check_settings();
    Command root(
        {.name = g_name, .description = kDescription, .version = kVersionLine, .footer = kFooter});
    add_commands(root, program);
    root.parse(argc, argv);
    return ended(program.exit_status);
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    const bool ours = dynamic_cast<const Error*>(&exception) != nullptr;
    return fail(error.what(), error.code(), ours ? Lines::kOne : Lines::kMany);
  }
}

}  // namespace

int run_program(int argc, char** argv, Program program) {
  prepare_for_memory_shortage();
  if (argc > 0 && argv[0][0] != '\0') {
    set_program_name(argv[0]);
    g_name = std::filesystem::path(argv[0]).filename();
  }
  if (const auto status = run_if_worker(argc, argv, program.registry)) return *status;
  // A file-size limit shows as an error where memory is reserved, not as a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  install_interrupt_handler(kInterruptGraceSeconds);
  show_activities();
  return run(argc, argv, program);
}

int run_program(int argc, char** argv, Registry registry) {
  Program program;
  program.registry = std::move(registry);
  return run_program(argc, argv, std::move(program));
}

}  // namespace flotilla
