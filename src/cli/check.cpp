// flotilla check ENV: the conformance kit, or the replay of a crash.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/command/env_arguments.h"
#include "flotilla/command/schema_flags.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/alloc_count.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/conformance.h"
#include "flotilla/env/python_env.h"
#include "flotilla/env/replay.h"

namespace flotilla {
namespace {

Schema check_schema() {
  Schema schema;
  schema.integer("seed", 0, {0, INT64_MAX}, "seed of environments and actions")
      .integer("steps", 300, {10, 1'000'000}, "steps of each run")
      .integer("num_envs", 7, {3, 100'000}, "environments of each run");
  return schema;
}

int run_checks(const EnvType& type, const Config& config, const Config& flags, bool json) {
  const ConformanceOptions options{.seed = static_cast<uint64_t>(flags.get_integer("seed")),
                                   .steps = static_cast<int>(flags.get_integer("steps")),
                                   .num_envs = static_cast<int>(flags.get_integer("num_envs"))};
  const auto show = [json](const CheckResult& r) {
    if (json) return;
    constexpr size_t kColumn = 20;
    const std::string word = r.passed ? coloured(Stream::kOut, Colour::kGreen, "ok  ")
                                      : coloured(Stream::kOut, Colour::kRed, "FAIL");
    display(fmt::format("{} {:<14} {}\n", word, r.name, for_terminal(r.detail, Lines::kOne)),
            kColumn);
    std::fflush(stdout);
  };
  const Activity checking("checking");
  const std::vector<CheckResult> results = check_env(type, config, options, show);
  const auto failed = std::ranges::count(results, false, &CheckResult::passed);
  if (json) {
    Json checks = Json::array();
    for (const CheckResult& r : results) {
      checks.push_back({{"name", r.name}, {"passed", r.passed}, {"detail", r.detail}});
    }
    const Json line = {{"env", type.name}, {"passed", failed == 0}, {"checks", checks}};
    display_data(line.dump() + "\n");
  } else {
    display(fmt::format("{}: {} of {} checks passed\n", type.name,
                        results.size() - static_cast<size_t>(failed), results.size()));
  }
  return failed == 0 ? 0 : exit_status(ErrorCode::kCheckFailed);
}

int run_replay(const EnvType& type, const std::string& file, bool json) {
  const CrashBundle bundle = CrashBundle::read(file);
  say(fmt::format("replaying env {} of {}, seed {}, episode {}: {}\n", bundle.env, bundle.env_name,
                  bundle.seed, bundle.episode, bundle.cause));
  const Activity replaying("replaying");
  const ReplayResult result = replay(type, bundle);
  if (json) {
    const Json line = {{"env", type.name},
                       {"failed", result.failed},
                       {"steps", result.steps},
                       {"cause", result.cause}};
    display_data(line.dump() + "\n");
  } else if (result.failed) {
    display(fmt::format("failed again after {} steps: {}\n", result.steps,
                        for_terminal(result.cause, Lines::kOne)));
  } else {
    display(fmt::format("the failure did not repeat: {} steps ran clean\n", result.steps));
  }
  return result.failed ? exit_status(ErrorCode::kEnvironment) : 0;
}

}  // namespace

void add_check_command(Command& root, Program& program) {
  Command& command =
      root.add("check", "check that an environment keeps the contract, or replay a crash");
  struct State {
    EnvArguments env;
    SchemaFlags flags{check_schema()};
    std::string replay;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  state->env.add_to(command);
  state->flags.add_to(command);
  const Option replay =
      command.option("--replay", state->replay, "crash bundle to replay in this process");
  command.flag("--json", state->json, "print one JSON object on stdout");
  command.action([&program, state, replay] {
    const EnvType& type = state->env.type(program.registry);
    if (type.worker_command) {
      throw Error(ErrorCode::kUsage,
                  "'" + type.name + "' is " +
                      (is_python_env(type.name)
                           ? "in another program: use gymnasium.utils.env_checker.check_env there"
                           : "in worker processes alone, and the checks are for all back ends"));
    }
    if (!replay.given()) {
      start_anew_counting();
      program.exit_status =
          run_checks(type, state->env.config(type), state->flags.config(), state->json);
      return;
    }
    if (!state->env.overrides.empty() || !state->env.config_file.empty()) {
      throw Error(ErrorCode::kUsage, "--replay takes the settings from the bundle; give no others");
    }
    program.exit_status = run_replay(type, state->replay, state->json);
  });
}

}  // namespace flotilla
