// What every kernel must do alike: networks of all kinds and shapes, forwards, backwards and over
// many updates, against the slow twin and against each other.
#include "flotilla/nn/policy.h"

#include <gtest/gtest.h>

#include <map>

#include "support/build.h"
#include "support/error_text.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

class PolicyTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, PolicyTest, testing::ValuesIn(every_kernel()), kernel_name);

// Steps whose first moments are the gradient itself. Of a beta so near to one, 1 - beta is wrong
// by a hundredth when it is taken of floats.
constexpr Adam kPlain{.beta1 = 0, .beta2 = 0.999999};
GradientStep plain() { return {.lr = 1e-3, .max_grad_norm = 0, .rule = kPlain}; }

std::vector<Case> all_cases(uint32_t random) {
  std::vector<Case> all = small_cases();
  for (Case& c : random_cases(random)) all.push_back(std::move(c));
  return all;
}

TEST_P(PolicyTest, StartsFromTheCommonInitialParameters) {
  for (const Case& c : all_cases(16)) {
    const auto policy = make(c.spec, 12);
    EXPECT_TRUE(same_bits(policy->parameters(), initial_parameters(c.spec, 12))) << c.name;
  }
  const std::string kernel = make(small_cases()[0].spec)->implementation().name;
  EXPECT_TRUE(kernel.starts_with(is_torch() ? "torch " : "fused " + GetParam().name)) << kernel;
}

// ---- forwards -----------------------------------------------------------------------------------

// A sum of n products is off by sqrt(n) roundings of 6e-8 of its largest part, and all layers do
// that; a log-probability of many dimensions adds theirs.
constexpr double kForward = 5e-6;

double forward_tolerance(double expected) { return kForward * std::max(1.0, std::abs(expected)); }

TEST_P(PolicyTest, SeesWhatItsTwinSees) {
  ThreadPool pool(1);
  for (const Case& c : all_cases(32)) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 60, c.epsilon, 4);
    rollout.act(*policy);
    const Recorder recorder(rollout.size());
    learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, recorder, plain());
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      const SlowPolicy::Seen seen = twin.see(row);
      ASSERT_NEAR(rollout.logprob()[i], seen.logprob, forward_tolerance(seen.logprob)) << i;
      ASSERT_NEAR(rollout.value()[i], seen.value, forward_tolerance(seen.value)) << i;
      ASSERT_NEAR(recorder.logprob[i], seen.logprob, forward_tolerance(seen.logprob)) << i;
      ASSERT_NEAR(recorder.entropy[i], seen.entropy, forward_tolerance(seen.entropy)) << i;
      ASSERT_NEAR(recorder.value[i], seen.value, forward_tolerance(seen.value)) << i;
    }
  }
}

// ---- backwards ----------------------------------------------------------------------------------

// What a twin makes of a case, worked out once for all kernels.
struct Expected {
  explicit Expected(const Case& c, int rows)
      : rollout(c.spec, rows, c.epsilon, 4), twin(make_twin(c.spec)) {
    rollout.act_at_random();
  }
  Rollout rollout;
  std::vector<int32_t> chosen;
  SlowPolicy twin;  // after its updates
  SlowPolicy::Named gradient;
  LearnResult result;
};

const Expected& expected_gradient(const Case& c) {
  static std::map<std::string, Expected> all;
  const auto found = all.find(c.name);
  if (found != all.end()) return found->second;
  Expected& e = all.emplace(c.name, Expected(c, 150)).first->second;
  for (const int32_t row : e.rollout.chosen()) {
    const double distance = e.twin.kink_distance(e.twin.row(e.rollout.samples(), row).obs);
    if (distance > 1e-5) e.chosen.push_back(row);
  }
  e.gradient = e.twin.gradient(e.rollout.samples(), e.chosen, Nets::kBoth, Mixture(e.chosen.size()),
                               e.result.sums.of);
  double squares = 0;
  for (const auto& [name, values] : e.gradient) {
    for (const double g : values) squares += g * g;
  }
  e.result.grad_norm = std::sqrt(squares);
  return e;
}

