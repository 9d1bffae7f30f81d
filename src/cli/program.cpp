#include "flotilla/cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "flotilla/cli/command.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/worker.h"

namespace flotilla {

// Longer than any command needs to finish a step and end its workers.
constexpr unsigned kInterruptGraceSeconds = 5;

namespace {

constexpr const char* kFooter =
    "Exit status: 0 ok, 1 a check failed, 2 usage, 3 environment failure, 4 data file,\n"
    "5 numeric failure, 70 refused by the system, 130 interrupted.";

// The program's own name in front of errors: a user's may be another one.
std::string g_name = "flotilla";

// Says it on stderr, which may be closed.
int fail(const std::string& message, ErrorCode code) {
  std::fputs((g_name + ": " + message + "\n").c_str(), stderr);
  return exit_status(code);
}

// The status to end with: output that did not arrive is a failure, too.
int ended(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  return fail("cannot write to stdout", ErrorCode::kInternal);
}

// The command that the arguments name, as far as they name one.
const CLI::App* find_command(const CLI::App& app, int argc, char** argv, int& consumed) {
  const CLI::App* command = &app;
  for (consumed = 1; consumed < argc; ++consumed) {
    const auto subcommands = command->get_subcommands([](const CLI::App*) { return true; });
    const auto next = std::ranges::find(subcommands, argv[consumed], &CLI::App::get_name);
    if (next == subcommands.end()) break;
    command = *next;
  }
  return command;
}

// What is wrong with a command or an option that does not exist, or "". CLI11 would say only that
// it was not expected.
std::string find_unknown(const CLI::App& app, int argc, char** argv) {
  int at = 0;
  const CLI::App* command = find_command(app, argc, argv, at);
  std::vector<std::string> names, options{"--help"};
  for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  }
  if (!names.empty() && (at == argc || argv[at][0] != '-')) {
    const std::string what =
        at == argc ? std::string("a command is missing")
                   : fmt::format("unknown command '{}'{}", argv[at], did_you_mean(argv[at], names));
    return fmt::format("{} (commands: {})", what, join(names, ", "));
  }
  for (; at < argc && std::string_view(argv[at]) != "--"; ++at) {
    const std::string name = std::string(argv[at]).substr(0, std::string_view(argv[at]).find('='));
    if (name.starts_with("--") && std::ranges::count(options, name) == 0) {
      return fmt::format("unknown option '{}'{}", name, did_you_mean(name, options));
    }
  }
  return "";
}

int run(int argc, char** argv, Program& program) {
  CLI::App app("Flotilla trains reinforcement-learning policies on many environments at once.",
               g_name);
  app.set_version_flag("--version", kVersionLine);
  app.require_subcommand(1);
  app.footer(kFooter);
  add_list_command(app, program);
  add_train_command(app, program);
  add_eval_command(app, program);
  add_plot_command(app, program);
  add_compare_command(app, program);
  add_export_command(app, program);
  add_check_command(app, program);
  add_bench_command(app, program);
  add_doctor_command(app, program);
  const auto has = [&](const char* env) {
    return std::ranges::count(program.registry.types(), env, &EnvType::name) > 0;
  };
  if (has("cage2")) add_cage2_command(app, program);
  add_search_commands(app, program);
  add_dvrp_command(app, program);
  if (const std::string unknown = find_unknown(app, argc, argv); !unknown.empty()) {
    return fail(unknown, ErrorCode::kUsage);
  }
  try {
    app.parse(argc, argv);
    return ended(program.exit_status);
  } catch (const CLI::Success& request) {  // --help, --version
    return ended(app.exit(request));
  } catch (const CLI::ParseError& error) {
    return fail(error.what(), ErrorCode::kUsage);
  } catch (const Error& error) {
    return fail(error.what(), error.code());
  } catch (const std::exception& error) {
    return fail(error.what(), ErrorCode::kInternal);
  }
}

}  // namespace

int run_program(int argc, char** argv, Registry registry) {
  Program program{.registry = std::move(registry)};
  if (argc > 0) g_name = std::filesystem::path(argv[0]).filename();
  if (const auto status = run_if_worker(argc, argv, program.registry)) return *status;
  // A file-size limit shows as an error where memory is reserved, not as a signal.
  std::signal(SIGXFSZ, SIG_IGN);
  install_interrupt_handler(kInterruptGraceSeconds);
  return run(argc, argv, program);
}

}  // namespace flotilla
