#include "env/failure.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace flotilla {
namespace {

constexpr const char* kFormat = "flotilla-crash-bundle";
constexpr int kVersion = 1;
constexpr std::streamsize kMaxBundleBytes = 16 << 20;

Error::Context context_of(const FailureReport& r) {
  return {{"env", fmt::to_string(r.env)},
          {"seed", fmt::to_string(r.seed)},
          {"episode", fmt::to_string(r.episode)},
          {"step", fmt::to_string(r.step)},
          {"action", r.action},
          {"phase", r.phase}};
}

std::string summary(const FailureReport& r) {
  if (r.env < 0) return fmt::format("a worker of '{}' failed: {}", r.env_name, r.cause);
  return fmt::format("env {} of '{}' failed in {}: {}", r.env, r.env_name, r.phase, r.cause);
}

std::string replay_hint(const FailureReport& r) {
  if (r.bundle.empty()) return "";
  return fmt::format("; replay it with: flotilla check {} --replay {}", r.env_name, r.bundle);
}

}  // namespace

std::string FailureReport::message() const {
  return fmt::format("{} (seed {}, episode {}, step {}, action {}){}", summary(*this), seed,
                     episode, step, action, replay_hint(*this));
}

EnvFailure::EnvFailure(const FailureReport& report, const std::string& consequence)
    : Error(ErrorCode::kEnvironment, summary(report) + replay_hint(report) + consequence,
            context_of(report)),
      report_(report) {}

void CrashBundle::write(const std::string& path) const {
  const nlohmann::ordered_json json = {{"format", kFormat},
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
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  if (!file.flush()) throw Error(ErrorCode::kData, "cannot write crash bundle " + path);
}

CrashBundle CrashBundle::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kData, "cannot read crash bundle " + path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  if (static_cast<std::streamsize>(text.size()) > kMaxBundleBytes) {
    throw Error(ErrorCode::kData, path + " is too large for a crash bundle");
  }
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      throw Error(ErrorCode::kData, path + " is not a crash bundle of version 1");
    }
    CrashBundle bundle;
    json.at("env").get_to(bundle.env_name);
    json.at("config").get_to(bundle.config_yaml);
    json.at("spec_sha256").get_to(bundle.spec_sha256);
    json.at("time_limit").get_to(bundle.time_limit);
    json.at("seed").get_to(bundle.seed);
    json.at("env_index").get_to(bundle.env);
    json.at("episode").get_to(bundle.episode);
    json.at("episode_start").get_to(bundle.episode_start);
    json.at("steps_lost").get_to(bundle.steps_lost);
    json.at("cause").get_to(bundle.cause);
    json.at("actions").get_to(bundle.actions);
    return bundle;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kData, fmt::format("{} is not a crash bundle: {}", path, error.what()));
  }
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