// Of the largest number in a tensor: the roundings of the forward pass, once more backwards. Where
// tanh is near its ends, all that is left of its slope may be the error of 4e-7 it is allowed.
constexpr double kBackward = 2e-5, kLeastSlope = 0.02;

TEST_P(PolicyTest, LearnsTheGradientOfItsTwin) {
  ThreadPool pool(1);
  std::vector<Case> cases = random_cases(32);
  for (Case& c : wide_cases()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Expected& expected = expected_gradient(c);
    const auto policy = make(c.spec);
    const LearnResult result = learn(*policy, pool, expected.rollout.samples(), expected.chosen,
                                     Nets::kBoth, Mixture(expected.chosen.size()), plain());
    expect_near(policy->optimiser(), "m.", expected.gradient, kBackward, kLeastSlope);
    EXPECT_NEAR(result.grad_norm, expected.result.grad_norm, 1e-5 * expected.result.grad_norm);
    for (int k = 0; k < Objective::kSums; ++k) {
      const auto rows = static_cast<double>(expected.chosen.size());
      EXPECT_NEAR(result.sums[k], expected.result.sums[k],
                  forward_tolerance(expected.result.sums[k] / rows) * rows);
    }
  }
}

// From the gradient that the kernel itself has found: the first step is lr long whatever the slope,
// but where the slope is not far from epsilon.
TEST_P(PolicyTest, StepsAsAdamDoes) {
  ThreadPool pool(1);
  for (const Case& c : all_cases(8)) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 100, c.epsilon, 4);
    rollout.act(*policy);
    const GradientStep step = plain();
    const Tensors before = policy->parameters();
    learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(100), step);
    const Tensors state = policy->optimiser();
    for (const Tensor& tensor : policy->parameters()) {
      const Tensor& start = find_tensor(before, tensor.name);
      const Tensor& m = find_tensor(state, "m." + tensor.name);
      const Tensor& v = find_tensor(state, "v." + tensor.name);
      for (size_t i = 0; i < tensor.elements(); ++i) {
        const auto g = static_cast<double>(m.data[i]), from = static_cast<double>(start.data[i]);
        const double square = (1 - kPlain.beta2) * g * g;
        ASSERT_NEAR(v.data[i], square, 1e-6 * square + 1e-37) << v.name;
        const double to = from - step.lr * g / (std::abs(g) + kPlain.epsilon);
        // A rounding of the parameter, and a few of the step.
        ASSERT_NEAR(tensor.data[i], to, 6e-8 * std::abs(to) + 1e-6 * step.lr) << tensor.name;
      }
    }
  }
}

TEST_P(PolicyTest, LearnsOneNetAlone) {
  ThreadPool pool(1);
  std::vector<Case> cases = small_cases();
  for (Case& c : wide_cases()) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    if (c.spec.shared) continue;
    const int rows = c.spec.inputs < 100 ? 700 : 300;
    for (const Nets nets : {Nets::kBoth, Nets::kActor, Nets::kCritic}) {
      SCOPED_TRACE(c.name + ", nets " + std::to_string(static_cast<int>(nets)));
      const auto policy = make(c.spec);
      Rollout rollout(c.spec, rows, c.epsilon, 4);
      rollout.act(*policy);
      const Mixture objective(rollout.size());
      learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, objective, plain());
      SlowPolicy twin = twin_of(*policy);
      const Tensors parameters = policy->parameters(), optimiser = policy->optimiser();
      const LearnResult result =
          learn(*policy, pool, rollout.samples(), rollout.chosen(), nets, objective, plain());
      double sums[Objective::kSums] = {};
      const SlowPolicy::Named gradient =
          twin.gradient(rollout.samples(), rollout.chosen(), nets, objective, sums);
      expect_near(policy->optimiser(), "m.", gradient, kBackward, kLeastSlope);
      for (int k = 0; k < Objective::kSums; ++k) {
        EXPECT_NEAR(result.sums[k], sums[k], forward_tolerance(sums[k] / rows) * rows) << k;
      }
      for (const Tensor& tensor : policy->parameters()) {
        const bool trained = SlowPolicy::trains(nets, tensor.name);
        EXPECT_EQ(tensor.data != find_tensor(parameters, tensor.name).data, trained) << tensor.name;
        for (const char* moment : {"m.", "v."}) {
          const std::string name = moment + tensor.name;
          const bool moved =
              find_tensor(policy->optimiser(), name).data != find_tensor(optimiser, name).data;
          EXPECT_EQ(moved, trained) << name;
        }
      }
    }
  }
}

