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

#include "flotilla/domains/dvrp/data/travellers.h"
#include "flotilla/domains/dvrp/flexibility/embedding.h"

namespace flotilla::dvrp {

// The first of equals.
Flexibility likeliest(const TypeProbabilities& probabilities);
// By `luck`, from 0 to 1.
Flexibility drawn_type(const TypeProbabilities& probabilities, double luck);

// Thread safety: const functions may run side by side.
// Allocates: only when it is made.
class Advisor {
 public:
  explicit Advisor(const Travellers& travellers);

  std::bitset<kActions> allowed(int trip, Flexibility type) const {
    return allowed_[static_cast<size_t>(trip) * kFlexibilities + static_cast<size_t>(type)];
  }

 private:
  std::vector<std::bitset<kActions>> allowed_;  // by trip and type
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
