#include "flotilla/domains/dvrp/oracle/network_router.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "flotilla/domains/dvrp/oracle/decoding.h"
#include "flotilla/domains/dvrp/oracle/kernel_choice.h"
#include "flotilla/domains/dvrp/oracle/packed.h"

namespace flotilla::dvrp {
namespace {

// Rows of a tile: enough to use every panel of weights often, few enough to stay in the cache.
constexpr int kTileRows = 128;

// The instances [first, first + count) of a call.
struct Share {
  size_t first = 0, count = 0;
  int rows = 0, largest = 0;
};

void cut(std::span<const Instance* const> instances, std::vector<Share>& shares) {
  shares.clear();
  for (size_t i = 0; i < instances.size(); ++i) {
    const int nodes = instances[i]->nodes();
    if (shares.empty() || shares.back().rows + nodes > kTileRows) {
      shares.push_back({.first = i, .count = 0, .rows = 0, .largest = 0});
    }
    Share& share = shares.back();
    ++share.count;
    share.rows += nodes;
    share.largest = std::max(share.largest, nodes);
  }
}

// What one thread needs.
class Worker {
 public:
  Worker(const PackedNetwork& network, const OracleKernels& kernels, const DecodeOptions& options)
      : network_(network), kernels_(kernels), options_(options) {}

  void reserve(int requests);
  void route(std::span<const Instance* const> instances, const Share& share,
             std::span<Tour> tours) {
    encode(instances.subspan(share.first, share.count), share);
    for (size_t i = 0; i < share.count; ++i) {
      cache_of_ = cache_.data() + static_cast<size_t>(begin_[i]) * kCacheWidth;
      graph_of_ = graph_.data() + i * kOracleWidth;
      const size_t index = share.first + i;
      Rng rng(options_.seed, stream_of(Purpose::kPolicy, index));
      find_tour(*instances[index], rng, tours[index]);
      finish(*instances[index], options_, solver_, tours[index]);
    }
  }

 private:
  void encode(std::span<const Instance* const> instances, const Share& share);
  void grow(int rows, int largest, size_t instances);
  // The best of all starts.
  void find_tour(const Instance& instance, Rng& rng, Tour& best);
  void choose_firsts(Rng& rng);
  void score();
  int choose(Rng& rng);

