// state.json of a checkpoint: the facts of a run that are not tensors, under a checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace flotilla {

// The best evaluation during training so far.
struct BestEvaluation {
  int64_t step = 0;
  double mean = 0;
  int since = 0;  // evaluations after it

  bool operator==(const BestEvaluation&) const = default;
};

// Which phase of a curriculum it is, and at which step of the run it began.
struct PhaseStart {
  int index = 0;
  int64_t step = 0;

  bool operator==(const PhaseStart&) const = default;
};

struct CheckpointState {
  static constexpr int kFormat = 2;

  int64_t step = 0;
  std::string env, spec_sha256;
  std::string config;          // YAML, all keys
  std::string implementation;  // Trainer::implementation(); "kernel" in the file
  std::string version;
  std::string run_id;  // the same in all checkpoints of a run; "" in those of older programs
  std::optional<BestEvaluation> best;
  PhaseStart phase;
  std::map<std::string, std::string> files;  // SHA-256 of the files beside it, by name
  std::vector<std::byte> run;                // of Trainer::save()

  bool operator==(const CheckpointState&) const = default;
};

std::string encode_state(const CheckpointState& state);

// Throws Error(kData) that names the file and what is wrong: not JSON, of another format, a field
// that is missing or of another type, contents that do not match the checksum.
CheckpointState decode_state(const std::string& text, const std::string& path);

// The checksum that belongs to the text of a state, for the field "sha256".
std::string state_checksum(const std::string& text);

}  // namespace flotilla
