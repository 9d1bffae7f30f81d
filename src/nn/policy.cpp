#include "flotilla/nn/policy.h"

#include <algorithm>

#include <fmt/format.h>

#include "flotilla/core/error.h"

namespace flotilla {

ActingPolicy::ActingPolicy(const NetworkSpec& spec)
    : spec_(spec), obs_normaliser_(static_cast<size_t>(spec.inputs)) {}

Action ActingPolicy::predict(std::span<const float> obs, const PredictOptions& options) const {
  if (spec_.obs_type == ObsType::kUint8) {
    throw Error(ErrorCode::kUsage, "obs: this policy reads bytes, not floats");
  }
  return predict_row(std::as_bytes(obs), options);
}

Action ActingPolicy::predict(std::span<const uint8_t> obs, const PredictOptions& options) const {
  if (spec_.obs_type == ObsType::kUint8) return predict_row(std::as_bytes(obs), options);
  const std::vector<float> floats(obs.begin(), obs.end());
  return predict_row(std::as_bytes(std::span(floats)), options);
}

Action ActingPolicy::predict_row(std::span<const std::byte> obs,
                                 const PredictOptions& options) const {
  const size_t bytes = spec_.obs_type == ObsType::kUint8 ? 1 : sizeof(float);
  if (obs.size() != static_cast<size_t>(spec_.inputs) * bytes) {
    throw Error(ErrorCode::kUsage,
                fmt::format("obs: expected {} numbers, got {}", spec_.inputs, obs.size() / bytes));
  }
  const std::string refusal =
      mask_refusal(spec_.action.choices, spec_.has_mask, options.action_masks);
  if (!refusal.empty()) throw Error(ErrorCode::kUsage, refusal);
  const auto choose = [&]<class Number>(std::vector<Number> action) {
    std::vector<Number> latent(action.size());
    act(0,
        {.count = 1,
         .obs = obs.data(),
         .mask = options.action_masks.empty() ? nullptr : options.action_masks.data(),
         .action = std::as_writable_bytes(std::span(action)).data(),
         .latent = std::as_writable_bytes(std::span(latent)).data()},
        {.seed = options.seed, .step = options.step, .greedy = options.deterministic});
    return Action(std::move(action));
  };
  const size_t dims = spec_.action.dims();
  if (spec_.action.is_box()) return choose(std::vector<float>(dims));
  return choose(std::vector<int32_t>(dims));
}

void require_host(Memory memory) {
  if (memory == Memory::kHost) return;
  throw Error(ErrorCode::kUsage, "this policy reads rows in the memory of the host alone");
}

size_t Policy::gradient_count(Nets /*nets*/) { return gradient_view().count; }

void Policy::read_gradient(std::span<float> to) {
  const GradientView view = gradient_view();
  require_host(view.memory);
  std::copy_n(view.data, to.size(), to.data());
}

void Policy::write_gradient(Nets /*nets*/, std::span<const float> from) {
  const GradientView view = gradient_view();
  require_host(view.memory);
  std::ranges::copy(from, view.data);
}

std::span<float> Policy::parameter_view() {
  throw Error(ErrorCode::kUsage, "this policy does not hand out its parameters on the host");
}

std::unique_ptr<Policy> Policy::copy() const {
  throw Error(ErrorCode::kUsage, "this policy cannot be copied");
}

void Policy::require_apart(Nets nets) const {
  if (nets == Nets::kBoth || !spec_.has_common_layers()) return;
  throw Error(ErrorCode::kUsage, "actor and critic share layers and cannot be trained apart");
}

void Policy::require_whole(std::span<const int32_t> chosen, const Objective& objective) {
  if (chosen.empty()) throw Error(ErrorCode::kUsage, "no rows to learn from");
  if (chosen.size() % static_cast<size_t>(objective.sequence()) == 0) return;
  throw Error(ErrorCode::kUsage, "the rows to learn from are not whole sequences");
}

}  // namespace flotilla
