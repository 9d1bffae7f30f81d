#include "flotilla/domains/dvrp/oracle/torch_router.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/log.h"
#include "flotilla/domains/dvrp/oracle/batch.h"

namespace flotilla::dvrp {
namespace {

class TorchRouter final : public Router {
 public:
  TorchRouter(std::unique_ptr<TorchOracle> oracle, const DecodeOptions& options, int max_batch,
              ThreadPool& pool)
      : oracle_(std::move(oracle)),
        options_(options),
        chunk_(static_cast<size_t>(max_batch)),
        pool_(pool),
        solvers_(static_cast<size_t>(pool.threads())) {
    if (options.starts != 1) {
      throw Error(ErrorCode::kUsage, "oracle.starts: the network on libtorch has one start");
    }
  }

  std::string name() const override { return oracle_->name(); }

  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    for (size_t i = 0; i < instances.size();) {
      const size_t count = std::min(chunk_, instances.size() - i);
      try {
        route_chunk(instances.subspan(i, count), tours.subspan(i, count), i);
        i += count;
      } catch (const OutOfMemory&) {
        if (chunk_ == 1) throw;
        chunk_ = std::min(chunk_, instances.size()) / 2;
        log::warn(fmt::format("oracle: the device is full, batches of {} from now on", chunk_));
      }
    }
  }

 private:
  void route_chunk(std::span<const Instance* const> instances, std::span<Tour> tours,
                   size_t first) {
    const auto sequences = oracle_->decode(node_batch(instances, Padding::kFewSizes),
                                           options_.sampled, options_.seed + first);
    pool_.for_each(static_cast<int>(instances.size()), [&](int thread, int item) {
      const auto i = static_cast<size_t>(item);
      tours[i] = tour_of(*instances[i], sequences[i]);
      finish(*instances[i], options_, solvers_[static_cast<size_t>(thread)], tours[i]);
    });
  }

  const std::unique_ptr<TorchOracle> oracle_;
  const DecodeOptions options_;
  size_t chunk_;
  ThreadPool& pool_;
  std::vector<Solver> solvers_;  // by thread
};

}  // namespace

std::unique_ptr<Router> make_torch_router(std::unique_ptr<TorchOracle> oracle,
                                          const DecodeOptions& options, int max_batch,
                                          ThreadPool& pool) {
  return std::make_unique<TorchRouter>(std::move(oracle), options, max_batch, pool);
}

std::unique_ptr<Router> make_torch_router(const OracleWeights& weights, const City& city,
                                          const DecodeOptions& options, int max_batch,
                                          const std::string& device, ThreadPool& pool) {
  return make_torch_router(make_torch_oracle(city_table(city), weights.tensors, device), options,
                           max_batch, pool);
}

}  // namespace flotilla::dvrp
