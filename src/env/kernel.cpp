#include "env/kernel.h"

namespace flotilla {

void FailureNote::set(Phase where, const SlotHeader& slot, const char* text) {
  ++count;
  length = slot.length;
  episode = slot.episode;
  episode_start = slot.episode_start;
  phase = where;
  std::strncpy(what, text, sizeof(what) - 1);
}

}  // namespace flotilla
