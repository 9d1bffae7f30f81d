#include "flotilla/domains/dvrp/negotiation/judgement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/routing/rides.h"

namespace flotilla::dvrp {
namespace {

using Costs = std::vector<double>;

double mean_of(const std::vector<double>& numbers) {
  double sum = 0;
  for (const double number : numbers) sum += number;
  return sum / static_cast<double>(numbers.size());
}

std::vector<double> savings(const Costs& baseline, const Costs& costs) {
  std::vector<double> percent;
  for (size_t i = 0; i < costs.size(); ++i) {
    percent.push_back(baseline[i] > 0 ? 100 * (baseline[i] - costs[i]) / baseline[i] : 0);
  }
  return percent;
}

std::vector<double> differences(const Costs& baseline, const Costs& costs) {
  std::vector<double> minutes;
  for (size_t i = 0; i < costs.size(); ++i) minutes.push_back(baseline[i] - costs[i]);
  return minutes;
}

// Days with the routes of the referee, of the requests as they were granted.
struct Routed {
  std::vector<Day> days;
  std::vector<Tour> tours;
};

std::vector<Day> without_negotiation(std::vector<Day> days) {
  for (Day& day : days) {
    day.granted = day.asked;
    day.accepted = static_cast<int>(day.asked.requests.size());
    day.shifts = day.shifted = 0;
  }
  return days;
}

double minutes_moved(const Request& asked, const Request& granted) {
  return static_cast<double>((asked.pickup.early - granted.pickup.early) +
                             (granted.dropoff.late - asked.dropoff.late));
}

Judged judged(const Routed& routed, const Costs& baseline) {
  double requests = 0, accepted = 0, shifts = 0, shifted = 0, minutes = 0, ride = 0, direct = 0;
  double moved = 0, longest_excess = 0;
  for (size_t i = 0; i < routed.days.size(); ++i) {
    const Day& day = routed.days[i];
    requests += static_cast<double>(day.asked.requests.size());
    accepted += day.accepted;
    shifts += day.shifts;
    shifted += day.shifted;
    for (size_t k = 0; k < day.asked.requests.size(); ++k) {
      minutes += minutes_moved(day.asked.requests[k], day.granted.requests[k]);
      moved += day.asked.requests[k] != day.granted.requests[k] ? 1 : 0;
    }
    const Rides rides = rides_of(day.granted, routed.tours[i].routes);
    ride += rides.on_board;
    direct += rides.direct;
    longest_excess = std::max(longest_excess, rides.longest_excess);
  }
  const Costs costs = costs_of(routed.tours);
  return {.cost = mean_of(costs),
          .costs = costs,
          .saving_pct = estimate(savings(baseline, costs)),
          .saved_minutes = estimate(differences(baseline, costs)),
          .acceptance = accepted / requests,
          .acceptance_nonzero = shifts > 0 ? shifted / shifts : 0,
          .offered_nonzero = shifts / requests,
          .shifted_minutes = minutes / requests,
          .ride_minutes = ride / requests,
          .excess_minutes = (ride - direct) / requests,
          .moved = moved / requests,
          .longest_excess = longest_excess};
}

// The days with the shifts that the search finds.
std::vector<Day> best_days(const std::vector<Day>& days, const Travellers& travellers,
                           const CeilingOptions& options, ThreadPool& pool) {
  std::vector<Day> best(days.size());
  pool.for_each(static_cast<int>(days.size()), [&](int, int item) {
    if (interrupted()) return;
    const auto i = static_cast<size_t>(item);
    const Ceiling ceiling = find_ceiling(days[i].asked, travellers, options);
    const auto requests = static_cast<int>(ceiling.actions.size());
    best[i] = {.asked = days[i].asked, .granted = ceiling.granted, .accepted = requests};
    for (const uint8_t action : ceiling.actions) best[i].shifts += action != kNoShift;
    best[i].shifted = best[i].shifts;
  });
  stop_if_interrupted();
  return best;
}

// The search has a budget: where a negotiator did better, that is the best that is known of a day.
void take_better(Routed& best, const Routed& other) {
  for (size_t i = 0; i < best.days.size(); ++i) {
    if (!(other.tours[i].cost < best.tours[i].cost)) continue;
    best.days[i] = other.days[i];
    best.tours[i] = other.tours[i];
  }
}

// How much more the one saves than the other, of the same days.
Estimate above(const Routed& one, const Routed& other, const Costs& baseline) {
  std::vector<double> difference = savings(baseline, costs_of(one.tours));
  const std::vector<double> less = savings(baseline, costs_of(other.tours));
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= less[i];
  return estimate(difference);
}

// Costs of days that ask for other requests say nothing about each other.
void require_same_requests(const std::vector<Day>& first, const std::vector<Day>& other) {
  const auto differ = std::ranges::mismatch(first, other, [](const Day& one, const Day& two) {
    return one.asked.requests == two.asked.requests;
  });
  if (differ.in1 == first.end() && differ.in2 == other.end()) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("day {} has other requests for one policy than for another",
                          differ.in1 - first.begin()));
}

Routed routed_by(const Referee& referee, uint64_t seed, std::vector<Day> days) {
  std::vector<Instance> instances;
  for (const Day& day : days) instances.push_back(day.granted);
  std::vector<Tour> tours = referee(instances, seed);
  for (size_t i = 0; i < tours.size(); ++i) {
    if (!std::isfinite(tours[i].cost)) continue;
    const std::string fault = fault_of(instances[i], tours[i].routes);
    if (fault.empty()) continue;
    throw Error(ErrorCode::kCheckFailed,
                fmt::format("the referee's routes of day {} break a rule: {}", i, fault));
  }
  return {.days = std::move(days), .tours = std::move(tours)};
}

void trim_all(Routed& routed, const Days& played, ThreadPool& pool) {
  pool.for_each(static_cast<int>(routed.days.size()), [&](int, int item) {
    const auto i = static_cast<size_t>(item);
    if (std::isfinite(routed.tours[i].cost)) played.trim(routed.days[i], routed.tours[i].routes);
  });
}

}  // namespace

