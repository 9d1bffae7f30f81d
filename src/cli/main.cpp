// flotilla: the command line program.
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/version.h"
#include "core/error.h"
#include "core/system.h"
#include "core/text.h"
#include "domains/domains.h"
#include "env/worker.h"

namespace flotilla {
namespace {

constexpr const char* kFooter =
    "The launcher script ./flotilla adds: build, test, format, clean, doctor.\n"
    "Exit status: 0 ok, 1 a check failed, 2 usage, 3 environment failure, 4 data file,\n"
    "5 numeric failure, 130 interrupted.";

int usage_error(const std::string& message) {
  fmt::print(stderr, "flotilla: {}\n", message);
  return static_cast<int>(ErrorCode::kUsage);
}

// CLI11 says only "not expected" of a command it does not know.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::ranges::count(names, std::string(argv[1])) > 0) return "";
  return fmt::format("unknown command '{}'{} (commands: {})", argv[1], did_you_mean(argv[1], names),
                     join(names, ", "));
}

int run(int argc, char** argv, Program& program) {
  CLI::App app("Flotilla trains reinforcement-learning policies on many environments at once.",
               "flotilla");
  app.set_version_flag("--version", kVersionLine);
  app.require_subcommand(1);
  app.footer(kFooter);
  add_list_command(app, program);
  add_check_command(app, program);
  add_bench_command(app, program);
  add_doctor_command(app, program);
  if (const std::string unknown = unknown_command(app, argc, argv); !unknown.empty()) {
    return usage_error(unknown);
  }
  try {
    app.parse(argc, argv);
    return program.exit_status;
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  } catch (const Error& error) {
    fmt::print(stderr, "flotilla: {}\n", error.what());
    return exit_status(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "flotilla: {}\n", error.what());
    return static_cast<int>(ErrorCode::kInternal);
  }
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  flotilla::Program program;
  flotilla::register_domains(program.registry);
  if (const auto status = flotilla::run_if_worker(argc, argv, program.registry)) return *status;
  flotilla::install_interrupt_handler();
  return flotilla::run(argc, argv, program);
}
