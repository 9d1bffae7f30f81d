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
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/core/error.h"

namespace flotilla {

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;         // of this process, from 0
  virtual int size() const = 0;         // how many there are
  virtual std::string way() const = 0;  // by which they exchange, for people: "Gloo"

  // The bytes of all, in the order of ranks. REQUIRES: as many everywhere, and room for all.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;
  // The sum of the numbers of all, the same everywhere, but in an order that the library chooses.
  virtual void all_reduce(std::span<float> numbers) = 0;
  // The bytes of rank `from`. REQUIRES: as many everywhere.
  virtual void broadcast(std::span<std::byte> bytes, int from) = 0;

  // Nothing follows: from now on nobody minds when another process is gone.
  virtual void end() {}
  // This process ends by an error, which then ends the others too. Nothing follows.
  virtual void fail(const Error& /*error*/) {}
};

// Where others come, one by one and at any time, each to be a pair with this process: a lost one
// costs no other.
//
// Thread safety: arrived() by one caller, meet() by several at once.
class Listener {
 public:
  virtual ~Listener() = default;
  // How many have come since it began. They are numbered from 1.
  virtual int arrived() = 0;
  // The two, this process as rank 0. Throws Error(kEnvironment) where the other one does not come
  // within the deadline.
  virtual std::unique_ptr<Collective> meet(int number) = 0;
};

// One process. Nothing it does waits.
Collective& alone();

// The bytes of every rank, which need not be as many.
std::vector<std::vector<std::byte>> gather_bytes(Collective& collective,
                                                 std::span<const std::byte> mine);
// Those of rank `from`, whatever the others give. Throws Error(kData) for more than `most`, before
// there is room made for them.
std::vector<std::byte> broadcast_bytes(Collective& collective, std::span<const std::byte> bytes,
                                       int from = 0, uint64_t most = UINT64_MAX);
std::string broadcast_text(Collective& collective, const std::string& text);

}  // namespace flotilla
