// Whole days of negotiation outside of training: the same days for whoever negotiates them, so that
// their costs can be compared day by day.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "flotilla/domains/dvrp/negotiation.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla::dvrp {

struct Day {
  Instance asked, granted;
  int accepted = 0;  // offers, those to shift nothing included
  int shifts = 0;    // offers of a shift
  int shifted = 0;   // of them accepted
};

// Makes an offer to each of some days: reads a row of observations and a mask for each, writes an
// action. `first`: the number of the first of these days.
struct Offers {
  int first = 0, step = 0;
  std::span<const float> obs;
  std::span<const uint8_t> masks;
  std::span<int32_t> actions;
};
using Negotiator = std::function<void(const Offers& offers)>;

// One of the offers that are advised, all with the same probability.
Negotiator random_negotiator(uint64_t seed);
// The likeliest action of a policy, which must outlive it.
Negotiator policy_negotiator(const Policy& policy);

// Days of `seed`, by their numbers; no run with that seed trains on them. REQUIRES: `env` outlives
// them. Throws Error(kInterrupted), and Error(kEnvironment) for a day without routes.
std::vector<Day> play_days(const Negotiation& env, const Negotiator& negotiator, Span numbers,
                           uint64_t seed, ThreadPool& pool);

}  // namespace flotilla::dvrp
