// A program: its environments with their recipes, and what its domains add to the general commands.
// A domain fills it in by one function of its own (domains/domains.cpp has the list).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/command/command.h"
#include "flotilla/env/registry.h"
#include "flotilla/train/run.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

// An option of `train` and `bench ppo` for settings that only some environments have.
struct RunOption {
  std::string name;  // with its dashes
  std::string env;   // whose runs have it: --help shows it for these alone
  std::string help;
  std::optional<std::pair<int, int>> range;  // of a whole number; none: any text
  bool is_flag = false;                      // it is given without a value
  // Throws Error(kUsage) where the environment has no such setting.
  std::function<void(Config& config, const std::string& text)> apply;
  // What follows from it in a new run for another key, unless whoever starts it sets that himself.
  struct Consequence {
    std::string key;
    std::function<std::string(const Config& config)> value;
  };
  std::optional<Consequence> consequence = {};
  // The key that it sets in runs of other environments, where the option is known to all but means
  // something of its own in these. "": apply() has the say in all runs.
  std::string otherwise = {};
};

struct Program {
  Registry registry;
  Algorithms algorithms = built_in_algorithms();
  PolicyFactory policy_factory;  // where the program brings a policy of its own

  // Commands by the domain they belong to, in the order of its name. `root` has the general ones
  // already; a domain may add to these, too.
  using AddCommands = std::function<void(Command& root, Program& program)>;
  std::map<std::string, AddCommands> commands;
  std::vector<RunOption> run_options;
  // Keys that --device sets besides `device`, where an environment has them: one device for
  // everything that can use one.
  std::vector<std::string> device_keys;
  // What a domain has to say about a run before it begins, or "": warnings.
  using Remark = std::function<std::string(const RunConfig& run)>;
  std::vector<Remark> remarks;
  // What a domain has to say about a run that has ended, or "": lines behind its summary.
  using Ending = std::function<std::string(const Run& run)>;
  std::vector<Ending> endings;

  int exit_status = 0;  // stored by a command that has no error to throw
};

}  // namespace flotilla
