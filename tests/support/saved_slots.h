// What a saved batch of environments looks like inside, for tests that damage it.
#pragma once

#include <cstddef>
#include <vector>

#include "flotilla/core/serial.h"

namespace flotilla::test {

// Where the slots lie in a saved buffer.
inline std::vector<size_t> slot_offsets(const std::vector<std::byte>& saved, int envs) {
  Reader reader(saved, "saved");
  reader.text("env");
  reader.text("spec_sha256");
  for (const char* tag : {"num_envs", "slot_bytes", "seed"}) reader.u64(tag);
  std::vector<size_t> offsets;
  for (int i = 0; i < envs; ++i) {
    offsets.push_back(static_cast<size_t>(reader.bytes("slot").data() - saved.data()));
  }
  return offsets;
}

}  // namespace flotilla::test