// Logits so far apart that the exponential of their difference is nothing; closed ones among them
// that are larger than all open ones.
TEST_P(PolicyTest, ExtremeLogits) {
  ThreadPool pool(1);
  for (const int choices : {5, 20}) {
    for (const float epsilon : {0.0F, 0.1F, 1.0F}) {
      NetworkSpec spec =
          network(3, {8}, Activation::kTanh, false, ActionSpace::multi_discrete({choices, 2}));
      spec.has_mask = true;
      const auto policy = make(spec);
      Tensors parameters = policy->parameters();
      std::vector<float>& bias = find_tensor(parameters, "actor.1.bias").data;
      for (size_t i = 0; i < bias.size(); ++i) bias[i] += i % 2 == 0 ? 80.0F : -80.0F;
      policy->set_parameters(parameters);
      const SlowPolicy twin = twin_of(*policy);
      Rollout rollout(spec, 100, epsilon, 4);
      rollout.act_at_random();
      const Recorder recorder(rollout.size());
      learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, recorder, plain());
      for (int32_t i = 0; i < rollout.rows(); ++i) {
        const SlowPolicy::Seen seen = twin.see(twin.row(rollout.samples(), i));
        const auto at = static_cast<size_t>(i);
        // A logit of 80 has lost the digits below 4e-6.
        ASSERT_NEAR(recorder.logprob[at], seen.logprob, 3e-5 + forward_tolerance(seen.logprob));
        ASSERT_NEAR(recorder.entropy[at], seen.entropy, 3e-5);
      }
      const Mixture objective(rollout.size());
      double sums[Objective::kSums] = {};
      const SlowPolicy::Named gradient =
          twin.gradient(rollout.samples(), rollout.chosen(), Nets::kBoth, objective, sums);
      learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, objective, plain());
      expect_near(policy->optimiser(), "m.", gradient, 1e-4, kLeastSlope);
    }
  }
}

// ---- many updates -------------------------------------------------------------------------------

constexpr int kUpdates = kSanitized ? 25 : 50;
constexpr size_t kUpdateRows = 16;

// Random rows of a rollout, the same ones for everybody.
std::vector<int32_t> minibatch(int update, int rows, size_t count) {
  Rng rng(static_cast<uint64_t>(update), stream_of(Purpose::kTest, 3));
  std::vector<int32_t> chosen(count);
  for (int32_t& row : chosen) {
    row = static_cast<int32_t>(rng.below(static_cast<uint32_t>(rows)));
  }
  return chosen;
}

// Both nets, one and the other in turn, where they can be trained apart.
Nets nets_of_update(const NetworkSpec& spec, int update) {
  if (spec.shared || update % 3 == 0) return Nets::kBoth;
  return update % 3 == 1 ? Nets::kActor : Nets::kCritic;
}

GradientStep ordinary() { return {.lr = 3e-4, .max_grad_norm = 0.5}; }

