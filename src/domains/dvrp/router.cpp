#include "flotilla/domains/dvrp/router.h"

#include "flotilla/domains/dvrp/solver.h"

namespace flotilla::dvrp {
namespace {

class InsertionRouter final : public Router {
 public:
  explicit InsertionRouter(ThreadPool& pool) : pool_(pool) {}

  std::string name() const override { return "insertion"; }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    pool_.for_each(static_cast<int>(instances.size()), [&](int, int i) {
      const auto item = static_cast<size_t>(i);
      Solution solution = solve(*instances[item], {.iterations = 0, .seconds = 0, .seed = 0});
      tours[item] = {.routes = std::move(solution.routes), .cost = solution.cost};
    });
  }

 private:
  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Router> make_insertion_router(ThreadPool& pool) {
  return std::make_unique<InsertionRouter>(pool);
}

}  // namespace flotilla::dvrp
