#include "flotilla/domains/dvrp/negotiation/ceiling.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "flotilla/domains/dvrp/negotiation/trim.h"

namespace flotilla::dvrp {
namespace {

// Every request in all versions that its traveller accepts, as requests of one large instance.
struct Offers {
  Instance instance;
  Versions versions;             // by request that was asked
  std::vector<int> customer;     // by request of `instance`: the one that was asked
  std::vector<uint8_t> actions;  // by request of `instance`
};

void add_version(Offers& offers, int customer, const Request& asked, int action,
                 Granting granting) {
  const Request version = shifted(asked, shift_of(action), granting);
  // At the ends of the day several shifts come to the same.
  std::vector<int>& versions = offers.versions[static_cast<size_t>(customer)];
  const bool known = std::ranges::any_of(versions, [&](int other) {
    return offers.instance.requests[static_cast<size_t>(other)] == version;
  });
  if (known) return;
  versions.push_back(static_cast<int>(offers.instance.requests.size()));
  offers.instance.requests.push_back(version);
  offers.customer.push_back(customer);
  offers.actions.push_back(static_cast<uint8_t>(action));
}

Offers offers_of(const Instance& asked, const Travellers& travellers, Granting granting) {
  Offers offers{.instance = {.city = asked.city, .requests = {}, .limits = asked.limits},
                .versions = Versions(asked.requests.size()),
                .customer = {},
                .actions = {}};
  for (size_t c = 0; c < asked.requests.size(); ++c) {
    const Request& request = asked.requests[c];
    const Trip& trip = travellers.trips[static_cast<size_t>(request.trip)];
    add_version(offers, static_cast<int>(c), request, kNoShift, granting);
    for (int action = 0; action < kActions; ++action) {
      if (!trip.accepted(action)) continue;
      add_version(offers, static_cast<int>(c), request, action, granting);
    }
  }
  return offers;
}

// The best of all starts. `search` takes the options of one.
template <class Search>
Solution best_of(const CeilingOptions& options, const Search& search) {
  Solution best{.routes = {}, .cost = std::numeric_limits<double>::infinity(), .iterations = 0};
  for (int start = 0; start < options.starts; ++start) {
    const auto starts = static_cast<uint64_t>(options.starts);
    Solution found = search({.iterations = options.iterations,
                             .seconds = 0,
                             .seed = starts * options.seed + static_cast<uint64_t>(start),
                             .stoppable = true});
    if (found.cost < best.cost) best = std::move(found);
  }
  return best;
}

Solution best_routes(const Instance& instance, const CeilingOptions& options) {
  return best_of(options, [&](const SolveOptions& one) { return solve(instance, one); });
}

// Takes the versions of the routes over, and the routes in nodes of what is granted.
void take(Ceiling& ceiling, const Offers& offers, Solution found) {
  for (int& node : found.routes.nodes()) {
    const auto version = static_cast<size_t>(Instance::request_of(node));
    const int customer = offers.customer[version];
    ceiling.actions[static_cast<size_t>(customer)] = offers.actions[version];
    ceiling.granted.requests[static_cast<size_t>(customer)] = offers.instance.requests[version];
    node = Instance::pickup_of(customer) + (Instance::is_pickup(node) ? 0 : 1);
  }
  ceiling.solution = std::move(found);
}

}  // namespace

Ceiling find_ceiling(const Instance& asked, const Travellers& travellers,
                     const CeilingOptions& options) {
  const Solution plain = best_routes(asked, options);
  Ceiling ceiling{.actions = std::vector<uint8_t>(asked.requests.size(), kNoShift),
                  .granted = asked,
                  .solution = plain,
                  .plain = plain};
  const Offers offers = offers_of(asked, travellers, options.granting);
  Solution together = best_of(options, [&](const SolveOptions& one) {
    return solve(offers.instance, offers.versions, one);
  });
  if (together.cost >= plain.cost) return ceiling;
  take(ceiling, offers, std::move(together));
  // With the shifts fixed, the search for routes is a smaller one.
  Solution routed = best_routes(ceiling.granted, options);
  if (routed.cost < ceiling.solution.cost) ceiling.solution = std::move(routed);
  // Most shifts that the search leaves behind gain the routes nothing: nobody is asked for those.
  Trimmed trimmed =
      trim(asked, ceiling.granted, travellers, ceiling.solution.routes, options.granting);
  ceiling.granted = std::move(trimmed.granted);
  ceiling.actions = std::move(trimmed.actions);
  return ceiling;
}

}  // namespace flotilla::dvrp