void update(Policy& policy, ThreadPool& pool, const Rollout& rollout, int number, size_t count) {
  learn(policy, pool, rollout.samples(), minibatch(number, rollout.rows(), count),
        nets_of_update(policy.spec(), number), Mixture(count), ordinary());
}

const Expected& expected_updates(const Case& c) {
  static std::map<std::string, Expected> all;
  const auto found = all.find(c.name);
  if (found != all.end()) return found->second;
  Expected& e = all.emplace(c.name, Expected(c, 200)).first->second;
  for (int i = 0; i < kUpdates; ++i) {
    e.result = e.twin.learn(e.rollout.samples(), minibatch(i, e.rollout.rows(), kUpdateRows),
                            nets_of_update(c.spec, i), Mixture(kUpdateRows), ordinary());
  }
  return e;
}

// Adam divides by the gradient's size, so that a difference of roundings counts most where the
// slopes are small; and relu's slope jumps where a sum is rounded across zero, for one row and one
// unit at a time.
double way_tolerance(const NetworkSpec& spec) {
  return spec.activation == Activation::kTanh ? 1e-3 : 5e-3;
}

TEST_P(PolicyTest, StaysWithItsTwinOverManyUpdates) {
  ThreadPool pool(1);
  for (const Case& c : all_cases(16)) {
    SCOPED_TRACE(c.name);
    const Expected& expected = expected_updates(c);
    const auto policy = make(c.spec);
    const Tensors start = policy->parameters();
    for (int i = 0; i < kUpdates; ++i) update(*policy, pool, expected.rollout, i, kUpdateRows);
    for (const Tensor& tensor : policy->parameters()) {
      const double distance = distance_of_ways(
          find_tensor(start, tensor.name), expected.twin.parameters.at(tensor.name), tensor.data);
      EXPECT_LT(distance, way_tolerance(c.spec)) << tensor.name;
    }
  }
}

// Rows of the same number learnt again and again, as epsilon falls: what a step has prepared for
// the next ones may not keep the epsilon, the parameters or the rows.
TEST_P(PolicyTest, EveryStepSeesItsOwnEpsilonAndRows) {
  ThreadPool pool(1);
  constexpr size_t kRows = 60;
  for (const Case& c : small_cases()) {
    if (c.epsilon == 0) continue;
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 300, c.epsilon, 4);
    rollout.act(*policy);
    const Mixture objective(kRows);
    int number = 0;
    for (const float epsilon : {0.3F, 0.2F, 0.1F, 0.01F, 0.0F}) {
      SCOPED_TRACE(epsilon);
      Samples samples = rollout.samples();
      samples.epsilon = epsilon;
      const std::vector<int32_t> rows = minibatch(number++, rollout.rows(), kRows);
      SlowPolicy twin = twin_of(*policy);
      learn(*policy, pool, samples, rows, Nets::kBoth, objective, plain());
      double sums[Objective::kSums] = {};
      const SlowPolicy::Named gradient = twin.gradient(samples, rows, Nets::kBoth, objective, sums);
      expect_near(policy->optimiser(), "m.", gradient, kBackward, kLeastSlope);
    }
  }
}

// Where libtorch comes to, worked out once for all kernels.
const Tensors& torch_updates(const Case& c, const Rollout& rollout, size_t count) {
  static std::map<std::string, Tensors> all;
  const auto found = all.find(c.name);
  if (found != all.end()) return found->second;
  const auto policy = make_on(every_kernel().back(), c.spec);
  ThreadPool pool(1);
  for (int i = 0; i < kUpdates; ++i) update(*policy, pool, rollout, i, count);
  return all.emplace(c.name, policy->parameters()).first->second;
}

