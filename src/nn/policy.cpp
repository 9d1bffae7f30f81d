#include "flotilla/nn/policy.h"

#include "flotilla/core/error.h"

namespace flotilla {

ActingPolicy::ActingPolicy(const NetworkSpec& spec)
    : spec_(spec), obs_normaliser_(static_cast<size_t>(spec.inputs)) {}

void require_host(Memory memory) {
  if (memory == Memory::kHost) return;
  throw Error(ErrorCode::kUsage, "this policy reads rows in the memory of the host alone");
}

void Policy::require_apart(Nets nets) const {
  if (nets == Nets::kBoth || !spec_.shared) return;
  throw Error(ErrorCode::kUsage, "actor and critic share layers and cannot be trained apart");
}

void Policy::require_whole(std::span<const int32_t> chosen, const Objective& objective) {
  if (chosen.empty()) throw Error(ErrorCode::kUsage, "no rows to learn from");
  if (chosen.size() % static_cast<size_t>(objective.sequence()) == 0) return;
  throw Error(ErrorCode::kUsage, "the rows to learn from are not whole sequences");
}

}  // namespace flotilla
