// The routing oracle: its rules, its arithmetic against a slow twin, and the tours it makes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "flotilla/domains/dvrp/oracle/batch.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "support/build.h"
#include "unit/domains/dvrp/oracle_support.h"

namespace flotilla::dvrp {
namespace {

// The network straight from its formulas, in double precision, nothing folded.
class Twin {
 public:
  using Row = std::vector<double>;
  using Rows = std::vector<Row>;

  Twin(const Tensors& weights, const Instance& instance) : weights_(weights) {
    for (int node = 0; node < instance.nodes(); ++node) x_.push_back(embed(instance, node));
    for (int k = 0; k < kOracleLayers; ++k) {
      const std::string layer = "layer." + std::to_string(k) + ".";
      const Rows mixed = attend_all(layer);
      for (size_t i = 0; i < x_.size(); ++i) {
        x_[i] = norm(layer + "norm1", sum(x_[i], linear(layer + "out", mixed[i])));
        Row wide = linear(layer + "wide", x_[i]);
        for (double& value : wide) value = std::max(value, 0.0);
        x_[i] = norm(layer + "norm2", sum(x_[i], linear(layer + "narrow", wide)));
      }
    }
    Row mean(kOracleWidth);
    for (const Row& row : x_) mean = sum(mean, row);
    for (double& value : mean) value /= static_cast<double>(x_.size());
    graph_ = linear("graph", mean);
    for (const Row& row : x_) cache_.push_back(linear("cache", row));
  }

  // Before tanh.
  double score_of(int node, const Decoding& decoding) const {
    const Row glimpse = linear("glimpse", look(decoding));
    double product = 0;
    for (size_t c = 0; c < kOracleWidth; ++c) {
      product += glimpse[c] * cache_[static_cast<size_t>(node)][2 * kOracleWidth + c];
    }
    return product / std::sqrt(double{kOracleWidth});
  }

 private:
  const Tensor& tensor(const std::string& name) const { return find_tensor(weights_, name); }
  static Row sum(const Row& a, const Row& b) {
    Row c = a;
    for (size_t i = 0; i < c.size(); ++i) c[i] += b[i];
    return c;
  }
  Row linear(const std::string& name, const Row& x) const {
    const Tensor& weight = tensor(name + ".weight");
    Row y;
    for (size_t out = 0; out < static_cast<size_t>(weight.shape[0]); ++out) {
      double total = 0;
      for (size_t in = 0; in < x.size(); ++in) {
        total += static_cast<double>(weight.data[out * x.size() + in]) * x[in];
      }
      y.push_back(total);
    }
    for (const Tensor& bias : weights_) {
      if (bias.name != name + ".bias") continue;
      for (size_t i = 0; i < y.size(); ++i) y[i] += static_cast<double>(bias.data[i]);
    }
    return y;
  }
  Row norm(const std::string& name, Row x) const {
    for (size_t c = 0; c < x.size(); ++c) {
      const auto part = [&](const char* what) {
        return static_cast<double>(tensor(name + what).data[c]);
      };
      x[c] =
          (x[c] - part(".mean")) / std::sqrt(part(".var") + 1e-5) * part(".weight") + part(".bias");
    }
    return x;
  }
  Row embed(const Instance& instance, int node) const {
    Row features;
    for (int cell = 0; cell < instance.city->size(); ++cell) {
      features.push_back(static_cast<double>(instance.city->minutes(instance.cell(node), cell)) /
                         20);
    }
    features.push_back(node == 0 ? 0 : node % 2 == 1 ? 1 : -1);
    const Window window = instance.window(node);
    features.push_back((static_cast<double>(window.early) - 720) / 240);
    features.push_back((static_cast<double>(window.late) - 720) / 240);
    return linear("init", features);
  }
  // Attention of `query` to rows of keys and values that start at these columns.
  static Row attend(const Row& query, const Rows& rows, size_t key, size_t value) {
    Row out;
    for (size_t head = 0; head < kOracleHeads; ++head) {
      Row weight;
      double total = 0;
      for (const Row& row : rows) {
        double product = 0;
        for (size_t c = head * 16; c < head * 16 + 16; ++c) product += query[c] * row[key + c];
        weight.push_back(std::exp(product / 4));
        total += weight.back();
      }
      for (size_t c = head * 16; c < head * 16 + 16; ++c) {
        double mixed = 0;
        for (size_t i = 0; i < rows.size(); ++i) mixed += weight[i] / total * rows[i][value + c];
        out.push_back(mixed);
      }
    }
    return out;
  }
  Rows attend_all(const std::string& layer) const {
    Rows qkv, mixed;
    for (const Row& row : x_) qkv.push_back(linear(layer + "qkv", row));
    for (const Row& row : qkv) mixed.push_back(attend(row, qkv, kOracleWidth, 2 * kOracleWidth));
    return mixed;
  }
  Row look(const Decoding& decoding) const {
    Row context = x_[static_cast<size_t>(decoding.current())];
    context.push_back(decoding.free_seats() / 8.0);
    context.push_back((static_cast<double>(decoding.time()) - 720) / 240);
    context.push_back(decoding.step() / 60.0);
    Rows open;
    for (const int node : decoding.allowed()) open.push_back(cache_[static_cast<size_t>(node)]);
    return attend(sum(linear("context", context), graph_), open, 0, kOracleWidth);
  }

