#include "flotilla/domains/dvrp/flexibility/records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "flotilla/core/error.h"

namespace flotilla::dvrp {
namespace {

// Records are saved as their bytes.
static_assert(std::has_unique_object_representations_v<OfferRecord>);

constexpr size_t kPatterns = size_t{1} << size_t{kFlexibilities};

bool exists(const OfferRecord& record, const Travellers& travellers) {
  const auto trips = static_cast<int64_t>(travellers.trips.size());
  return record.trip >= 0 && record.trip < trips && record.action < kActions &&
         record.accepted <= 1 &&
         travellers.trips[static_cast<size_t>(record.trip)].traveller == record.traveller;
}

}  // namespace

OfferRecords::OfferRecords(size_t capacity) : capacity_(capacity) { ring_.reserve(capacity); }

void OfferRecords::add(const OfferRecord& record) {
  if (ring_.size() < capacity_) {
    ring_.push_back(record);
    return;
  }
  ring_[next_] = record;
  next_ = (next_ + 1) % capacity_;
}

// From the oldest on, so that equal contents are equal bytes.
void OfferRecords::save(Writer& writer) const {
  std::vector<OfferRecord> ordered = ring_;
  std::rotate(ordered.begin(), ordered.begin() + static_cast<std::ptrdiff_t>(next_), ordered.end());
  writer.u64("offers.capacity", capacity_);
  writer.bytes("offers.records", std::as_bytes(std::span(ordered)));
}

void OfferRecords::load(Reader& reader, const Travellers& travellers) {
  const uint64_t capacity = reader.u64("offers.capacity");
  if (capacity != capacity_) {
    throw Error(ErrorCode::kData,
                fmt::format("records of {} offers, expected {}", capacity, capacity_));
  }
  const auto bytes = reader.bytes("offers.records");
  if (bytes.size() % sizeof(OfferRecord) != 0 || bytes.size() / sizeof(OfferRecord) > capacity_) {
    throw Error(ErrorCode::kData, fmt::format("{} bytes are no records of offers", bytes.size()));
  }
  std::vector<OfferRecord> loaded(bytes.size() / sizeof(OfferRecord));
  if (!loaded.empty()) std::memcpy(loaded.data(), bytes.data(), bytes.size());
  for (const OfferRecord& record : loaded) {
    if (exists(record, travellers)) continue;
    throw Error(ErrorCode::kData,
                fmt::format("an offer that these travellers cannot have had: traveller {}, trip "
                            "{}, action {}, accepted {}",
                            record.traveller, record.trip, record.action, record.accepted));
  }
  ring_.assign(loaded.begin(), loaded.end());
  next_ = 0;
}

TypePattern types_that_fit(const OfferRecord& record, const Travellers& travellers) {
  const Trip& trip = travellers.trips[static_cast<size_t>(record.trip)];
  TypePattern fits;
  for (size_t type = 0; type < kFlexibilities; ++type) {
    fits[type] = trip.accepts[type][record.action] == (record.accepted != 0);
  }
  return fits;
}

std::vector<Evidence> gather(std::span<const OfferRecord> records, const Travellers& travellers) {
  std::vector<int64_t> counts(static_cast<size_t>(travellers.count) * kPatterns);
  for (const OfferRecord& record : records) {
    const size_t pattern = types_that_fit(record, travellers).to_ulong();
    ++counts[static_cast<size_t>(record.traveller) * kPatterns + pattern];
  }
  std::vector<Evidence> evidence;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    evidence.push_back({.traveller = static_cast<int>(i / kPatterns),
                        .fits = TypePattern(i % kPatterns),
                        .weight = static_cast<double>(counts[i])});
  }
  return evidence;
}

}  // namespace flotilla::dvrp
