// Compares this implementation with recordings of the Procgen library: levels, whole episodes,
// traces of every number, and pictures. docs/coinrun.md describes the files.
#pragma once

#include <cstdint>
#include <string>

namespace flotilla::coinrun {

struct Verification {
  int64_t levels = 0, episodes = 0, traced_steps = 0, frames = 0;
  int64_t facts = 0;           // numbers, texts and pictures that were compared
  int64_t mismatches = 0;      // those that differ
  std::string first_mismatch;  // "episodes_easy.jsonl.gz, line 3, length: expected 40, got 41"
};

// All recordings of a folder: levels*, episodes*, traces* and frames*, plain or gzipped. Throws
// Error(kData) for a file that is none, and where there is no file.
Verification verify(const std::string& folder);

}  // namespace flotilla::coinrun
