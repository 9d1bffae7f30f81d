#include "flotilla/domains/dvrp/routing/router.h"

#include <cmath>
#include <utility>
#include <vector>

namespace flotilla::dvrp {
namespace {

// A solver for each thread, and what it does with an instance.
template <class Start>
class SolverRouter final : public Router {
 public:
  SolverRouter(std::string name, const DecodeOptions& options, ThreadPool& pool, Start start)
      : name_(std::move(name)),
        options_(options),
        pool_(pool),
        start_(std::move(start)),
        solvers_(static_cast<size_t>(pool.threads())) {}

  std::string name() const override { return name_; }
  void reserve(size_t, int requests) override {
    for (Solver& solver : solvers_) solver.reserve(requests);
  }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    pool_.for_each(static_cast<int>(instances.size()), [&](int thread, int i) {
      const auto item = static_cast<size_t>(i);
      Solver& solver = solvers_[static_cast<size_t>(thread)];
      start_(solver, *instances[item], tours[item]);
      finish(*instances[item], options_, solver, tours[item]);
    });
  }

 private:
  const std::string name_;
  const DecodeOptions options_;
  ThreadPool& pool_;
  const Start start_;
  std::vector<Solver> solvers_;  // by thread
};

template <class Start>
std::unique_ptr<Router> make_solver_router(const char* name, const DecodeOptions& options,
                                           ThreadPool& pool, Start start) {
  return std::make_unique<SolverRouter<Start>>(name, options, pool, std::move(start));
}

}  // namespace

void finish(const Instance& instance, const DecodeOptions& options, Solver& solver, Tour& tour) {
  if (!std::isfinite(tour.cost)) return;
  if (options.improve > 0) solver.improve(instance, options.improve, tour);
  if (options.refine > 0) solver.refine(instance, options.refine, tour);
}

std::unique_ptr<Router> make_insertion_router(const DecodeOptions& options, ThreadPool& pool) {
  const auto start = [](Solver& solver, const Instance& instance, Tour& tour) {
    solver.solve(instance, {.iterations = 0, .seconds = 0, .seed = 0}, tour);
  };
  return make_solver_router("insertion", options, pool, start);
}

std::unique_ptr<Router> make_continuing_router(const DecodeOptions& options, ThreadPool& pool) {
  const auto start = [](Solver& solver, const Instance& instance, Tour& tour) {
    solver.append(instance, tour);
  };
  return make_solver_router("continued", options, pool, start);
}

}  // namespace flotilla::dvrp
