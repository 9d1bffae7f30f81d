#include "flotilla/domains/dvrp/routes.h"

#include <fmt/format.h>

#include <algorithm>

namespace flotilla::dvrp {
namespace {

// Less than the second that travel times are whole of. A solver that computes in floats may be that
// much too early where a window does not end on a second.
constexpr double kRounding = 0.005;

// Follows one vehicle, on whole seconds: in floats, one that arrives in the last second of a window
// could be late by the sum of their roundings.
class Inspector {
 public:
  Inspector(const Instance& instance, std::vector<int>& served)
      : instance_(instance), served_(served) {}

  std::string inspect(const Route& route) {
    for (const int node : route) {
      if (node <= 0 || node >= instance_.nodes()) return fmt::format("there is no node {}", node);
      if (std::string fault = drive_to(node); !fault.empty()) return fault;
      if (std::string fault = serve(node); !fault.empty()) return fault;
    }
    if (!on_board_.empty()) {
      return fmt::format("request {} is never dropped off", on_board_.front() + 1);
    }
    return drive_to(0);
  }

 private:
  std::string drive_to(int node) {
    seconds_ +=
        static_cast<double>(instance_.city->seconds(instance_.cell(at_), instance_.cell(node)));
    const Window window = instance_.window(node);
    if (seconds_ / 60 > static_cast<double>(window.late) + kRounding) {
      return fmt::format("node {} is reached at {:.2f}, its window ends at {}", node, seconds_ / 60,
                         window.late);
    }
    seconds_ = std::max(seconds_, 60 * static_cast<double>(window.early));
    at_ = node;
    return "";
  }

  std::string serve(int node) {
    const int request = Instance::request_of(node);
    if (Instance::is_pickup(node)) {
      if (++served_[static_cast<size_t>(request)] > 1) {
        return fmt::format("request {} is picked up twice", request + 1);
      }
      on_board_.push_back(request);
      return on_board_.size() <= kCapacity ? "" : fmt::format("full at request {}", request + 1);
    }
    if (std::erase(on_board_, request) == 0) {
      return fmt::format("request {} is dropped off without being on board", request + 1);
    }
    return "";
  }

  const Instance& instance_;
  std::vector<int>& served_;  // pickups, by request
  std::vector<int> on_board_;
  int at_ = 0;
  double seconds_ = 0;
};

}  // namespace

double cost_of(const Instance& instance, const std::vector<Route>& routes) {
  double minutes = 0;
  for (const Route& route : routes) {
    int at = 0;
    for (const int node : route) {
      minutes += static_cast<double>(instance.minutes(at, node));
      at = node;
    }
    minutes += static_cast<double>(instance.minutes(at, 0));
  }
  return minutes;
}

std::string fault_of(const Instance& instance, const std::vector<Route>& routes) {
  std::vector<int> served(instance.requests.size());
  for (size_t i = 0; i < routes.size(); ++i) {
    const std::string fault = Inspector(instance, served).inspect(routes[i]);
    if (!fault.empty()) return fmt::format("route {}: {}", i + 1, fault);
  }
  const auto missing = std::ranges::find(served, 0);
  if (missing == served.end()) return "";
  return fmt::format("request {} is not served", missing - served.begin() + 1);
}

}  // namespace flotilla::dvrp
