#include "flotilla/domains/dvrp/router.h"

#include <cmath>

#include "flotilla/domains/dvrp/solver.h"

namespace flotilla::dvrp {
namespace {

class InsertionRouter final : public Router {
 public:
  InsertionRouter(const DecodeOptions& options, ThreadPool& pool)
      : options_(options), pool_(pool) {}

  std::string name() const override { return "insertion"; }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    pool_.for_each(static_cast<int>(instances.size()), [&](int, int i) {
      const auto item = static_cast<size_t>(i);
      Solution solution = solve(*instances[item], {.iterations = 0, .seconds = 0, .seed = 0});
      Tour tour{.routes = std::move(solution.routes), .cost = solution.cost};
      tours[item] = finished(*instances[item], std::move(tour), options_);
    });
  }

 private:
  const DecodeOptions options_;
  ThreadPool& pool_;
};

}  // namespace

Tour finished(const Instance& instance, Tour tour, const DecodeOptions& options) {
  if (!std::isfinite(tour.cost)) return tour;
  const auto take = [&tour](Solution better) {
    tour = {.routes = std::move(better.routes), .cost = better.cost};
  };
  if (options.improve > 0) take(improve(instance, tour.routes, options.improve));
  if (options.refine > 0) take(refine(instance, tour.routes, options.refine));
  return tour;
}

std::unique_ptr<Router> make_insertion_router(const DecodeOptions& options, ThreadPool& pool) {
  return std::make_unique<InsertionRouter>(options, pool);
}

}  // namespace flotilla::dvrp
