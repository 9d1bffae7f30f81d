// The oracle on libtorch against the one on CPU kernels: the same tours, the same probabilities.
// Skipped where there is no libtorch.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>

#include "flotilla/domains/dvrp/oracle/batch.h"
#include "flotilla/domains/dvrp/oracle/lessons.h"
#include "flotilla/domains/dvrp/oracle/torch_router.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "unit/domains/dvrp/oracle_support.h"

namespace flotilla::dvrp {
namespace {

// FLOTILLA_TEST_DEVICE=cuda runs all of this on a GPU, which multiplies with ten bits. The kernels
// do with eight on AMX: then each side follows its own path where two nodes are nearly as good.
const char* const device = std::getenv("FLOTILLA_TEST_DEVICE");
bool rounds_coarsely() { return device != nullptr || multiplies_coarsely(oracle_kernels()); }

std::unique_ptr<TorchOracle> torch_oracle(const OracleWeights& weights) {
  try {
    return make_torch_oracle(city_table(data().city), weights.tensors, device ? device : "cpu");
  } catch (const Error&) {
    if (device != nullptr) throw;
    return nullptr;
  }
}
#define REQUIRE_TORCH(oracle) \
  if ((oracle) == nullptr) GTEST_SKIP() << "no libtorch"

TEST(TorchOracle, RoutesAsTheKernelsDo) {
  const OracleWeights weights = random_weights(4);
  auto oracle = torch_oracle(weights);
  REQUIRE_TORCH(oracle);
  ThreadPool pool(2);
  const std::vector<Instance> instances = draw_many(120);
  const auto kernels = make_network_router(weights, data().city, {}, pool);
  const auto sampled = oracle->decode(node_batch(pointers(instances)), true, 5);
  for (size_t i = 0; i < instances.size(); ++i) {
    ASSERT_EQ(fault_of(instances[i], follow(instances[i], sampled[i]).routes), "");
  }
  const auto torch = make_torch_router(std::move(oracle), {}, 50, pool);
  const std::vector<Tour> expected = route_all(*kernels, instances, 120);
  const std::vector<Tour> tours = route_all(*torch, instances, 120);
  int same = 0;
  for (size_t i = 0; i < tours.size(); ++i) {
    ASSERT_EQ(fault_of(instances[i], tours[i].routes), "");
    same += tours[i].routes == expected[i].routes ? 1 : 0;
  }
  EXPECT_GE(same, rounds_coarsely() ? 60 : 118);  // near ties may be rounded either way
}

// -log p of the choices of sequences, by the kernels.
double surprise(const OracleWeights& weights, const Lesson& lesson, int* choices) {
  const PackedOracle packed(weights.tensors, data().city, oracle_kernels());
  Encoding encoding(oracle_kernels(), packed, lesson.instance);
  Decoding decoding;
  decoding.begin(lesson.instance);
  double total = 0;
  for (const int node : lesson.sequence) {
    const auto allowed = decoding.allowed();
    const std::vector<float> scores = encoding.scores(decoding);
    double sum = 0, own = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double logit = 10 * std::tanh(static_cast<double>(scores[i]));
      sum += std::exp(logit);
      if (allowed[i] == node) own = logit;
    }
    total += std::log(sum) - own;
    *choices += allowed.size() > 1 ? 1 : 0;
    decoding.go(node);
  }
  return total;
}

struct School {
  explicit School(int count) {
    for (int i = 0; i < count; ++i) {
      Lesson lesson{.instance = draw_prefix(1 + i % 12, static_cast<uint64_t>(i)), .sequence = {}};
      lesson.sequence =
          sequence_of(lesson.instance, solve(lesson.instance, {.iterations = 50}).routes);
      lessons.push_back(std::move(lesson));
    }
    for (const Lesson& lesson : lessons) {
      instances.push_back(&lesson.instance);
      sequences.push_back(lesson.sequence);
    }
  }
  double learn(TorchOracle& oracle, const std::vector<float>& weight, const LearnStep& step) const {
    ThreadPool pool(2);
    return oracle.learn(node_batch(instances), step_batch(instances, sequences, weight, pool),
                        step);
  }
  std::vector<Lesson> lessons;
  std::vector<const Instance*> instances;
  std::vector<std::vector<int>> sequences;
};

TEST(TorchOracle, ItsLossIsTheSurpriseAtTheTeachersChoices) {
  const OracleWeights weights = random_weights(5);
  const auto oracle = torch_oracle(weights);
  REQUIRE_TORCH(oracle);
  const School school(24);
  double expected = 0;
  int choices = 0;
  for (const Lesson& lesson : school.lessons) expected += surprise(weights, lesson, &choices);
  ASSERT_GT(choices, 100);
  const double loss = school.learn(*oracle, std::vector<float>(24, 1), {.frozen_norms = true});
  EXPECT_NEAR(loss, expected, (rounds_coarsely() ? 5e-3 : 1e-4) * expected);
}

TEST(TorchOracle, LearnsByHeartAndFollowsItsWeights) {
  const OracleWeights weights = random_weights(6);
  const auto oracle = torch_oracle(weights);
  REQUIRE_TORCH(oracle);
  const School school(12);
  const std::vector<float> weight(12, 0.02F);
  const double before = school.learn(*oracle, weight, {.rate = 1e-3});
  double after = 0;
  for (int i = 0; i < 60; ++i) after = school.learn(*oracle, weight, {.rate = 1e-3});
  EXPECT_LT(after, 0.5 * before);
  // A negative weight makes the choices less likely.
  for (int i = 0; i < 10; ++i) {
    school.learn(*oracle, std::vector<float>(12, -0.02F), {.rate = 1e-3, .frozen_norms = true});
  }
  EXPECT_GT(school.learn(*oracle, weight, {.rate = 0, .frozen_norms = true}), 1.5 * after);
}

TEST(TorchOracle, GoesOnWhereItsStateWasSaved) {
  const auto first = torch_oracle(random_weights(7)), second = torch_oracle(random_weights(8));
  REQUIRE_TORCH(first);
  const School school(8);
  const std::vector<float> weight(8, 0.02F);
  for (int i = 0; i < 3; ++i) school.learn(*first, weight, {});
  second->set_weights(first->weights());
  second->set_optimiser(first->optimiser());
  for (TorchOracle* each : {first.get(), second.get()}) school.learn(*each, weight, {});
  EXPECT_EQ(sha256(first->weights()), sha256(second->weights()));
  EXPECT_EQ(sha256(first->optimiser()), sha256(second->optimiser()));
}

TEST(TorchOracle, PartsOfAStepAreOneStep) {
  const OracleWeights weights = random_weights(8);
  const auto whole = torch_oracle(weights), parts = torch_oracle(weights);
  REQUIRE_TORCH(whole);
  const School school(12);
  std::vector<float> some(12, 0), rest(12, 0.02F);
  for (size_t i = 0; i < 5; ++i) std::swap(some[i], rest[i]);
  const LearnStep step{.rate = 1e-3, .frozen_norms = true};
  const LearnStep part{.rate = 1e-3, .frozen_norms = true, .part = true};
  for (int i = 0; i < 3; ++i) {
    const double loss = school.learn(*whole, std::vector<float>(12, 0.02F), step);
    const double split = school.learn(*parts, some, part) + school.learn(*parts, rest, step);
    EXPECT_NEAR(split, loss, (device == nullptr ? 1e-4 : 1e-2) * loss);
  }
  EXPECT_EQ(find_tensor(whole->optimiser(), "steps").data,
            find_tensor(parts->optimiser(), "steps").data);
}

TEST(TorchOracle, SamplesByItsProbabilities) {
  const OracleWeights weights = random_weights(9);
  const auto oracle = torch_oracle(weights);
  REQUIRE_TORCH(oracle);
  const Instance instance = draw_prefix(5, 1);
  const PackedOracle packed(weights.tensors, data().city, oracle_kernels());
  Encoding encoding(oracle_kernels(), packed, instance);
  Decoding decoding;
  decoding.begin(instance);
  const std::vector<float> scores = encoding.scores(decoding);
  double sum = 0;
  for (const float score : scores) sum += std::exp(10 * std::tanh(static_cast<double>(score)));
  constexpr int kDraws = 1500;
  const std::vector<const Instance*> copies(kDraws, &instance);
  std::map<int, int> firsts;
  for (const auto& tour : oracle->decode(node_batch(copies), true, 11)) ++firsts[tour.front()];
  for (size_t i = 0; i < scores.size(); ++i) {
    const double p = std::exp(10 * std::tanh(static_cast<double>(scores[i]))) / sum;
    const double deviation = std::sqrt(kDraws * p * (1 - p)) + 1;
    EXPECT_NEAR(firsts[decoding.allowed()[i]], kDraws * p, 4.5 * deviation);
  }
  EXPECT_EQ(oracle->decode(node_batch(copies), true, 11),
            oracle->decode(node_batch(copies), true, 11));
}

// A device with room for so many instances.
class SmallDevice final : public TorchOracle {
 public:
  explicit SmallDevice(int room) : room_(room) {}
  std::string name() const override { return "small"; }
  Tensors weights() const override { return {}; }
  void set_weights(const Tensors&) override {}
  Tensors optimiser() const override { return {}; }
  void set_optimiser(const Tensors&) override {}
  double learn(const NodeBatch&, const StepBatch&, const LearnStep&) override { return 0; }
  std::vector<std::vector<int>> decode(const NodeBatch& batch, bool, uint64_t) override {
    if (batch.instances > room_) throw OutOfMemory(ErrorCode::kInternal, "full");
    std::vector<std::vector<int>> tours;
    for (const int requests : batch.requests) {
      std::vector<int>& tour = tours.emplace_back();
      for (int k = 0; k < requests; ++k) tour.insert(tour.end(), {2 * k + 1, 2 * k + 2, 0});
    }
    return tours;
  }

 private:
  const int room_;
};

TEST(TorchRouter, HalvesItsBatchesUntilTheDeviceHasRoom) {
  ThreadPool pool(1);
  const std::vector<Instance> instances = draw_many(50);
  const auto router = make_torch_router(std::make_unique<SmallDevice>(7), {}, 128, pool);
  const std::vector<Tour> tours = route_all(*router, instances, 50);
  for (size_t i = 0; i < tours.size(); ++i) {
    EXPECT_EQ(fault_of(instances[i], tours[i].routes), "");
    EXPECT_EQ(tours[i].routes.size(), instances[i].requests.size());
  }
  const auto hopeless = make_torch_router(std::make_unique<SmallDevice>(0), {}, 128, pool);
  EXPECT_THROW(route_all(*hopeless, instances, 50), OutOfMemory);
}

}  // namespace
}  // namespace flotilla::dvrp
