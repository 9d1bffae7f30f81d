// Processes that work on one run together, and what they tell each other. This is the face alone:
// `alone()` is one process by itself, others come from a library (nn/c10d.h).
//
// All processes make the same calls in the same order: each call waits for all of them. One that
// is lost ends the others by Error(kEnvironment) that names it, one that failed by its own error.
//
// Thread safety: one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla {

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;  // of this process, from 0
  virtual int size() const = 0;  // how many there are

  // The bytes of all, in the order of ranks. REQUIRES: as many everywhere, and room for all.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // The sum of the numbers of all, the same everywhere, but in an order that the library chooses.
  virtual void all_reduce(std::span<float> numbers) = 0;
  // The bytes of rank 0. REQUIRES: as many everywhere.
  virtual void broadcast(std::span<std::byte> bytes) = 0;

  // Nothing follows: from now on nobody minds when another process is gone.
  virtual void end() {}
  // This process ends by an error, which then ends the others too. Nothing follows.
  virtual void fail(const Error& /*error*/) {}
};

// One process. Nothing it does waits.
Collective& alone();

// The bytes of every rank, which need not be as many.
std::vector<std::vector<std::byte>> gather_bytes(Collective& collective,
                                                 std::span<const std::byte> mine);
// Those of rank 0, whatever the others give.
std::vector<std::byte> broadcast_bytes(Collective& collective, std::span<const std::byte> bytes);
std::string broadcast_text(Collective& collective, const std::string& text);

}  // namespace flotilla
