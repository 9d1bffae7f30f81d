// What a negotiation saves, by a judge that had no part in it: days are negotiated with the oracle,
// then routed anew by a referee, the granted requests and those that were asked for alike. The own
// solver as referee shares its search with the oracle (docs/dvrp.md).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/negotiation/ceiling.h"
#include "flotilla/domains/dvrp/negotiation/days.h"
#include "flotilla/domains/dvrp/oracle/evaluation.h"

namespace flotilla::dvrp {

// A mean over days, and half of its 95 % interval. A day counts once: all its requests are in one
// number.
struct Estimate {
  double mean = 0, ci95 = 0;
};
// REQUIRES: two numbers or more.
Estimate estimate(const std::vector<double>& numbers);

struct Judged {
  double cost = 0;                                // minutes, mean
  std::vector<double> costs;                      // by day
  Estimate saving_pct;                            // against no negotiation, of the same days
  Estimate saved_minutes;                         // the same, of a day
  double acceptance = 0, acceptance_nonzero = 0;  // of all offers; of those of a shift, if any
  double offered_nonzero = 0;                     // part of the requests that were offered a shift
  // What it costs the travellers, in minutes, means over all of them: how far windows were moved,
  // how long rides are (routing/rides.h), and how much longer than the direct way.
  double shifted_minutes = 0, ride_minutes = 0, excess_minutes = 0;
  double moved = 0;           // part of the requests whose windows were moved
  double longest_excess = 0;  // of the one who is longest on board beyond his direct way
};

struct Judgement {
  Judged none;  // without negotiation
  Judged random, least_detour, trained;
  std::optional<Judged> ceiling;
  // The trained saving less that of the rule, of the same days.
  Estimate above_random_pct, above_least_detour_pct;
  double share() const { return trained.saving_pct.mean / ceiling->saving_pct.mean; }
};

struct JudgeOptions {
  uint64_t seed = 9999;  // of the random offers, and of the referee's search
  bool ceiling = true;
  bool trim = false;  // shifts are cut to what the referee's routes need (trim.h)
  CeilingOptions search;
};

// A policy with days whose envs know what it needs them to know.
struct Contender {
  Days* days;
  const ActingPolicy* policy;
};

// Of each of them, on the same days; what has nothing to do with a policy is judged once, by the
// days of the first. `say` is told what is being done. Throws Error(kCheckFailed) for routes of the
// referee that break a rule, and Error(kUsage) for days whose requests are not the same.
// REQUIRES: at least one; days of the same numbers, seed and rules.
std::vector<Judgement> judge(std::span<const Contender> contenders, const Referee& referee,
                             const JudgeOptions& options, ThreadPool& pool,
                             const std::function<void(const std::string&)>& say);

}  // namespace flotilla::dvrp
