#include "flotilla/domains/dvrp/routing/router.h"

#include <cmath>
#include <vector>

namespace flotilla::dvrp {
namespace {

class InsertionRouter final : public Router {
 public:
  InsertionRouter(const DecodeOptions& options, ThreadPool& pool)
      : options_(options), pool_(pool), solvers_(static_cast<size_t>(pool.threads())) {}

  std::string name() const override { return "insertion"; }
  void reserve(size_t, int requests) override {
    for (Solver& solver : solvers_) solver.reserve(requests);
  }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    pool_.for_each(static_cast<int>(instances.size()), [&](int thread, int i) {
      const auto item = static_cast<size_t>(i);
      Solver& solver = solvers_[static_cast<size_t>(thread)];
      solver.solve(*instances[item], {.iterations = 0, .seconds = 0, .seed = 0}, tours[item]);
      finish(*instances[item], options_, solver, tours[item]);
    });
  }

 private:
  const DecodeOptions options_;
  ThreadPool& pool_;
  std::vector<Solver> solvers_;  // by thread
};

}  // namespace

void finish(const Instance& instance, const DecodeOptions& options, Solver& solver, Tour& tour) {
  if (!std::isfinite(tour.cost)) return;
  if (options.improve > 0) solver.improve(instance, options.improve, tour);
  if (options.refine > 0) solver.refine(instance, options.refine, tour);
}

std::unique_ptr<Router> make_insertion_router(const DecodeOptions& options, ThreadPool& pool) {
  return std::make_unique<InsertionRouter>(options, pool);
}

}  // namespace flotilla::dvrp
