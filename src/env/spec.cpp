#include "flotilla/env/spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string_view>

#include "flotilla/core/serial.h"
#include "flotilla/core/sha256.h"

namespace flotilla {
namespace {

// Rows longer than this are a slip, not an observation.
constexpr size_t kMaxElements = size_t{1} << 28;

void require(bool condition, const EnvSpec& spec, const std::string& what) {
  if (!condition) {
    throw SpecError("environment '" + spec.name + "': " + what);
  }
}

void validate_obs(const EnvSpec& spec) {
  const ObsSpace& obs = spec.obs;
  require(!obs.shape.empty(), spec, "the observation has no shape");
  size_t elements = 1;
  for (const int extent : obs.shape) {
    require(extent > 0, spec,
            fmt::format("observation shape ({}) is not positive", fmt::join(obs.shape, ", ")));
    elements *= static_cast<size_t>(extent);
    require(elements <= kMaxElements, spec, "the observation is too large");
  }
  require(obs.low.size() == elements && obs.high.size() == elements, spec,
          fmt::format("{} observation bounds for {} elements", obs.low.size(), elements));
  for (size_t i = 0; i < elements; ++i) {
    require(obs.low[i] <= obs.high[i], spec,
            fmt::format("observation bounds of element {} are out of order", i));
  }
}

void validate_action(const EnvSpec& spec) {
  const ActionSpace& action = spec.action;
  require(action.dims() > 0, spec, "the action has no dimensions");
  for (const int n : action.choices) require(n > 0, spec, "an action has no choices");
  require(action.low.size() == action.high.size(), spec, "action bounds of different length");
  for (size_t i = 0; i < action.low.size(); ++i) {
    require(std::isfinite(action.low[i]) && std::isfinite(action.high[i]), spec,
            "action bounds must be finite");
    require(action.low[i] <= action.high[i], spec, "action bounds are out of order");
  }
}

// What stands beside the metrics of an env in the lines of a run, under "env/" and "eval/".
constexpr std::array<std::string_view, 6> kTaken = {
    "failures", "episodic_return", "episodic_length", "episodes", "std", "ci95"};

void validate_metrics(const EnvSpec& spec) {
  std::set<std::string> names(kTaken.begin(), kTaken.end());
  if (!spec.headline.empty()) names.insert(spec.headline + "_ci95");
  for (const std::string& metric : spec.metrics) {
    require(!metric.empty(), spec, "unnamed metric");
    require(names.insert(metric).second, spec,
            "metric '" + metric + "' has the name of another number of a run");
  }
}

}  // namespace

ObsSpace ObsSpace::float32(std::vector<int> shape, float low, float high) {
  ObsSpace space{.type = ObsType::kFloat32, .shape = std::move(shape), .low = {}, .high = {}};
  space.low.assign(space.elements(), low);
  space.high.assign(space.elements(), high);
  return space;
}

ObsSpace ObsSpace::float32(std::vector<float> low, std::vector<float> high) {
  ObsSpace space;
  space.shape.assign(1, static_cast<int>(low.size()));
  space.low = std::move(low);
  space.high = std::move(high);
  return space;
}

ObsSpace ObsSpace::uint8(std::vector<int> shape) {
  ObsSpace space = float32(std::move(shape), 0, 255);
  space.type = ObsType::kUint8;
  return space;
}

size_t ObsSpace::elements() const {
  size_t count = 1;
  for (const int extent : shape) count *= static_cast<size_t>(extent);
  return count;
}

size_t ObsSpace::row_bytes() const {
  return elements() * (type == ObsType::kFloat32 ? sizeof(float) : 1);
}

ActionSpace ActionSpace::discrete(int choices) {
  ActionSpace space;
  space.choices.assign(1, choices);
  return space;
}

ActionSpace ActionSpace::multi_discrete(std::vector<int> choices) {
  ActionSpace space;
  space.kind = ActionKind::kMultiDiscrete;
  space.choices = std::move(choices);
  return space;
}

ActionSpace ActionSpace::box(std::vector<float> low, std::vector<float> high) {
  return {.kind = ActionKind::kBox, .choices = {}, .low = std::move(low), .high = std::move(high)};
}

size_t ActionSpace::mask_size() const {
  size_t size = 0;
  for (const int n : choices) size += static_cast<size_t>(n);
  return size;
}

std::string ActionSpace::describe() const {
  switch (kind) {
    case ActionKind::kDiscrete:
      return fmt::format("Discrete({})", choices.at(0));
    case ActionKind::kMultiDiscrete:
      return fmt::format("MultiDiscrete({})", fmt::join(choices, ", "));
    case ActionKind::kBox:
      break;
  }
  return fmt::format("Box([{}], [{}])", fmt::join(low, ", "), fmt::join(high, ", "));
}

void EnvSpec::validate() const {
  validate_obs(*this);
  validate_action(*this);
  require(time_limit >= 0, *this, "the time limit is negative");
  require(!has_mask || !action.is_box(), *this, "a box action cannot have a mask");
  require(!has_advice || !action.is_box(), *this, "a box action cannot have advice");
  require(reward_low <= reward_high, *this, "reward bounds are out of order");
  validate_metrics(*this);
}

std::string EnvSpec::sha256() const {
  Writer writer;
  const auto numbers = [&writer](const char* name, const auto& values) {
    writer.bytes(name, std::as_bytes(std::span(values)));
  };
  writer.text("name", name);
  writer.u64("obs type", static_cast<uint64_t>(obs.type));
  numbers("obs shape", obs.shape);
  numbers("obs low", obs.low);
  numbers("obs high", obs.high);
  writer.u64("action kind", static_cast<uint64_t>(action.kind));
  numbers("choices", action.choices);
  numbers("action low", action.low);
  numbers("action high", action.high);
  // A policy sees one mask, whether it is of legal or of advised choices, and there was one flag
  // for either when the first policies were saved: they still have the hash of their env.
  writer.u64("mask", masked() ? 1 : 0);
  if (has_mask && has_advice) writer.u64("mask and advice", 1);
  writer.u64("time limit", static_cast<uint64_t>(time_limit));
  for (const std::string& metric : metrics) writer.text("metric", metric);
  writer.f64("reward low", static_cast<double>(reward_low));
  writer.f64("reward high", static_cast<double>(reward_high));
  Sha256 hash;
  hash.update(writer.buffer().data(), writer.buffer().size());
  return hash.hex();
}

}  // namespace flotilla
