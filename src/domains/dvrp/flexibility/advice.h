// From guessed types to advice: which of the 16 offers a traveller is likely to accept; and how
// good the guesses are.
//
// Advice is no rule: an offer outside of it may be made. To shift nothing is always advised.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "flotilla/core/rng.h"
#include "flotilla/domains/dvrp/flexibility/embedding.h"
#include "flotilla/domains/dvrp/travellers.h"

namespace flotilla::dvrp {

// The first of equals.
Flexibility likeliest(const TypeProbabilities& probabilities);
Flexibility draw_type(const TypeProbabilities& probabilities, Rng& rng);

// Thread safety: const functions may run side by side.
// Allocates: only when it is made.
class Advisor {
 public:
  explicit Advisor(const Travellers& travellers);

  std::bitset<kActions> allowed(int trip, Flexibility type) const {
    return allowed_[static_cast<size_t>(trip) * kFlexibilities + static_cast<size_t>(type)];
  }

  // A row of kActions bytes, 0 or 1, for the trip of each env, by what its traveller most likely
  // is. `guesses`: by traveller. REQUIRES: masks.size() == kActions * trips.size().
  void advise(std::span<const int32_t> trips, std::span<const TypeProbabilities> guesses,
              std::span<uint8_t> masks) const;
  // The same with a type drawn for each env, from its own generator: what an env gets does not
  // depend on the others. REQUIRES: besides, rngs.size() == trips.size().
  void advise(std::span<const int32_t> trips, std::span<const TypeProbabilities> guesses,
              std::span<Rng> rngs, std::span<uint8_t> masks) const;

 private:
  std::vector<std::bitset<kActions>> allowed_;  // by trip and type
  std::vector<int32_t> traveller_;              // by trip
};

using TypeCounts = std::array<int, kFlexibilities>;
// Of the likeliest types.
TypeCounts histogram(std::span<const TypeProbabilities> guesses);
// Part of the travellers with trips whose likeliest type is their own. 0: nobody has trips.
double accuracy(std::span<const TypeProbabilities> guesses, const Travellers& travellers);

// Part of the answers that fit each type.
using TypeShares = std::array<double, kFlexibilities>;
TypeShares shares_that_fit(std::span<const Evidence> evidence);
// A line for each type that fits less than a hundredth: nobody can be guessed to be of it.
std::vector<std::string> warnings_of(const TypeShares& shares);

}  // namespace flotilla::dvrp
