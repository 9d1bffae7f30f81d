#include "flotilla/domains/dvrp/routing/rides.h"

#include <algorithm>
#include <vector>

#include "flotilla/domains/dvrp/routing/ride_schedule.h"

namespace flotilla::dvrp {
namespace {

// Minutes of the day at which a vehicle serves its stops.
class Service {
 public:
  explicit Service(const Instance& instance) : instance_(instance), schedule_(instance) {}

  void set(RouteView route) {
    times_.clear();
    if (schedule_.limited()) {
      keep_limits(route);
    } else {
      hurry(route);
    }
  }
  double operator[](size_t place) const { return times_[place]; }

 private:
  void hurry(RouteView route) {
    double time = 0;
    int at = 0;
    for (const int node : route) {
      time = std::max(time + static_cast<double>(instance_.minutes(at, node)),
                      static_cast<double>(instance_.window(node).early));
      at = node;
      times_.push_back(time);
    }
  }

  void keep_limits(RouteView route) {
    schedule_.follow(route);
    for (size_t i = 0; i < route.size(); ++i) times_.push_back(schedule_.minutes(i + 1));
  }

  const Instance& instance_;
  RideSchedule schedule_;
  std::vector<double> times_;
};

}  // namespace

Rides rides_of(const Instance& instance, const Routes& routes) {
  Rides rides;
  std::vector<double> picked_up(instance.requests.size());  // minutes of the day
  Service service(instance);
  for (const RouteView route : routes) {
    service.set(route);
    for (size_t i = 0; i < route.size(); ++i) {
      const int node = route[i];
      double& boarded = picked_up[static_cast<size_t>(Instance::request_of(node))];
      if (Instance::is_pickup(node)) {
        boarded = service[i];
        continue;
      }
      const double ride = service[i] - boarded;
      const auto direct = static_cast<double>(instance.minutes(node - 1, node));
      rides.on_board += ride;
      rides.direct += direct;
      rides.longest_excess = std::max(rides.longest_excess, ride - direct);
      ++rides.requests;
    }
  }
  return rides;
}

}  // namespace flotilla::dvrp
