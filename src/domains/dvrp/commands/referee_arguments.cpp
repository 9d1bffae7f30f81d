#include "flotilla/domains/dvrp/commands/referee_arguments.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/data/generate.h"

namespace flotilla {
namespace {

// Tables in a directory of their own as long as they are needed.
class TemporaryTables {
 public:
  explicit TemporaryTables(const dvrp::Data& data) : path_(temporary_path("flotilla-tables")) {
    if (::mkdtemp(path_.data()) == nullptr) {
      throw_errno(ErrorCode::kInternal, "cannot make a temporary directory");
    }
    try {
      write_data(data, path_);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~TemporaryTables() { remove(); }
  TemporaryTables(const TemporaryTables&) = delete;
  TemporaryTables& operator=(const TemporaryTables&) = delete;
  const std::string& path() const { return path_; }

 private:
  void remove() const {
    std::error_code error;  // nobody is left to be told
    std::filesystem::remove_all(path_, error);
  }

  std::string path_;
};

}  // namespace

RefereeArguments::RefereeArguments() : threads(cpu_count()) {}

void RefereeArguments::add_to(Command& command) {
  command_ = &command;
  command.option("--referee", name, "lns: the own solver (default), or ortools")
      .choices({"lns", "ortools"});
  command.option("--iterations", iterations, "of the own solver (default 5000)")
      .range(0, 1'000'000'000);
  command.option("--seconds", ortools.seconds, "of OR-Tools for a seed (default 5)")
      .range(0.01, 3600.0);
  command.option("--seeds", ortools.seeds, "of OR-Tools, the best of them (default 3)")
      .range(1, 1000);
  command.option("--python", ortools.python, "that has OR-Tools (default python3)");
  command.option("--threads", threads, "default: all CPUs").range(1, 1024);
}

dvrp::Referee RefereeArguments::make(const std::string& data, ThreadPool& pool) const {
  const std::vector<std::string> of_ortools = {"--seconds", "--seeds", "--python"};
  const std::vector<std::string> of_lns = {"--iterations"};
  for (const std::string& option : name == "lns" ? of_ortools : of_lns) {
    if (!command_->given(option)) continue;
    throw Error(ErrorCode::kUsage, fmt::format("{} is not for --referee {}", option, name));
  }
  if (name == "lns") return dvrp::make_solver_referee(iterations, pool);
  OrToolsOptions options = ortools;
  options.data = data;
  options.processes = threads;
  return make_ortools_referee(options);
}

dvrp::Referee RefereeArguments::make_for(const Config& environment, ThreadPool& pool) const {
  const std::string data = environment.get_text("data");
  const auto travellers = static_cast<int>(environment.get_integer("travellers"));
  const bool made_by_default = travellers == dvrp::GenerateOptions{}.travellers;
  if (name == "lns" || !data.empty() || made_by_default) return make(data, pool);
  // The script that asks OR-Tools knows tables only, and this city is in none.
  const auto tables =
      std::make_shared<TemporaryTables>(dvrp::generate_data({.travellers = travellers}));
  return [tables, referee = make(tables->path(), pool)](std::span<const dvrp::Instance> instances,
                                                        uint64_t seed) {
    return referee(instances, seed);
  };
}

}  // namespace flotilla
