// Whole days of negotiation outside of training: the same days for whoever negotiates them, so that
// their costs can be compared day by day.
#pragma once

#include <memory>
#include <vector>

#include "flotilla/domains/dvrp/negotiation/negotiation.h"
#include "flotilla/train/evaluator.h"

namespace flotilla::dvrp {

struct Day {
  Instance asked, granted;
  int accepted = 0;  // offers, those to shift nothing included
  int shifts = 0;    // offers of a shift
  int shifted = 0;   // of them accepted
};

// One of the offers that are advised, all with the same probability.
Player random_negotiator(uint64_t seed);
// The likeliest action of a policy, which must outlive it.
Player policy_negotiator(const ActingPolicy& policy);
// Of the offers that are advised, the one under which the request adds least to the present routes;
// the smallest of several, and none where none gains. REQUIRES: envs that show detours, with so
// many numbers in an observation.
Player least_detour_negotiator(size_t numbers);

class Days {
 public:
  // Days of `seed`, by their numbers; no run with that seed trains on them. `config`: of the
  // negotiation, which `type` is.
  Days(const EnvType& type, const Config& config, Span numbers, uint64_t seed, int threads);
  Days(const Days&) = delete;  // its envs report to it
  Days& operator=(const Days&) = delete;

  int count() const { return numbers_.size(); }
  const Data& data() const { return env_.data(); }
  Granting granting() const { return env_.granting(); }
  // For what the envs are to know from their training; null where they know nothing.
  EnvMemory* memory() const { return evaluator_.memory(); }

  // The same days, in envs that know the same and show detours. For least_detour_negotiator().
  std::unique_ptr<Days> with_detours() const;
  size_t observed_numbers() const { return env_.spec().obs.elements(); }

  // REQUIRES: this outlives the days. Throws Error(kInterrupted), and Error(kEnvironment) for a day
  // without routes.
  std::vector<Day> play(const Player& negotiator);
  // Cuts the shifts of a day to what these routes of it need (trim.h).
  void trim(Day& day, const Routes& routes) const;

 private:
  void keep(size_t index, const Negotiation::State& s);
  void require_routes() const;

  const EnvType type_;
  const Config config_;
  const Span numbers_;
  const uint64_t seed_;
  const int threads_;
  const Negotiation env_;  // reads the states
  Evaluator evaluator_;
  std::vector<Day> played_;
  std::vector<uint8_t> failed_;  // of each day: no routes were found
};

}  // namespace flotilla::dvrp