Estimate estimate(const std::vector<double>& numbers) {
  const double mean = mean_of(numbers), n = static_cast<double>(numbers.size());
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {.mean = mean, .ci95 = 1.96 * std::sqrt(squares / (n - 1) / n)};
}

std::vector<Judgement> judge(std::span<const Contender> contenders, const Referee& referee,
                             const JudgeOptions& options, ThreadPool& pool,
                             const std::function<void(const std::string&)>& say) {
  Days& days = *contenders.front().days;
  const auto routed = [&](std::vector<Day> some, const char* what) {
    say(fmt::format("routing {} days {}", some.size(), what));
    Routed all = routed_by(referee, options.seed, std::move(some));
    if (options.trim) trim_all(all, days, pool);
    return all;
  };
  const auto played = [&](Days& some, const Player& negotiator, const char* who) {
    say(fmt::format("negotiating {} days: {}", some.count(), who));
    return some.play(negotiator);
  };
  const auto by_random = played(days, random_negotiator(options.seed), "random allowed offers");
  std::vector<std::vector<Day>> by_policies;
  for (const Contender& each : contenders) {
    by_policies.push_back(played(*each.days, policy_negotiator(*each.policy), "the policy"));
    require_same_requests(by_random, by_policies.back());
  }
  const auto shown = days.with_detours();
  const auto by_rule =
      played(*shown, least_detour_negotiator(shown->observed_numbers()), "the least detour");
  const Routed none = routed(without_negotiation(by_random), "without negotiation");
  const Routed random = routed(by_random, "after random allowed offers");
  const Routed rule = routed(by_rule, "after offers of the least detour");
  const Costs baseline = costs_of(none.tours);
  std::vector<Routed> trained;
  std::vector<Judgement> judgements;
  for (std::vector<Day>& by_policy : by_policies) {
    trained.push_back(routed(std::move(by_policy), "after the policy's offers"));
    judgements.push_back({.none = judged(none, baseline),
                          .random = judged(random, baseline),
                          .least_detour = judged(rule, baseline),
                          .trained = judged(trained.back(), baseline),
                          .ceiling = std::nullopt,
                          .above_random_pct = above(trained.back(), random, baseline),
                          .above_least_detour_pct = above(trained.back(), rule, baseline)});
  }
  if (!options.ceiling) return judgements;
  say(fmt::format("searching the best shifts of {} days, each known as a whole", days.count()));
  CeilingOptions search = options.search;
  search.granting = days.granting();
  Routed best = routed(best_days(by_random, days.data().travellers, search, pool),
                       "with the shifts that were found");
  take_better(best, random);
  for (const Routed& each : trained) take_better(best, each);
  for (Judgement& each : judgements) each.ceiling = judged(best, baseline);
  return judgements;
}

}  // namespace flotilla::dvrp