  const Tensors& weights_;
  Rows x_, cache_;
  Row graph_;
};

class Kernel : public testing::TestWithParam<const OracleKernels*> {};

TEST_P(Kernel, ScoresAsTheFormulasSay) {
  const OracleKernels& kernels = *GetParam();
  if (!can_run(kernels)) GTEST_SKIP() << "this CPU has no " << kernels.name;
  const double tolerance = multiplies_coarsely(kernels) ? 2e-2 : 2e-5;
  const OracleWeights weights = random_weights(3);
  const PackedOracle packed(weights.tensors, data().city, kernels);
  int compared = 0;
  double largest = 0;
  for (const int requests : {1, 2, 7, 30}) {
    const Instance instance = draw_prefix(requests, static_cast<uint64_t>(requests));
    const Twin twin(weights.tensors, instance);
    Encoding encoding(kernels, packed, instance);
    Decoding decoding;
    Rng rng(1, stream_of(Purpose::kTest, 3));
    for (decoding.begin(instance); !decoding.done();) {
      const std::vector<float> scores = encoding.scores(decoding);
      for (size_t i = 0; i < scores.size(); ++i) {
        const double expected = twin.score_of(decoding.allowed()[i], decoding);
        largest = std::max(largest, std::abs(expected));
        ASSERT_NEAR(static_cast<double>(scores[i]), expected, tolerance) << kernels.name;
        ++compared;
      }
      decoding.go(decoding.allowed()[rng.below(static_cast<uint32_t>(scores.size()))]);
    }
  }
  EXPECT_GT(compared, 300);
  EXPECT_GT(largest, 0.1);  // so that the tolerance means something
}

INSTANTIATE_TEST_SUITE_P(Cpus, Kernel,
                         testing::ValuesIn(compiled_oracle_kernels().begin(),
                                           compiled_oracle_kernels().end()),
                         [](const auto& kernel) { return std::string(kernel.param->name); });

void expect_sound(const Instance& instance, const Tour& tour) {
  ASSERT_EQ(fault_of(instance, tour.routes), "");
  ASSERT_EQ(tour.cost, cost_of(instance, tour.routes));
}

TEST(Oracle, EveryTourPassesTheChecker) {
  ThreadPool pool(2);
  const std::vector<Instance> instances = draw_many(flotilla::test::kSanitized ? 100 : 4'000);
  const auto router = make_network_router(random_weights(1), data().city, {}, pool);
  const std::vector<Tour> tours = route_all(*router, instances, 512);
  for (size_t i = 0; i < tours.size(); ++i) {
    expect_sound(instances[i], tours[i]);
    if (HasFatalFailure()) return;
  }
}

TEST(Oracle, StartsAndLocalSearchShortenSoundTours) {
  ThreadPool pool(2);
  const std::vector<Instance> instances = draw_many(flotilla::test::kSanitized ? 60 : 300);
  const OracleWeights weights = random_weights(1);
  const auto cost_with = [&](const DecodeOptions& options) {
    const auto router = make_network_router(weights, data().city, options, pool);
    const std::vector<Tour> tours = route_all(*router, instances, 64);
    double total = 0;
    for (size_t i = 0; i < tours.size(); ++i) {
      expect_sound(instances[i], tours[i]);
      total += tours[i].cost;
    }
    return total;
  };
  const double greedy = cost_with({});
  const double starts = cost_with({.starts = 8});
  const double improved = cost_with({.improve = 10});
  EXPECT_LT(starts, 0.995 * greedy);
  EXPECT_LT(improved, 0.85 * greedy);
  EXPECT_NE(cost_with({.sampled = true, .seed = 1}), cost_with({.sampled = true, .seed = 2}));
}

TEST(Oracle, ToursAreTheSameForAnyBatchAndThreads) {
  const std::vector<Instance> instances = draw_many(flotilla::test::kSanitized ? 12 : 120);
  const OracleWeights weights = random_weights(2);
  std::vector<Tour> first;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const auto router =
        make_network_router(weights, data().city, {.starts = 2, .improve = 2}, pool);
    for (const size_t batch : {size_t{1}, size_t{7}, instances.size()}) {
      const std::vector<Tour> tours = route_all(*router, instances, batch);
      if (first.empty()) first = tours;
      for (size_t i = 0; i < tours.size(); ++i) {
        ASSERT_EQ(tours[i].routes, first[i].routes) << threads << " threads, batches of " << batch;
        ASSERT_EQ(tours[i].cost, first[i].cost);
      }
    }
  }
}

// The rules again, from their text, over all nodes and without any state of the decoder.
std::vector<int> allowed_by_text(const Instance& instance, const std::vector<int>& sequence) {
  std::vector<int> status(instance.requests.size());  // 1: on board, 2: delivered
  float time = 0;
  int at = 0;
  for (const int node : sequence) {
    if (node == 0) {
      time = 0;
      for (int& each : status) each = each == 1 ? 0 : each;
    } else {
      time = std::max(time + instance.minutes(at, node), instance.window(node).early);
      status[static_cast<size_t>((node - 1) / 2)] = node % 2 == 1 ? 1 : 2;
    }
    at = node;
  }
  const auto in_time = [&](int from, float when, int to) {
    return when + instance.minutes(from, to) <= instance.window(to).late;
  };
  std::vector<int> allowed;
  bool deliverable = false;
  const auto load = std::ranges::count(status, 1);
  for (size_t k = 0; k < status.size(); ++k) {
    const int pickup = 2 * static_cast<int>(k) + 1;
    if (status[k] == 1 && in_time(at, time, pickup + 1)) {
      deliverable = true;
      allowed.push_back(pickup + 1);
    }
    if (status[k] != 0 || load >= 8 || !in_time(at, time, pickup)) continue;
    const float start =
        std::max(time + instance.minutes(at, pickup), instance.window(pickup).early);
    bool all = in_time(pickup, start, pickup + 1);
    for (size_t m = 0; m < status.size(); ++m) {
      if (status[m] == 1) all = all && in_time(pickup, start, 2 * static_cast<int>(m) + 2);
    }
    if (all) allowed.push_back(pickup);
  }
  if (at != 0 && !deliverable) allowed.push_back(0);
  std::ranges::sort(allowed);
  return allowed;
}

TEST(Decoding, AllowsWhatTheRulesSay) {
  int retractions = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance instance = draw_prefix(1 + static_cast<int>(seed % 30), seed);
    Rng rng(seed, stream_of(Purpose::kTest, 4));
    Decoding decoding;
    std::vector<int> sequence;
    for (decoding.begin(instance); !decoding.done();) {
      const std::vector<int> allowed(decoding.allowed().begin(), decoding.allowed().end());
      ASSERT_EQ(allowed, allowed_by_text(instance, sequence)) << "seed " << seed;
      sequence.push_back(allowed[rng.below(static_cast<uint32_t>(allowed.size()))]);
      if (sequence.back() == 0 && decoding.free_seats() < kCapacity) ++retractions;
      decoding.go(sequence.back());
    }
    Tour tour;
    decoding.write(tour);
    expect_sound(instance, tour);
  }
  EXPECT_GT(retractions, 20);
}

// Stops and returns to the depot are more than 300 steps.
TEST(Oracle, RoutesTheLargestDayThatIsNegotiated) {
  const Data many = generate_data({.travellers = 250});
  Rng rng(3, stream_of(Purpose::kTest, 1));
  const Instance instance = draw_instance(many, kMostCustomers, rng);
  ThreadPool pool(1);
  const auto router = make_network_router(random_weights(1), many.city, {}, pool);
  const Tour tour = route_all(*router, {instance}, 1)[0];
  expect_sound(instance, tour);
  EXPECT_GT(2 * kMostCustomers + static_cast<int>(tour.routes.size()), 300);
}

// The longest tour there can be: every vehicle is full, delivers one, and lets seven wait again.
TEST(Decoding, HasStepsEnoughForAnyTour) {
  for (const int requests : {30, kMostCustomers}) {
    EXPECT_GE(most_decode_steps(requests), requests * (kCapacity + 2));
  }
}

TEST(Decoding, OneThatCannotBeServedIsAFailure) {
  Instance instance = draw_prefix(3, 5);
  instance.requests[1].dropoff = {instance.requests[1].pickup.early - 60,
                                  instance.requests[1].pickup.early - 30};
  ThreadPool pool(1);
  const auto router = make_network_router(random_weights(1), data().city, {.improve = 3}, pool);
  EXPECT_EQ(route_all(*router, {instance}, 1)[0].cost, std::numeric_limits<double>::infinity());
}

TEST(Decoding, RoutesOfTheSolverCanBeFollowed) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Instance instance = draw_prefix(1 + static_cast<int>(seed % 30), seed);
    const Solution solution = solve(instance, {.iterations = 50});
    const std::vector<int> sequence = sequence_of(instance, solution.routes);
    const Tour followed = follow(instance, sequence);
    EXPECT_NEAR(followed.cost, solution.cost, 1e-6);
    EXPECT_EQ(tour_of(instance, sequence).routes, followed.routes);
  }
}

