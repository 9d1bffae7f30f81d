#include "flotilla/env/env_loop.h"

#include <fmt/format.h>

#include "flotilla/core/error.h"

namespace flotilla {

void EnvLoop::require_offered(const char* member, bool has, const char* field, bool says) const {
  if (has == says) return;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("environment '{}': {}", spec_.name,
                  has ? fmt::format("has {}(), but its spec leaves {} unset", member, field)
                      : fmt::format("sets {} in its spec, but has no {}()", field, member)));
}

void FailureNote::set(Phase where, const SlotHeader& slot, const char* text) {
  ++count;
  length = slot.length;
  episode = slot.episode;
  episode_start = slot.episode_start;
  phase = where;
  std::strncpy(what, text, sizeof(what) - 1);
}

}  // namespace flotilla
