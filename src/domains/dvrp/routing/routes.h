// Routes of vehicles, what they cost, and whether they are any good: the referee of everything that
// makes routes, and independent of all of it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/data/instance.h"

namespace flotilla::dvrp {

// Nodes, without the depot at both ends.
using Route = std::vector<int>;
using RouteView = std::span<const int>;

// Those of all vehicles, in one array.
// Allocates: where there was never room for as much; cleared or assigned to, it keeps its memory.
class Routes {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = RouteView;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = RouteView;

    Iterator(const Routes& routes, size_t at) : routes_(&routes), at_(at) {}
    RouteView operator*() const { return (*routes_)[at_]; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Routes* routes_;
    size_t at_;
  };
  using const_iterator = Iterator;

  Routes() = default;
  Routes(std::initializer_list<Route> routes) {
    for (const Route& route : routes) add(route);
  }

  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  // Of them, those that serve somebody.
  size_t used() const {
    size_t count = 0;
    for (const RouteView route : *this) count += route.empty() ? 0 : 1;
    return count;
  }
  RouteView operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return RouteView(nodes_).subspan(begin, ends_[i] - begin);
  }
  Iterator begin() const { return {*this, 0}; }
  Iterator end() const { return {*this, size()}; }
  bool operator==(const Routes&) const = default;

  // Room for any that serve so many requests.
  void reserve(int requests) {
    nodes_.reserve(2 * static_cast<size_t>(requests));
    ends_.reserve(static_cast<size_t>(requests));
  }
  void clear() {
    nodes_.clear();
    ends_.clear();
  }
  void add(RouteView route) {
    nodes_.insert(nodes_.end(), route.begin(), route.end());
    end_route();
  }
  // Node by node: those since the last end are a route.
  void add_node(int node) { nodes_.push_back(node); }
  void end_route() { ends_.push_back(nodes_.size()); }
  // Of all routes, one behind the other.
  std::span<int> nodes() { return nodes_; }

 private:
  std::vector<int> nodes_;
  std::vector<size_t> ends_;  // by route: behind its last node
};

struct Tour {
  Routes routes;
  double cost = 0;  // minutes; infinity: no routes were found
};

// Minutes of travel with the ways from and to the depot; waiting is free.
double cost_of(const Instance& instance, const Routes& routes);

// What breaks a rule, or "", with routes and requests counted from 1: every request is served once;
// its drop-off comes behind its pickup in the same vehicle; nobody more than the capacity is on
// board; a vehicle leaves the depot at 0, waits where it is early, is never late, and is back
// before the day ends. Where rides have limits, it may wait anywhere to shorten them, and there are
// times that keep windows and limits together, to 1e-6 minutes.
std::string fault_of(const Instance& instance, const Routes& routes);

// Whether there is none, for who asks often.
// Allocates: nothing for as many requests as it has room for, whose rides have no limits.
class Inspector {
 public:
  void reserve(int requests) { picked_up_.reserve(static_cast<size_t>(requests)); }
  bool passes(const Instance& instance, const Routes& routes);

 private:
  std::vector<bool> picked_up_;  // by request
};

}  // namespace flotilla::dvrp
