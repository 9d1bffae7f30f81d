#include "flotilla/train/checkpoint_state.h"

#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "flotilla/core/base64.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/json_fields.h"

namespace flotilla {
namespace {

[[noreturn]] void refuse_state(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kData, path + ": " + why);
}

Json parse(const std::string& text) { return Json::try_parse(text).value_or(nullptr); }

[[noreturn]] void refuse_field(const std::string& path, const char* name) {
  refuse_state(path, std::string("the field '") + name + "' is missing or of another type");
}

const Json& field(const Json& json, const char* name, const std::string& path) {
  const Json* value = json.find(name);
  if (value == nullptr) refuse_field(path, name);
  return *value;
}

template <class T>
T field(const Json& json, const char* name, const std::string& path) {
  const Json& value = field(json, name, path);
  if constexpr (std::is_integral_v<T>) {
    // Not by conversion: a number of another kind or size would become some other number.
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits)
      refuse_state(path, std::string("the field '") + name + "' is not an integer in range");
  }
  try {
    return value.get<T>();
  } catch (const Error&) {
    refuse_field(path, name);
  }
}

std::optional<BestEvaluation> best_in(const Json& json, const std::string& path) {
  const Json& best = field(json, "best", path);
  if (best.is_null()) return std::nullopt;
  return BestEvaluation{.step = field<int64_t>(best, "step", path),
                        .mean = field<double>(best, "mean", path),
                        .since = field<int>(best, "since", path)};
}

}  // namespace

std::string encode_state(const CheckpointState& state) {
  Json best = nullptr;
  if (state.best) {
    best = {{"step", state.best->step}, {"mean", state.best->mean}, {"since", state.best->since}};
  }
  Json json = {{"format", CheckpointState::kFormat},
               {"step", state.step},
               {"env", state.env},
               {"spec_sha256", state.spec_sha256},
               {"kernel", state.implementation},
               {"version", state.version},
               {"config", state.config},
               {"best", best},
               {"files", state.files},
               {"run", to_base64(state.run)}};
  if (!state.run_id.empty()) json["run_id"] = state.run_id;
  if (state.phase.index > 0) {
    json["phase"] = {{"index", state.phase.index}, {"step", state.phase.step}};
  }
  json["sha256"] = json_checksum(json);
  return json.dump(1) + "\n";
}

CheckpointState decode_state(const std::string& text, const std::string& path) {
  const Json json = parse(text);
  if (!json.is_object()) refuse_state(path, "is not a JSON object");
  const auto format = field<int64_t>(json, "format", path);
  if (format != CheckpointState::kFormat) {
    refuse_state(path, fmt::format("has format {}, this program reads {}", format,
                                   CheckpointState::kFormat));
  }
  if (field<std::string>(json, "sha256", path) != json_checksum(json)) {
    refuse_state(path, "does not match its checksum");
  }
  CheckpointState state;
  state.step = field<int64_t>(json, "step", path);
  state.env = field<std::string>(json, "env", path);
  state.spec_sha256 = field<std::string>(json, "spec_sha256", path);
  state.implementation = field<std::string>(json, "kernel", path);
  state.version = field<std::string>(json, "version", path);
  if (json.find("run_id") != nullptr) state.run_id = field<std::string>(json, "run_id", path);
  state.config = field<std::string>(json, "config", path);
  state.best = best_in(json, path);
  if (const Json* phase = json.find("phase"); phase != nullptr) {
    state.phase = {.index = field<int>(*phase, "index", path),
                   .step = field<int64_t>(*phase, "step", path)};
  }
  state.files = field<std::map<std::string, std::string>>(json, "files", path);
  const auto run = field<std::string>(json, "run", path);
  try {
    state.run = from_base64(run);
  } catch (const Error& error) {
    refuse_state(path, error.what());
  }
  return state;
}

std::string state_checksum(const std::string& text) {
  const Json json = parse(text);
  return json.is_object() ? json_checksum(json) : "";
}

}  // namespace flotilla
