#include "flotilla/env/python_env.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>

#include "flotilla/core/error.h"
#include "flotilla/core/subprocess.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/env/remote_loop.h"

namespace flotilla {
namespace {

constexpr const char* kGymnasium = "gym:";
constexpr const char* kFactory = "py:";
constexpr const char* kHasPackage =
    "import importlib.util, sys; sys.exit(importlib.util.find_spec('flotilla') is None)";

bool has_package(const std::string& interpreter) {
  try {
    const double seconds = outside_code().start_timeout_s;
    return run_to_end({interpreter, "-c", kHasPackage}, seconds).status == 0;
  } catch (const Error&) {
    return false;  // there is no such program
  }
}

std::vector<std::string> candidates() {
  if (!python_settings().interpreter.empty()) return {python_settings().interpreter};
  if (const char* chosen = std::getenv("FLOTILLA_PYTHON"); chosen != nullptr && *chosen != '\0') {
    return {chosen};
  }
  if (!python_settings().host.empty()) return {python_settings().host};
  std::vector<std::string> found;
  if (const char* active = std::getenv("VIRTUAL_ENV"); active != nullptr && *active != '\0') {
    found.push_back(std::string(active) + "/bin/python");
  }
  found.emplace_back("python3");
  return found;
}

std::string find_interpreter() {
  const std::vector<std::string> all = candidates();
  for (const std::string& each : all) {
    if (has_package(each)) return each;
  }
  throw Error(ErrorCode::kUsage,
              fmt::format("no Python with the package 'flotilla': {} has none; install it with "
                          "'pip install .' or give another one by --python",
                          fmt::join(all, " and ")));
}

void require_permission(const std::string& name) {
  const PythonSettings& settings = python_settings();
  if (!names_code(name) || !settings.interpreter.empty() || settings.named.contains(name)) return;
  const char* how = settings.host.empty() ? "name it behind train as well, or give --python"
                                          : "give its name to flotilla.admit()";
  throw Error(ErrorCode::kUsage, fmt::format("{} is Python code that a file names: to run it, {}",
                                             in_quotes(name), how));
}

float bound(const Json& value, float infinite) {
  return value.is_null() ? infinite : static_cast<float>(value.get<double>());
}

// Bounds; null stands for what has none.
std::vector<float> bounds(const Json& values, float infinite) {
  std::vector<float> result;
  for (const Json& value : values) result.push_back(bound(value, infinite));
  return result;
}

ObsSpace obs_space(const Json& json) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return {.type = json["type"].text() == "uint8" ? ObsType::kUint8 : ObsType::kFloat32,
          .shape = json["shape"].get<std::vector<int>>(),
          .low = bounds(json["low"], -kInfinity),
          .high = bounds(json["high"], kInfinity)};
}

ActionSpace action_space(const Json& json) {
  const std::string& kind = json["kind"].text();
  if (kind == "box") return ActionSpace::box(bounds(json["low"], 0), bounds(json["high"], 0));
  const auto choices = json["choices"].get<std::vector<int>>();
  return kind == "discrete" ? ActionSpace::discrete(choices.at(0))
                            : ActionSpace::multi_discrete(choices);
}

// One name, and what its interpreter said of it so far.
class PythonSource {
 public:
  explicit PythonSource(std::string name)
      : name_(std::move(name)), interpreter_(find_interpreter()) {}

  const std::string& name() const { return name_; }
  const std::string& interpreter() const { return interpreter_; }

  std::vector<std::string> worker_command(const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {interpreter_, "-m", "flotilla.worker", name_};
    words.insert(words.end(), settings.begin(), settings.end());
    return words;
  }

  // No env is made for them: with the defaults of its settings it may be slow, or not be possible.
  const Json& keys() { return answer({"--keys", name_})["keys"]; }

  // What an env with these settings looks like.
  const Json& description(const std::vector<std::string>& settings) {
    std::vector<std::string> words = {"--describe", name_};
    words.insert(words.end(), settings.begin(), settings.end());
    return answer(words)["env"];
  }

 private:
  // Every question is asked once.
  const Json& answer(const std::vector<std::string>& question) {
    auto known = answers_.find(question);
    if (known == answers_.end()) known = answers_.emplace(question, ask(question)).first;
    if (known->second.contains("error")) fail(known->second);
    return known->second;
  }

