// What the sub-commands share. Each one lives in a file of its own and registers itself with one
// function here; its callback stores the exit status.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/registry.h"

namespace flotilla {

struct Program {
  Registry registry;
  int exit_status = 0;
};

void add_list_command(CLI::App& app, Program& program);
void add_train_command(CLI::App& app, Program& program);
void add_eval_command(CLI::App& app, Program& program);
void add_plot_command(CLI::App& app, Program& program);
void add_compare_command(CLI::App& app, Program& program);
void add_export_command(CLI::App& app, Program& program);
void add_bench_command(CLI::App& app, Program& program);
void add_bench_ppo_command(CLI::App& bench, Program& program);  // of the bench command
void add_bench_search_command(CLI::App& bench);
void add_bench_oracle_command(CLI::App& bench);
void add_check_command(CLI::App& app, Program& program);
void add_doctor_command(CLI::App& app, Program& program);
void add_cage2_command(CLI::App& app, Program& program);  // what only that domain has
void add_dvrp_command(CLI::App& app, Program& program);
// ENV search, for every environment that offers workflows.
void add_search_commands(CLI::App& app, Program& program);

// The environment a command works on: its name, an optional YAML file, and key=value overrides.
struct EnvArguments {
  std::string name;
  std::string config_file;
  std::vector<std::string> overrides;

  void add_to(CLI::App& command);
  Config config(const EnvType& type) const;
};

// Options of a command that are the keys of a schema: `num_envs` is --num-envs, and so on.
class SchemaFlags {
 public:
  explicit SchemaFlags(Schema schema) : config_(std::move(schema)) {}
  // Offers every key as an option; `aliases` maps a key to another name for its option.
  void add_to(CLI::App& command,
              const std::vector<std::pair<std::string, std::string>>& aliases = {});
  // The values given on the command line over the defaults. Throws Error(kUsage).
  Config config() const;
  // Only what was given: names and texts of keys.
  const std::vector<std::pair<std::string, std::string>>& given() const { return given_; }

 private:
  Config config_;
  std::vector<std::pair<std::string, std::string>> given_;
};

}  // namespace flotilla