TEST_P(PolicyTest, StaysWithTorchOverManyUpdates) {
  const Kernel torch = every_kernel().back();
  if (is_torch()) GTEST_SKIP() << "this is libtorch";
  if (!missing(torch).empty()) GTEST_SKIP() << missing(torch);
  ThreadPool pool(1);
  constexpr size_t kRows = 100;
  for (const Case& c : random_cases(20)) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const Tensors start = policy->parameters();
    Rollout rollout(c.spec, 500, c.epsilon, 4);
    rollout.act_at_random();
    for (int i = 0; i < kUpdates; ++i) update(*policy, pool, rollout, i, kRows);
    const Tensors& there = torch_updates(c, rollout, kRows);
    for (const Tensor& tensor : policy->parameters()) {
      const double distance = distance_of_ways(find_tensor(start, tensor.name),
                                               find_tensor(there, tensor.name).data, tensor.data);
      EXPECT_LT(distance, way_tolerance(c.spec)) << tensor.name;
    }
  }
}

// ---- state --------------------------------------------------------------------------------------

TEST_P(PolicyTest, GoesOnFromSavedTensors) {
  ThreadPool pool(1);
  for (const Case& c : all_cases(8)) {
    SCOPED_TRACE(c.name);
    const auto first = make(c.spec, 1), second = make(c.spec, 2);
    Rollout rollout(c.spec, 64, c.epsilon, 4);
    rollout.act(*first);
    const auto learn_nets = [&](Policy& policy, Nets nets) {
      learn(policy, pool, rollout.samples(), rollout.chosen(), nets, Mixture(64), GradientStep());
    };
    learn_nets(*first, Nets::kBoth);
    learn_nets(*first, c.spec.shared ? Nets::kBoth : Nets::kCritic);
    second->set_parameters(first->parameters());
    second->set_optimiser(first->optimiser());
    EXPECT_TRUE(same_bits(second->parameters(), first->parameters()));
    EXPECT_TRUE(same_bits(second->optimiser(), first->optimiser()));
    learn_nets(*first, Nets::kBoth);
    learn_nets(*second, Nets::kBoth);
    EXPECT_TRUE(same_bits(second->parameters(), first->parameters()));
    EXPECT_TRUE(same_bits(second->optimiser(), first->optimiser()));
    EXPECT_TRUE(std::ranges::is_sorted(first->optimiser(), {}, &Tensor::name));
  }
}

void move_state(const Policy& from, Policy& to) {
  to.set_parameters(from.parameters());
  to.set_optimiser(from.optimiser());
}

// The state is all there is: ten updates here, ten there and ten here again are thirty here.
TEST_P(PolicyTest, MovesToTorchAndBack) {
  const Kernel torch = every_kernel().back();
  if (is_torch()) GTEST_SKIP() << "this is libtorch";
  if (!missing(torch).empty()) GTEST_SKIP() << missing(torch);
  ThreadPool pool(1);
  for (const Case& c : all_cases(8)) {
    SCOPED_TRACE(c.name);
    const auto here = make(c.spec), there = make_on(torch, c.spec, 9), still = make(c.spec);
    const Tensors start = still->parameters();
    Rollout rollout(c.spec, 200, c.epsilon, 4);
    rollout.act(*here);
    for (int i = 0; i < 30; ++i) {
      if (i == 10) move_state(*here, *there);
      if (i == 20) move_state(*there, *here);
      update(i / 10 == 1 ? *there : *here, pool, rollout, i, 40);
      update(*still, pool, rollout, i, 40);
    }
    for (const Tensor& tensor : here->parameters()) {
      const double distance =
          distance_of_ways(find_tensor(start, tensor.name),
                           find_tensor(still->parameters(), tensor.name).data, tensor.data);
      EXPECT_LT(distance, way_tolerance(c.spec)) << tensor.name;
    }
    const Tensors state = still->optimiser();
    for (const Tensor& tensor : here->optimiser()) {
      if (!tensor.name.starts_with("step.")) continue;
      EXPECT_EQ(tensor.data, find_tensor(state, tensor.name).data) << tensor.name;
    }
  }
}

// ---- refusals -----------------------------------------------------------------------------------