  // Says the traceback, and throws.
  [[noreturn]] void fail(const Json& answer) const {
    if (const Json* traceback = answer.find("traceback"); traceback != nullptr) {
      say(traceback->text());
    }
    throw Error(ErrorCode::kUsage, fmt::format("{} cannot be made by {}: {}", in_quotes(name_),
                                               interpreter_, answer["error"].text()));
  }

  Json ask(const std::vector<std::string>& question) const {
    std::vector<std::string> command = {interpreter_, "-m", "flotilla.worker"};
    command.insert(command.end(), question.begin(), question.end());
    const double seconds = outside_code().start_timeout_s;
    const Ended ended = run_to_end(command, seconds);
    stop_if_interrupted();
    const std::optional<Json> json = Json::try_parse(ended.output);
    if (json && json->is_object()) return *json;
    const std::string how =
        ended.timed_out    ? fmt::format("gave no answer within {} s (start_timeout_s)", seconds)
        : ended.status < 0 ? std::string("was killed by a signal")
                           : fmt::format("exited with status {}", ended.status);
    throw Error(ErrorCode::kUsage,
                fmt::format("{} cannot be made: {} {}", in_quotes(name_), interpreter_, how));
  }

  const std::string name_, interpreter_;
  std::map<std::vector<std::string>, Json> answers_;
};

// What makes the env may have a parameter of that name: then it is its own matter.
bool stacks_itself(const Json& keys) {
  return std::ranges::any_of(keys,
                             [](const Json& key) { return key["name"].text() == kFrameStackKey; });
}

// "key=value" of all that is the env's own and not left at its default.
std::vector<std::string> settings_of(const Config& config) {
  std::vector<std::string> settings;
  for (const Key& key : config.schema().keys()) {
    if (!std::holds_alternative<std::string>(key.default_value)) continue;
    const std::string& text = config.get_text(key.name);
    if (text != std::get<std::string>(key.default_value)) settings.push_back(key.name + "=" + text);
  }
  return settings;
}

Schema schema_of(const Json& keys) {
  Schema schema;
  for (const Json& key : keys) {
    schema.text(key["name"].text(), key["default"].text(), key["help"].text());
  }
  return stacks_itself(keys) ? schema : with_frame_stack(schema);
}

bool needs_any(const Json& keys) {
  for (const Json& key : keys) {
    if (key["needed"].get<bool>()) return true;
  }
  return false;
}

std::unique_ptr<EnvLoop> make_remote_loop(PythonSource& source, const Config& config,
                                          int time_limit) {
  const auto description =
      PythonDescription::from(source.description(settings_of(config)), source.name(), time_limit);
  const int frames = stacks_itself(source.keys()) ? 1 : frame_stack_of(config);
  if (description.keeps_states) {
    return std::make_unique<RemoteLoop<PythonState<kPythonStateBytes>>>(description.spec, frames);
  }
  return std::make_unique<RemoteLoop<PythonState<0>>>(description.spec, frames);
}

}  // namespace

bool names_code(const std::string& name) {
  return name.starts_with(kFactory) ||
         (name.starts_with(kGymnasium) &&
          name.find(':', std::string_view(kGymnasium).size()) != std::string::npos);
}

bool is_python_env(const std::string& name) {
  return name.starts_with(kGymnasium) || name.starts_with(kFactory);
}

PythonSettings& python_settings() {
  static PythonSettings settings;
  return settings;
}

PythonDescription PythonDescription::from(const Json& json, const std::string& name,
                                          int time_limit) {
  PythonDescription result;
  result.spec.name = name;
  result.spec.obs = obs_space(json["obs"]);
  result.spec.action = action_space(json["action"]);
  result.spec.has_mask = json["has_mask"].get<bool>();
  result.spec.time_limit = time_limit;
  result.spec.validate();
  result.keeps_states = json["state_bytes"].get<uint64_t>() > 0;
  return result;
}

EnvType python_env_type(const std::string& name) {
  require_permission(name);
  const auto source = std::make_shared<PythonSource>(name);
  return {
      .name = name,
      .summary = "Python code, run by " + source->interpreter(),
      .schema = schema_of(source->keys()),
      .make_loop = [source](
                       const Config& config,
                       int time_limit) { return make_remote_loop(*source, config, time_limit); },
      .worker_command =
          [source](const Config& config) { return source->worker_command(settings_of(config)); },
      .needs_settings = needs_any(source->keys())};
}

}  // namespace flotilla