TEST(Decoding, SequencesMakeTheToursOfTheRules) {
  int retractions = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Instance instance = draw_prefix(1 + static_cast<int>(seed % 30), seed);
    Rng rng(seed, stream_of(Purpose::kTest, 5));
    Decoding decoding;
    std::vector<int> sequence;
    for (decoding.begin(instance); !decoding.done();) {
      const auto allowed = decoding.allowed();
      sequence.push_back(allowed[rng.below(static_cast<uint32_t>(allowed.size()))]);
      if (sequence.back() == 0 && decoding.free_seats() < kCapacity) ++retractions;
      decoding.go(sequence.back());
    }
    Tour expected;
    decoding.write(expected);
    const Tour tour = tour_of(instance, sequence);
    ASSERT_EQ(tour.routes, expected.routes);
    ASSERT_EQ(tour.cost, expected.cost);
    sequence.resize(sequence.size() / 2);  // not everybody is served
    ASSERT_EQ(tour_of(instance, sequence).cost, std::numeric_limits<double>::infinity());
  }
  EXPECT_GT(retractions, 20);
}

TEST(Improve, IsAsGoodAsTheBestSingleMove) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const Instance instance = draw_prefix(12, seed);
    Routes alone;
    for (int k = 0; k < 12; ++k)
      alone.add(Route{Instance::pickup_of(k), Instance::pickup_of(k) + 1});
    const Solution better = improve(instance, alone, 100);
    ASSERT_EQ(fault_of(instance, better.routes), "");
    EXPECT_LT(better.cost, 0.9 * cost_of(instance, alone));
    // At a minimum another pass finds nothing.
    EXPECT_EQ(improve(instance, better.routes, 100).cost, better.cost);
  }
}

}  // namespace
}  // namespace flotilla::dvrp
