#include "flotilla/domains/dvrp/negotiation/judgement.h"

#include <fmt/format.h>

#include <cmath>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"

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

std::vector<Instance> all(const std::vector<Day>& days, Instance Day::*which) {
  std::vector<Instance> instances;
  for (const Day& day : days) instances.push_back(day.*which);
  return instances;
}

Judged judged(const std::vector<Day>& days, const Costs& baseline, const Costs& costs) {
  double offers = 0, accepted = 0, shifts = 0, shifted = 0;
  for (const Day& day : days) {
    offers += static_cast<double>(day.asked.requests.size());
    accepted += day.accepted;
    shifts += day.shifts;
    shifted += day.shifted;
  }
  return {.cost = mean_of(costs),
          .saving_pct = estimate(savings(baseline, costs)),
          .acceptance = accepted / offers,
          .acceptance_nonzero = shifts > 0 ? shifted / shifts : 0,
          .offered_nonzero = shifts / offers};
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
  if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
  return best;
}

// The search has a budget: where a negotiator did better, that is the best that is known of a day.
void take_better(std::vector<Day>& best, Costs& best_costs, const std::vector<Day>& days,
                 const Costs& costs) {
  for (size_t i = 0; i < days.size(); ++i) {
    if (!(costs[i] < best_costs[i])) continue;
    best[i] = days[i];
    best_costs[i] = costs[i];
  }
}

}  // namespace

Estimate estimate(const std::vector<double>& numbers) {
  const double mean = mean_of(numbers), n = static_cast<double>(numbers.size());
  double squares = 0;
  for (const double number : numbers) squares += (number - mean) * (number - mean);
  return {.mean = mean, .ci95 = 1.96 * std::sqrt(squares / (n - 1) / n)};
}

Judgement judge(Days& days, const ActingPolicy& policy, const Referee& referee,
                const JudgeOptions& options, ThreadPool& pool,
                const std::function<void(const std::string&)>& say) {
  const auto routed = [&](const std::vector<Day>& some, Instance Day::*which, const char* what) {
    say(fmt::format("routing {} days {}", some.size(), what));
    return referee(all(some, which), options.seed);
  };
  const auto played = [&](const Player& negotiator, const char* who) {
    say(fmt::format("negotiating {} days: {}", days.count(), who));
    return days.play(negotiator);
  };
  const std::vector<Day> random = played(random_negotiator(options.seed), "random allowed offers");
  const std::vector<Day> trained = played(policy_negotiator(policy), "the policy");
  const Costs baseline = routed(random, &Day::asked, "without negotiation");
  const Costs random_costs = routed(random, &Day::granted, "after random allowed offers");
  const Costs trained_costs = routed(trained, &Day::granted, "after the policy's offers");
  Judgement judgement{.baseline = mean_of(baseline),
                      .random = judged(random, baseline, random_costs),
                      .trained = judged(trained, baseline, trained_costs),
                      .ceiling = std::nullopt,
                      .above_random_pct = {}};
  std::vector<double> above = savings(baseline, trained_costs);
  const std::vector<double> of_random = savings(baseline, random_costs);
  for (size_t i = 0; i < above.size(); ++i) above[i] -= of_random[i];
  judgement.above_random_pct = estimate(above);
  if (!options.ceiling) return judgement;
  say(fmt::format("searching the best shifts of {} days, each known as a whole", days.count()));
  std::vector<Day> best = best_days(random, days.data().travellers, options.search, pool);
  Costs best_costs = routed(best, &Day::granted, "with the shifts that were found");
  take_better(best, best_costs, random, random_costs);
  take_better(best, best_costs, trained, trained_costs);
  judgement.ceiling = judged(best, baseline, best_costs);
  return judgement;
}

}  // namespace flotilla::dvrp
