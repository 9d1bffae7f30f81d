// Files that several tests read.
#pragma once

#include <filesystem>

#include "flotilla/nn/policy_file.h"
#include "support/source_dir.h"

namespace flotilla::cage2 {

inline std::filesystem::path golden_folder() {
  return std::filesystem::path(test::source_dir()) / "tests/golden/cage2";
}

inline PolicyFile shipped_defender() {
  const std::filesystem::path root = test::source_dir();
  return read_policy_file(root / "assets/cage2/model.safetensors");
}

}  // namespace flotilla::cage2
