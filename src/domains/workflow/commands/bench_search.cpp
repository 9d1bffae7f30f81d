// flotilla bench search: how many evaluations a search takes to find the rewarded order of a grid
// world, by its method. Orders are valued in closed form: what is measured is the choice alone.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "flotilla/core/activity.h"
#include "flotilla/core/json.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/workflow/commands/commands.h"
#include "flotilla/domains/workflow/search.h"
#include "flotilla/report/statistics.h"

namespace flotilla::workflow {
namespace {

using Method = SearchOptions::Method;

// A method that locks onto another order never finds it: it is stopped here.
constexpr int kRounds = 10;

int evaluations_to_best(const Orders& orders, const std::vector<double>& values,
                        const SearchOptions& options) {
  const auto best = static_cast<int>(std::ranges::max_element(values) - values.begin());
  const int limit = kRounds * orders.size();
  std::vector<Trial> trials;
  for (int i = 0; i < limit; ++i) {
    const int order = rank(orders, trials, options, i).front().order;
    if (order == best) return i + 1;
    trials.push_back({.order = order, .value = values[static_cast<size_t>(order)]});
  }
  return limit;
}

struct Race {
  std::string env;
  std::vector<double> ucb, legacy, random;
};

// The values with other numbers for the targets, so that no method profits from where the rewarded
// order stands in the list.
std::vector<double> renumbered(const Orders& orders, const std::vector<double>& values, int seed) {
  Rng rng(static_cast<uint64_t>(seed), stream_of(Purpose::kTest, 0));
  const Order& number = orders[static_cast<int>(rng.below(static_cast<uint32_t>(orders.size())))];
  std::vector<double> result(values.size());
  for (int i = 0; i < orders.size(); ++i) {
    Order order = orders[i];
    for (int& type : order) type = number[static_cast<size_t>(type)];
    result[static_cast<size_t>(orders.index_of(order))] = values[static_cast<size_t>(i)];
  }
  return result;
}

Race race_on(const Domain& domain, int seeds, double beta) {
  const Orders orders(static_cast<int>(domain.types.size()));
  const std::vector<double> values = domain.closed_form();
  const auto measure = [&](Method method) {
    std::vector<double> counts;
    for (int seed = 0; seed < seeds; ++seed) {
      SearchOptions options;
      options.method = method;
      options.acquisition.beta = beta;
      options.seed = options.acquisition.seed = static_cast<uint64_t>(seed);
      counts.push_back(evaluations_to_best(orders, renumbered(orders, values, seed), options));
    }
    return counts;
  };
  return {.env = domain.env,
          .ucb = measure(Method::kUcb),
          .legacy = measure(Method::kLegacy),
          .random = measure(Method::kRandom)};
}

void bench_search(const std::vector<Domain>& domains, int seeds, double beta, bool json) {
  Json lines = Json::array();
  if (!json) {
    display(fmt::format(
        "evaluations to the rewarded order of 24, median over {}\n{:<10}{:>8}{:>8}{:>8}  p\n",
        counted(seeds, "seed"), "", "ucb", "random", "legacy"));
  }
  const Activity searching("searching");
  for (const Domain& domain : domains) {
    const Race race = race_on(domain, seeds, beta);
    const double p = mann_whitney(race.ucb, race.random);
    if (!json) {
      display(fmt::format("{:<10}{:>8}{:>8}{:>8}  {:.2g}\n", race.env, median(race.ucb),
                          median(race.random), median(race.legacy), p));
    }
    lines.push_back({{"env", race.env},
                     {"seeds", seeds},
                     {"ucb", median(race.ucb)},
                     {"random", median(race.random)},
                     {"legacy", median(race.legacy)},
                     {"p_value", p}});
  }
  if (json) {
    display_data(lines.dump() + "\n");
  } else {
    display("p: that ucb is no faster than random (Mann and Whitney)\n");
  }
}

}  // namespace

void add_bench_search_command(Command& bench, const std::vector<Domain>& domains) {
  Command& command =
      bench.add("search", "evaluations that a workflow search takes, on values in closed form");
  struct State {
    int seeds = 20;
    double beta = AcquisitionOptions().beta;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  command.option("--seeds", state->seeds, "how many (default 20)").range(2, 100'000);
  command.option("--beta", state->beta, "weight of the uncertainty (default 2)").range(0.0, 1e6);
  command.flag("--json", state->json, "print one JSON array on stdout");
  command.action(
      [state, &domains] { bench_search(domains, state->seeds, state->beta, state->json); });
}

}  // namespace flotilla::workflow
