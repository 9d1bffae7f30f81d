// What turns requests into routes, many instances in one call: the oracle's network, or insertion
// alone.
//
// Thread safety: one caller at a time.
// Determinism: the routes of an instance depend on the instance alone, not on the others of the
// call, nor on threads or chunks (on CPU).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "flotilla/core/thread_pool.h"
#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla::dvrp {

class Router {
 public:
  virtual ~Router() = default;
  virtual std::string name() const = 0;
  // Memory for calls of up to so many instances, of up to so many requests each: those of the CPU
  // make no more then, with tours that have room.
  virtual void reserve(size_t /*instances*/, int /*requests*/) {}
  // REQUIRES: as many tours as instances, and instances of the router's city. Those that continue
  // begin with the tours that are there, of all requests but the last.
  virtual void route(std::span<const Instance* const> instances, std::span<Tour> tours) = 0;
};

// How a tour is found, and what becomes of it.
struct DecodeOptions {
  int starts = 1;   // of the network: first pickups that are tried, the likeliest ones first
  int improve = 0;  // passes of local search over the best of them
  int refine = 0;   // iterations of large-neighbourhood search behind that
  bool sampled = false;
  uint64_t seed = 0;  // of sampling; the i-th instance of a call has a stream of its own

  bool operator==(const DecodeOptions&) const = default;
};

// Local search over a tour, as the options say.
void finish(const Instance& instance, const DecodeOptions& options, Solver& solver, Tour& tour);

// Every request where it costs least, those first that would suffer most from waiting; then local
// search. On the threads of `pool`, which must outlive the router.
std::unique_ptr<Router> make_insertion_router(const DecodeOptions& options, ThreadPool& pool);

// The last request where it costs least in the routes of the others, which are given; then local
// search. A day that is routed so request by request is searched all day long, at little cost per
// request. Equal instances get equal routes where their routes began equally.
std::unique_ptr<Router> make_continuing_router(const DecodeOptions& options, ThreadPool& pool);

}  // namespace flotilla::dvrp