TEST_P(PolicyTest, RefusesAGradientThatIsNotFinite) {
  const Case c = small_cases()[0];
  const auto policy = make(c.spec);
  Rollout rollout(c.spec, 900, c.epsilon, 4);
  rollout.act(*policy);
  ThreadPool pool(2);
  learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(900),
        GradientStep());
  const Tensors parameters = policy->parameters(), optimiser = policy->optimiser();
  const auto refusal = [&] {
    return error_text(ErrorCode::kNumeric, [&] {
      learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Slopes(0, 700, NAN),
            GradientStep());
    });
  };
  // Whichever the kernel keeps first.
  EXPECT_EQ(refusal(), is_torch() ? "the gradient of actor.0.bias is not finite"
                                  : "the gradient of actor.0.weight is not finite");
  EXPECT_TRUE(same_bits(policy->parameters(), parameters));
  EXPECT_TRUE(same_bits(policy->optimiser(), optimiser));
  // Nor does anything of it stay behind for the next update.
  const auto other = make(c.spec);
  move_state(*policy, *other);
  for (Policy* p : {policy.get(), other.get()}) {
    learn(*p, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Mixture(900), GradientStep());
  }
  EXPECT_TRUE(same_bits(policy->parameters(), other->parameters()));
}

// An observation that is not a number is seen even where the activation does not pass it on and
// the loss does not ask for it.
TEST_P(PolicyTest, RefusesAnObservationThatIsNotANumber) {
  ThreadPool pool(1);
  for (const size_t at : {size_t{0}, size_t{1}}) {
    const Case c = small_cases()[at];
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 100, c.epsilon, 4);
    rollout.act(*policy);
    const Tensors parameters = policy->parameters();
    const size_t number = 70 * static_cast<size_t>(c.spec.inputs) + 2;
    reinterpret_cast<float*>(rollout.obs().data())[number] = NAN;
    const std::string text = error_text(ErrorCode::kNumeric, [&] {
      learn(*policy, pool, rollout.samples(), rollout.chosen(), Nets::kBoth, Slopes(0.01F, -1, 0),
            GradientStep());
    });
    EXPECT_TRUE(text.ends_with("is not finite")) << text;
    EXPECT_TRUE(same_bits(policy->parameters(), parameters));
  }
}

TEST_P(PolicyTest, RefusesWhatItCannotDo) {
  const NetworkSpec shared = network(3, {4}, Activation::kTanh, true, ActionSpace::discrete(2));
  const auto policy = make(shared);
  Rollout rollout(shared, 8, 0, 4);
  rollout.act(*policy);
  ThreadPool pool(1);
  const Tensors before = policy->parameters();
  for (const Nets nets : {Nets::kActor, Nets::kCritic}) {
    const std::string text = error_text(ErrorCode::kUsage, [&] {
      learn(*policy, pool, rollout.samples(), rollout.chosen(), nets, Mixture(8), GradientStep());
    });
    EXPECT_TRUE(text.starts_with("actor and critic share layers")) << text;
  }
  Tensors tensors = policy->parameters();
  tensors[0].shape = {1, 1};
  const std::string text = error_text(ErrorCode::kData, [&] { policy->set_parameters(tensors); });
  EXPECT_NE(text.find(tensors[0].name), std::string::npos) << text;
  EXPECT_TRUE(same_bits(policy->parameters(), before));
}

TEST(TorchPolicy, SaysWhenThereIsNoCuda) {
  const std::string why = missing(every_kernel().back());
  if (!why.empty()) GTEST_SKIP() << why;
  const NetworkSpec spec = small_cases()[0].spec;
  PolicyOptions options;
  options.device = "cuda";
  try {
    EXPECT_TRUE(make_torch_policy(spec, options)->implementation().name.find("cuda") !=
                std::string::npos);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_TRUE(std::string(error.what()).find("no CUDA") != std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace flotilla::test