  const PackedNetwork& network_;
  const OracleKernels& kernels_;
  const DecodeOptions& options_;
  std::vector<float> work_, cache_, graph_, demand_, early_, late_, scores_;
  std::vector<int> cell_, begin_;
  const float *cache_of_ = nullptr, *graph_of_ = nullptr;  // of the instance that is decoded
  std::vector<int> firsts_;                                // pickups that are tried
  std::vector<std::pair<float, int>> ranked_;
  Decoding decoding_;
  Tour tour_;
  Solver solver_;
};

// A tile has room for instances of a row each, the least there are.
void Worker::reserve(int requests) {
  const int nodes = 2 * requests + 1, rows = std::max(kTileRows, nodes);
  cell_.reserve(static_cast<size_t>(rows));
  for (std::vector<float>* each : {&demand_, &early_, &late_}) {
    each->reserve(static_cast<size_t>(rows));
  }
  begin_.reserve(static_cast<size_t>(kTileRows) + 1);
  grow(rows, nodes, static_cast<size_t>(kTileRows));
  firsts_.reserve(static_cast<size_t>(requests));
  ranked_.reserve(static_cast<size_t>(requests));
  decoding_.reserve(requests);
  tour_.routes.reserve(requests);
  solver_.reserve(requests);
}

void Worker::grow(int rows, int largest, size_t instances) {
  const auto fit = [](std::vector<float>& memory, size_t size) {
    if (memory.size() < size) memory.resize(size);
  };
  fit(work_, kernels_.work_size(rows, largest));
  fit(cache_, static_cast<size_t>(rows) * kCacheWidth);
  fit(graph_, instances * kOracleWidth);
  fit(scores_, static_cast<size_t>(largest) + 16);
}

void Worker::encode(std::span<const Instance* const> instances, const Share& share) {
  cell_.clear();
  demand_.clear();
  early_.clear();
  late_.clear();
  begin_.assign(1, 0);
  for (const Instance* instance : instances) {
    for (int node = 0; node < instance->nodes(); ++node) {
      const Window window = instance->window(node);
      cell_.push_back(instance->cell(node));
      demand_.push_back(node == 0 ? 0.0F : Instance::is_pickup(node) ? 1.0F : -1.0F);
      early_.push_back(scaled_time(window.early));
      late_.push_back(scaled_time(window.late));
    }
    begin_.push_back(static_cast<int>(cell_.size()));
  }
  grow(share.rows, share.largest, share.count);
  kernels_.encode(network_,
                  {.instances = static_cast<int>(share.count),
                   .begin = begin_.data(),
                   .cell = cell_.data(),
                   .demand = demand_.data(),
                   .early = early_.data(),
                   .late = late_.data(),
                   .cache = cache_.data(),
                   .graph = graph_.data()},
                  work_.data());
}

void Worker::score() {
  const std::span<const int> allowed = decoding_.allowed();
  kernels_.score(network_,
                 {.cache = cache_of_,
                  .graph = graph_of_,
                  .nodes = allowed.data(),
                  .count = static_cast<int>(allowed.size()),
                  .current = decoding_.current(),
                  .scalars = {scaled_seats(decoding_.free_seats()), scaled_time(decoding_.time()),
                              scaled_step(decoding_.step())},
                  .scores = scores_.data()},
                 work_.data());
}

// Index into allowed().
int Worker::choose(Rng& rng) {
  const size_t count = decoding_.allowed().size();
  if (count == 1) return 0;
  score();
  const auto end = scores_.begin() + static_cast<std::ptrdiff_t>(count);
  if (!options_.sampled)
    return static_cast<int>(std::max_element(scores_.begin(), end) - scores_.begin());
  double sum = 0;
  for (size_t i = 0; i < count; ++i) {
    scores_[i] = std::exp(kOracleClip * (std::tanh(scores_[i]) - 1));
    sum += static_cast<double>(scores_[i]);
  }
  double left = rng.uniform() * sum;
  for (size_t i = 0; i + 1 < count; ++i) {
    left -= static_cast<double>(scores_[i]);
    if (left < 0) return static_cast<int>(i);
  }
  return static_cast<int>(count) - 1;
}

void Worker::choose_firsts(Rng& rng) {
  const std::span<const int> allowed = decoding_.allowed();
  firsts_.clear();
  if (allowed.size() < 2) {
    firsts_.assign(allowed.begin(), allowed.end());
    return;
  }
  if (options_.sampled) {
    firsts_.push_back(allowed[static_cast<size_t>(choose(rng))]);
    return;
  }
  score();
  ranked_.clear();
  for (size_t i = 0; i < allowed.size(); ++i) ranked_.emplace_back(-scores_[i], allowed[i]);
  const size_t starts = std::min(allowed.size(), static_cast<size_t>(options_.starts));
  std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(starts),
                    ranked_.end());
  for (size_t i = 0; i < starts; ++i) firsts_.push_back(ranked_[i].second);
}

void Worker::find_tour(const Instance& instance, Rng& rng, Tour& best) {
  decoding_.begin(instance);
  choose_firsts(rng);
  decoding_.write(best);  // of no requests, or none that can be served
  for (const int first : firsts_) {
    decoding_.begin(instance);
    decoding_.go(first);
    while (!decoding_.done()) {
      decoding_.go(decoding_.allowed()[static_cast<size_t>(choose(rng))]);
    }
    decoding_.write(tour_);
    if (tour_.cost < best.cost) best = tour_;
  }
}

class NetworkRouter final : public Router {
 public:
  NetworkRouter(const OracleWeights& weights, const City& city, const DecodeOptions& options,
                ThreadPool& pool)
      : pool_(pool), options_(options), packed_(weights.tensors, city, kernels_) {
    for (int i = 0; i < pool.threads(); ++i) {
      workers_.emplace_back(packed_.network(), kernels_, options_);
    }
  }

  std::string name() const override { return std::string("network, ") + kernels_.name; }
  void reserve(size_t instances, int requests) override {
    shares_.reserve(instances);
    for (Worker& worker : workers_) worker.reserve(requests);
  }
  void route(std::span<const Instance* const> instances, std::span<Tour> tours) override {
    cut(instances, shares_);
    pool_.for_each(static_cast<int>(shares_.size()), [&](int thread, int i) {
      const Share& share = shares_[static_cast<size_t>(i)];
      workers_[static_cast<size_t>(thread)].route(instances, share, tours);
    });
  }

 private:
  ThreadPool& pool_;
  const DecodeOptions options_;
  const OracleKernels& kernels_ = oracle_kernels();
  const PackedOracle packed_;
  std::vector<Worker> workers_;
  std::vector<Share> shares_;  // of the call under way
};

}  // namespace

std::unique_ptr<Router> make_network_router(const OracleWeights& weights, const City& city,
                                            const DecodeOptions& options, ThreadPool& pool) {
  return std::make_unique<NetworkRouter>(weights, city, options, pool);
}

}  // namespace flotilla::dvrp
