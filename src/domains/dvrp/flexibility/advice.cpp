#include "flotilla/domains/dvrp/flexibility/advice.h"

#include <fmt/format.h>

#include <algorithm>

namespace flotilla::dvrp {
namespace {

constexpr double kLeastShare = 0.01;

}  // namespace

Flexibility likeliest(const TypeProbabilities& probabilities) {
  return static_cast<Flexibility>(std::ranges::max_element(probabilities) - probabilities.begin());
}

Flexibility drawn_type(const TypeProbabilities& probabilities, double luck) {
  double left = luck;
  for (size_t type = 0; type < kFlexibilities; ++type) {
    left -= probabilities[type];
    if (left < 0) return static_cast<Flexibility>(type);
  }
  return likeliest(probabilities);  // their sum was rounded down
}

Advisor::Advisor(const Travellers& travellers) {
  for (const Trip& trip : travellers.trips) {
    for (const std::bitset<kActions>& accepts : trip.accepts) {
      allowed_.push_back(accepts);
      allowed_.back().set(kNoShift);
    }
  }
}

TypeCounts histogram(std::span<const TypeProbabilities> guesses) {
  TypeCounts counts = {};
  for (const TypeProbabilities& each : guesses) ++counts[static_cast<size_t>(likeliest(each))];
  return counts;
}

double accuracy(std::span<const TypeProbabilities> guesses, const Travellers& travellers) {
  int known = 0, right = 0;
  for (size_t i = 0; i < travellers.trips_of.size(); ++i) {
    if (travellers.trips_of[i].empty()) continue;
    const auto trip = static_cast<size_t>(travellers.trips_of[i].front());
    ++known;
    right += likeliest(guesses[i]) == travellers.trips[trip].flexibility ? 1 : 0;
  }
  return known == 0 ? 0 : static_cast<double>(right) / known;
}

TypeShares shares_that_fit(std::span<const Evidence> evidence) {
  TypeShares shares = {};
  double weight = 0;
  for (const Evidence& each : evidence) weight += each.weight;
  for (const Evidence& each : evidence) {
    for (size_t type = 0; type < kFlexibilities; ++type) {
      if (each.fits[type]) shares[type] += each.weight / weight;
    }
  }
  return shares;
}

std::vector<std::string> warnings_of(const TypeShares& shares) {
  std::vector<std::string> lines;
  for (size_t type = 0; type < kFlexibilities; ++type) {
    if (shares[type] >= kLeastShare) continue;
    lines.push_back(fmt::format("'{}' fits {:.1f} % of the answers; nobody will be taken for it",
                                kFlexibilityTexts[type], 100 * shares[type]));
  }
  return lines;
}

}  // namespace flotilla::dvrp
