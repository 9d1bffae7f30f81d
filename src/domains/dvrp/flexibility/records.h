// What travellers answered: a ring of the latest offers, and what they say about types.
//
// Thread safety: none.
// Determinism: what is gathered does not depend on the order of the records.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/core/serial.h"
#include "flotilla/domains/dvrp/data/travellers.h"
#include "flotilla/domains/dvrp/flexibility/embedding.h"

namespace flotilla::dvrp {

struct OfferRecord {
  int32_t traveller = 0, trip = 0;
  uint16_t action = 0, accepted = 0;
  bool operator==(const OfferRecord&) const = default;
};

class OfferRecords {
 public:
  static constexpr size_t kCapacity = 64'000;

  explicit OfferRecords(size_t capacity = kCapacity);

  size_t size() const { return ring_.size(); }
  size_t capacity() const { return capacity_; }
  // The oldest makes room when it is full. REQUIRES: the trip is one of the traveller's.
  void add(const OfferRecord& record);
  // In no order that means anything.
  std::span<const OfferRecord> all() const { return ring_; }

  void save(Writer& writer) const;
  // Throws Error(kData) for a ring of another capacity, or a record of a trip, traveller or action
  // that there is not; then nothing has changed.
  void load(Reader& reader, const Travellers& travellers);

 private:
  size_t capacity_, next_ = 0;
  std::vector<OfferRecord> ring_;
};

// The types that would have given the recorded answer.
TypePattern types_that_fit(const OfferRecord& record, const Travellers& travellers);

// One Evidence per traveller and pattern that occurs, in this order; its weight is their number.
std::vector<Evidence> gather(std::span<const OfferRecord> records, const Travellers& travellers);

}  // namespace flotilla::dvrp
