// What the envs of a batch learn together, apart from any policy: a guess about their world that
// all of them read while they step, and that is improved between rollouts.
//
// Thread safety: envs read it side by side while they step; everything else has it alone.
// Determinism: it depends on what the envs did, in the order of steps and envs, never on time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/serial.h"

namespace flotilla {

class EnvMemory {
 public:
  virtual ~EnvMemory() = default;

  // After rollout `rollout`, counted from 1, before its update: what learn() will do may begin, in
  // a thread of its own. Nothing else is asked for until learn() is called.
  virtual void prepare(int64_t /*rollout*/) {}
  // After rollout `rollout` and its update. True: what the envs show of themselves may be another
  // from now on. What prepare() began has ended.
  virtual bool learn(int64_t rollout) = 0;

  // Where several processes share the envs, each learns what one would from all of them: from
  // share() on it keeps what it noted, until all are given the notes of all, in the order of envs,
  // before prepare() and learn(). Throws Error(kUsage) where that is not possible.
  virtual void share() {
    throw Error(ErrorCode::kUsage, "what these envs learn together cannot be shared by processes");
  }
  virtual std::vector<std::byte> take_notes() { return {}; }
  virtual void add_notes(std::span<const std::vector<std::byte>> /*of_all*/) {}

  // Numbers for the metrics of a run; the names never change.
  virtual std::vector<std::pair<std::string, double>> facts() const = 0;

  // All of it. load() throws Error(kData), and changes nothing, for what is damaged.
  virtual void save(Writer& writer) const = 0;
  virtual void load(Reader& reader) = 0;

  // What acting needs of it, for policy files and evaluations. Who is given it keeps to it: he
  // learns nothing from then on. Throws Error(kData) for knowledge of something else.
  virtual std::vector<std::byte> knowledge() const = 0;
  virtual void set_knowledge(std::span<const std::byte> knowledge) = 0;
};

}  // namespace flotilla
