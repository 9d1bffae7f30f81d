#include "flotilla/env/failure.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr const char* kFormat = "flotilla-crash-bundle";
constexpr int kVersion = 1;
constexpr size_t kMaxBundleBytes = size_t{16} << 20;

Error::Context context_of(const FailureReport& r) {
  return {{"env", fmt::to_string(r.env)},
          {"seed", fmt::to_string(r.seed)},
          {"episode", fmt::to_string(r.episode)},
          {"step", fmt::to_string(r.step)},
          {"action", r.action},
          {"phase", r.phase}};
}

std::string summary(const FailureReport& r) {
  const std::string purpose = r.purpose.empty() ? "" : r.purpose + ": ";
  if (r.env < 0) return fmt::format("{}a worker of '{}' failed: {}", purpose, r.env_name, r.cause);
  return fmt::format("{}env {} of '{}' failed in {}: {}", purpose, r.env, r.env_name, r.phase,
                     r.cause);
}

[[noreturn]] void not_a_bundle(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kData, path + " is not a crash bundle: " + why);
}

// Not the whole of a list or an object: it may be long.
std::string description_of(const Json& value) {
  if (value.is_array()) return "a list with something else in it";
  if (value.is_object()) return "an object";
  return value.is_string() ? in_quotes(value.text()) : value.dump();
}

std::string replay_hint(const FailureReport& r) {
  if (r.bundle.empty()) return "";
  return fmt::format("; replay it with: {} check {} --replay {}", program_name(), r.env_name,
                     r.bundle);
}

}  // namespace

std::string FailureReport::message() const {
  return fmt::format("{} (seed {}, episode {}, step {}, action {}){}", summary(*this), seed,
                     episode, step, action, replay_hint(*this));
}

EnvFailure::EnvFailure(const FailureReport& report, const std::string& consequence)
    : Error(ErrorCode::kEnvironment, summary(report) + replay_hint(report) + consequence,
            context_of(report)),
      report_(report),
      consequence_(consequence) {}

std::string CrashBundle::text() const {
  const Json json = {{"format", kFormat},
                     {"version", kVersion},
                     {"env", env_name},
                     {"config", config_yaml},
                     {"spec_sha256", spec_sha256},
                     {"time_limit", time_limit},
                     {"seed", seed},
                     {"env_index", env},
                     {"episode", episode},
                     {"episode_start", episode_start},
                     {"steps_lost", steps_lost},
                     {"cause", cause},
                     {"actions", actions}};
  // A message may hold anything; what is not UTF-8 is replaced.
  return json.dump(1, Json::StrayBytes::kReplace) + "\n";
}

CrashBundle CrashBundle::read(const std::string& path) {
  return parse(read_whole_file(path, kMaxBundleBytes), path);
}

CrashBundle CrashBundle::parse(const std::string& contents, const std::string& path) {
  const std::optional<Json> json = Json::try_parse(contents);
  if (!json || !json->is_object()) not_a_bundle(path, "it is not a JSON object");
  const auto field = [&](const char* name) -> const Json& {
    const Json* found = json->find(name);
    if (found == nullptr) not_a_bundle(path, fmt::format("'{}' is missing", name));
    return *found;
  };
  const auto text = [&](const char* name) {
    if (!field(name).is_string()) not_a_bundle(path, fmt::format("'{}' is not a text", name));
    return field(name).get<std::string>();
  };
  const auto number = [&](const char* name, uint64_t largest) {
    const Json& value = field(name);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > largest) {
      not_a_bundle(path, fmt::format("'{}' is not an integer from 0 to {}", name, largest));
    }
    return value.get<uint64_t>();
  };
  if (text("format") != kFormat) not_a_bundle(path, "it has another format");
  if (number("version", UINT32_MAX) != kVersion) not_a_bundle(path, "it has another version");
  CrashBundle bundle;
  bundle.env_name = text("env");
  bundle.config_yaml = text("config");
  bundle.spec_sha256 = text("spec_sha256");
  bundle.time_limit = static_cast<int>(number("time_limit", INT32_MAX));
  bundle.seed = number("seed", UINT64_MAX);
  bundle.env = static_cast<int>(number("env_index", INT32_MAX));
  bundle.episode = static_cast<uint32_t>(number("episode", UINT32_MAX));
  bundle.episode_start = number("episode_start", UINT64_MAX);
  bundle.steps_lost = number("steps_lost", UINT64_MAX);
  bundle.cause = text("cause");
  if (!field("actions").is_array()) not_a_bundle(path, "'actions' is not a list");
  for (const Json& action : field("actions")) {
    const bool numbers = action.is_array() &&
                         std::ranges::all_of(action, [](const Json& v) { return v.is_number(); });
    if (!numbers) {
      not_a_bundle(path, fmt::format("action {} is {}, not a list of numbers",
                                     bundle.actions.size(), description_of(action)));
    }
    bundle.actions.push_back(action.get<std::vector<double>>());
  }
  return bundle;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string describe_wait_status(int status) {
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), signal_name(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace flotilla
