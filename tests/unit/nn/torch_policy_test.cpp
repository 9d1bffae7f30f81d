// The libtorch policy against its slow twin. Where the plugin is missing, all of this skips.
// FLOTILLA_TEST_DEVICE=cuda runs it there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <numeric>

#include "nn/make_policy.h"
#include "support/error_text.h"
#include "support/slow_policy.h"

namespace flotilla::test {
namespace {

// A loss with slopes that differ from row to row and depend on all it sees.
class Mixture : public Objective {
 public:
  explicit Mixture(int rows) : scale_(1.0F / static_cast<float>(rows)) {}

  void differentiate(const Rows& rows, double* sums) const override {
    EXPECT_LE(rows.count, kMaxRows);
    for (int i = 0; i < rows.count; ++i) {
      const auto phase = static_cast<float>(rows.sample[i] % 7);
      rows.d_logprob[i] = scale_ * (0.3F * phase - 1 + 0.1F * std::tanh(rows.logprob[i]));
      rows.d_entropy[i] = scale_ * (0.2F - 0.05F * phase);
      rows.d_value[i] = scale_ * (rows.value[i] - phase);
      sums[0] += static_cast<double>(rows.logprob[i]);
      sums[1] += static_cast<double>(rows.entropy[i]);
      sums[2] += static_cast<double>(rows.value[i]);
      sums[7] += 1;
    }
  }

 private:
  float scale_;
};

// One row of the loss is not a number.
class Poison : public Objective {
 public:
  explicit Poison(int32_t sample) : sample_(sample) {}
  void differentiate(const Rows& rows, double*) const override {
    for (int i = 0; i < rows.count; ++i) {
      rows.d_logprob[i] = rows.sample[i] == sample_ ? NAN : 0;
      rows.d_entropy[i] = rows.d_value[i] = 0;
    }
  }

 private:
  int32_t sample_;
};

struct Case {
  std::string name;
  NetworkSpec spec;
  float epsilon = 0;
};

NetworkSpec network(int inputs, std::vector<int> hidden, Activation activation, bool shared,
                    ActionSpace action) {
  NetworkSpec spec;
  spec.inputs = inputs;
  spec.hidden = std::move(hidden);
  spec.activation = activation;
  spec.shared = shared;
  spec.init = Init::kDefault;
  spec.action = std::move(action);
  return spec;
}

std::vector<Case> cases() {
  constexpr auto kTanh = Activation::kTanh, kRelu = Activation::kRelu;
  std::vector<Case> all;
  const auto add = [&](const char* name, NetworkSpec spec, float epsilon = 0) -> NetworkSpec& {
    return all.emplace_back(name, std::move(spec), epsilon).spec;
  };
  add("discrete, tanh", network(4, {16, 16}, kTanh, false, ActionSpace::discrete(3)));
  add("discrete, relu, shared", network(7, {24, 9}, kRelu, true, ActionSpace::discrete(5)));
  add("masked", network(5, {11}, kTanh, false, ActionSpace::discrete(6))).has_mask = true;
  add("masked, epsilon", network(5, {13, 8}, kRelu, true, ActionSpace::discrete(6)), 0.2F)
      .has_mask = true;
  add("epsilon", network(3, {10}, kTanh, false, ActionSpace::discrete(4)), 0.1F);
  add("many", network(6, {12, 7, 5}, kTanh, true, ActionSpace::multi_discrete({3, 2, 4})));
  add("many, masked, epsilon",
      network(6, {12}, kRelu, false, ActionSpace::multi_discrete({3, 2, 4})), 0.05F)
      .has_mask = true;
  add("box", network(3, {16, 16}, kTanh, false, ActionSpace::box({-2, 0}, {2, 5}))).log_std = -0.5;
  NetworkSpec& squashed = add("box, squashed, shared",
                              network(8, {15}, kRelu, true, ActionSpace::box({-1, -3}, {1, 3})));
  squashed.squash = true;
  squashed.log_std = 0.3;
  NetworkSpec& bytes =
      add("bytes, normalised", network(9, {10}, kTanh, false, ActionSpace::discrete(3)));
  bytes.obs_type = ObsType::kUint8;
  bytes.normalise_obs = true;
  add("no hidden layer", network(4, {}, kTanh, true, ActionSpace::discrete(2)));
  return all;
}

// The rows of a rollout, with the actions that a policy took on them.
class Rollout {
 public:
  Rollout(const NetworkSpec& spec, int rows, float epsilon, uint64_t seed)
      : spec_(spec), rows_(rows), epsilon_(epsilon) {
    Rng rng(seed, stream_of(Purpose::kTest, 1));
    const bool bytes = spec.obs_type == ObsType::kUint8;
    const size_t numbers = size() * static_cast<size_t>(spec.inputs);
    obs_.resize(numbers * (bytes ? 1 : sizeof(float)));
    for (size_t i = 0; i < numbers; ++i) {
      if (bytes) {
        obs_[i] = static_cast<std::byte>(rng.below(256));
      } else {
        reinterpret_cast<float*>(obs_.data())[i] = static_cast<float>(rng.normal());
      }
    }
    if (spec.has_mask) draw_mask(rng);
    action_.resize(size() * spec.action.dims() * sizeof(float));
    latent_.resize(action_.size());
    logprob_.resize(size());
    value_.resize(size());
    chosen_.resize(size());
    std::iota(chosen_.begin(), chosen_.end(), 0);
  }

  ActRows act_rows(int first, int count, int first_env) {
    const auto row = static_cast<size_t>(first);
    const size_t action_bytes = spec_.action.dims() * sizeof(float);
    return {.count = count,
            .first_env = first_env,
            .obs = obs_.data() + row * (obs_.size() / size()),
            .mask = mask_.empty() ? nullptr : mask_.data() + row * spec_.action.mask_size(),
            .action = action_.data() + row * action_bytes,
            .latent = latent_.data() + row * action_bytes,
            .logprob = logprob_.data() + row,
            .value = value_.data() + row};
  }
  void act(const Policy& policy, bool greedy = false) {
    policy.act(0, act_rows(0, rows_, 0), draw(greedy));
  }
  Draw draw(bool greedy = false) const {
    return {.seed = 5, .step = 17, .epsilon = epsilon_, .greedy = greedy};
  }
  Samples samples() const {
    return {.obs = obs_.data(),
            .mask = mask_.empty() ? nullptr : mask_.data(),
            .latent = latent_.data(),
            .epsilon = epsilon_};
  }

  size_t size() const { return static_cast<size_t>(rows_); }
  int rows() const { return rows_; }
  const std::vector<std::byte>& obs() const { return obs_; }
  const int32_t* choice(size_t row) const {
    return reinterpret_cast<const int32_t*>(latent_.data()) + row * spec_.action.dims();
  }
  const float* sample(size_t row) const {
    return reinterpret_cast<const float*>(latent_.data()) + row * spec_.action.dims();
  }
  const float* action(size_t row) const {
    return reinterpret_cast<const float*>(action_.data()) + row * spec_.action.dims();
  }
  const std::vector<std::byte>& actions() const { return action_; }
  const std::vector<float>& logprob() const { return logprob_; }
  const std::vector<float>& value() const { return value_; }
  std::span<const int32_t> chosen() const { return chosen_; }

 private:
  // Some choice of every dimension stays open.
  void draw_mask(Rng& rng) {
    mask_.assign(size() * spec_.action.mask_size(), 0);
    size_t first = 0;
    for (size_t row = 0; row < size(); ++row) {
      for (const int choices : spec_.action.choices) {
        const auto count = static_cast<uint32_t>(choices);
        for (size_t c = 0; c < count; ++c) mask_[first + c] = rng.chance(0.5);
        mask_[first + rng.below(count)] = 1;
        first += count;
      }
    }
  }

  NetworkSpec spec_;
  int rows_;
  float epsilon_;
  std::vector<std::byte> obs_, action_, latent_;
  std::vector<uint8_t> mask_;
  std::vector<float> logprob_, value_;
  std::vector<int32_t> chosen_;
};

class TorchPolicy : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    try {
      make(cases()[0].spec);
    } catch (const Error& error) {
      missing_ = error.what();
    }
  }
  void SetUp() override {
    if (!missing_.empty()) GTEST_SKIP() << missing_;
  }

  static std::unique_ptr<Policy> make(const NetworkSpec& spec, uint64_t seed = 3) {
    PolicyOptions options;
    options.kind = "torch";
    options.seed = seed;
    const char* device = std::getenv("FLOTILLA_TEST_DEVICE");
    if (device != nullptr) options.device = device;
    auto policy = make_torch_policy(spec, options);
    if (spec.normalise_obs) {
      std::vector<uint8_t> rows(32 * static_cast<size_t>(spec.inputs));
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(100 + i * 37 % 50);
      policy->obs_normaliser().update(rows.data(), 32, nullptr);
    }
    return policy;
  }
  static SlowPolicy twin_of(const Policy& policy) {
    SlowPolicy twin(policy.spec(), policy.parameters());
    twin.set_normaliser(policy.obs_normaliser());
    return twin;
  }

  // Steps whose first moments are the gradient itself.
  static AdamStep plain() { return {.lr = 1e-3, .beta1 = 0, .max_grad_norm = 0}; }

  static inline std::string missing_;
};

void expect_near(const Tensors& tensors, const std::string& prefix, const SlowPolicy::Named& named,
                 double tolerance) {
  for (const auto& [name, values] : named) {
    const Tensor& tensor = find_tensor(tensors, prefix + name);
    ASSERT_EQ(tensor.elements(), values.size());
    double largest = 0;
    for (const double x : values) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(tensor.data[i], values[i], tolerance * std::max(largest, 1e-3))
          << prefix << name << "[" << i << "]";
    }
  }
}

bool same_bits(const Tensors& a, const Tensors& b) { return sha256(a) == sha256(b); }

TEST(SlowPolicy, GradientIsThatOfFiniteDifferences) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    SlowPolicy twin(c.spec, initial_parameters(c.spec, 8));
    Rollout rollout(c.spec, 3, c.epsilon, 2);
    ActRows rows = rollout.act_rows(0, 3, 0);
    for (size_t row = 0; row < 3; ++row) {  // any sample will do; a choice must be open
      for (size_t d = 0, first = 0; d < c.spec.action.dims(); ++d) {
        const size_t at = row * c.spec.action.dims() + d;
        if (c.spec.action.is_box()) {
          reinterpret_cast<float*>(rows.latent)[at] = 0.4F * static_cast<float>(at) - 0.7F;
          continue;
        }
        const uint8_t* mask =
            rows.mask == nullptr ? nullptr : rows.mask + row * c.spec.action.mask_size() + first;
        int32_t open = 0;
        while (mask != nullptr && mask[open] == 0) ++open;
        reinterpret_cast<int32_t*>(rows.latent)[at] = open;
        first += static_cast<size_t>(c.spec.action.choices[d]);
      }
    }
    const SlowPolicy::Seen weights{0.7, -0.4, 1.3};
    const auto loss = [&] {
      double sum = 0;
      for (int32_t i = 0; i < 3; ++i) {
        const SlowPolicy::Seen seen = twin.see(twin.row(rollout.samples(), i));
        sum += weights.logprob * seen.logprob + weights.entropy * seen.entropy +
               weights.value * seen.value;
      }
      return sum;
    };
    SlowPolicy::Named gradient;
    for (const auto& [name, values] : twin.parameters) gradient[name].assign(values.size(), 0.0);
    for (int32_t i = 0; i < 3; ++i) {
      twin.add_gradient(twin.row(rollout.samples(), i), weights, Part::kAll, gradient);
    }
    for (auto& [name, values] : twin.parameters) {
      for (size_t i = 0; i < values.size(); ++i) {
        const double at = values[i], step = 1e-6;
        values[i] = at + step;
        const double above = loss();
        values[i] = at - step;
        const double below = loss();
        values[i] = at;
        const double slope = (above - below) / (2 * step);
        ASSERT_NEAR(gradient[name][i], slope, 1e-6 * std::max(1.0, std::abs(slope)))
            << name << "[" << i << "]";
      }
    }
  }
}

TEST_F(TorchPolicy, StartsFromTheCommonInitialParameters) {
  for (const Case& c : cases()) {
    const auto policy = make(c.spec, 12);
    EXPECT_TRUE(same_bits(policy->parameters(), initial_parameters(c.spec, 12))) << c.name;
  }
  EXPECT_TRUE(make(cases()[0].spec)->kernel().starts_with("torch "));
}

TEST_F(TorchPolicy, ActsAsItsTwin) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 300, c.epsilon, 4);
    rollout.act(*policy);
    const size_t dims = c.spec.action.dims();
    int differing = 0;
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      const SlowPolicy::Seen seen = twin.see(row);
      ASSERT_NEAR(rollout.logprob()[i], seen.logprob, 2e-5) << i;
      ASSERT_NEAR(rollout.value()[i], seen.value, 2e-5) << i;
      if (c.spec.action.is_box()) {
        const SlowPolicy::Vector mean = twin.actor_outputs(row.obs);
        for (size_t d = 0; d < dims; ++d) {
          const double deviation = std::exp(c.spec.log_std);
          const double sample = mean[d] + deviation * SlowPolicy::normal(5, 17, i * dims + d);
          ASSERT_NEAR(rollout.sample(i)[d], sample, 1e-5);
          ASSERT_NEAR(rollout.action(i)[d], twin.box_action(sample, d), 1e-5);
        }
        continue;
      }
      const SlowPolicy::Vector p = twin.probabilities(row);
      for (size_t d = 0, first = 0; d < dims; ++d) {
        const auto count = static_cast<size_t>(c.spec.action.choices[d]);
        const int32_t choice = rollout.choice(i)[d];
        ASSERT_GT(p[first + static_cast<size_t>(choice)], 0) << "a closed choice";
        const double u = SlowPolicy::uniform(5, 17, i * dims + d);
        differing += choice != SlowPolicy::choose({p.data() + first, count}, u) ? 1 : 0;
        first += count;
      }
    }
    EXPECT_LE(differing, 1) << "a draw may fall between two roundings of a probability";
  }
}

TEST_F(TorchPolicy, GreedyTakesTheLikeliest) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 100, c.epsilon, 6);
    rollout.act(*policy, true);
    for (size_t i = 0; i < rollout.size(); ++i) {
      const auto row = twin.row(rollout.samples(), static_cast<int32_t>(i));
      if (c.spec.action.is_box()) {
        const SlowPolicy::Vector mean = twin.actor_outputs(row.obs);
        for (size_t d = 0; d < mean.size(); ++d) {
          ASSERT_NEAR(rollout.sample(i)[d], mean[d], 1e-5);
        }
        continue;
      }
      const SlowPolicy::Vector p = twin.probabilities(row);
      auto first = p.begin();
      for (size_t d = 0; d < c.spec.action.dims(); ++d) {
        const auto end = first + c.spec.action.choices[d];
        EXPECT_NEAR(first[rollout.choice(i)[d]], *std::max_element(first, end), 1e-6);
        first = end;
      }
    }
  }
}

TEST_F(TorchPolicy, TiesGoToTheLowestOpenChoice) {
  NetworkSpec spec = network(2, {4}, Activation::kTanh, false, ActionSpace::discrete(4));
  spec.has_mask = true;
  const auto policy = make(spec);
  policy->set_parameters(make_parameters(spec));  // zeros: all choices are alike
  Rollout rollout(spec, 1, 0, 1);
  ActRows rows = rollout.act_rows(0, 1, 0);
  const uint8_t mask[] = {0, 1, 1, 0};
  rows.mask = mask;
  policy->act(0, rows, rollout.draw(true));
  EXPECT_EQ(rollout.choice(0)[0], 1);
  EXPECT_FLOAT_EQ(rollout.logprob()[0], -std::log(2.0F));
}

TEST_F(TorchPolicy, ClosedChoicesAreNeverDrawn) {
  NetworkSpec spec = network(2, {4}, Activation::kTanh, false, ActionSpace::discrete(5));
  spec.has_mask = true;
  const auto policy = make(spec);
  for (const float epsilon : {0.0F, 1.0F}) {
    Rollout rollout(spec, 5000, epsilon, 9);
    rollout.act(*policy);
    for (size_t i = 0; i < rollout.size(); ++i) {
      const int32_t choice = rollout.choice(i)[0];
      ASSERT_EQ(rollout.samples().mask[i * 5 + static_cast<size_t>(choice)], 1) << i;
      ASSERT_TRUE(std::isfinite(rollout.logprob()[i]));
    }
  }
}

TEST_F(TorchPolicy, ARowDoesNotDependOnTheRowsAroundIt) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout whole(c.spec, 200, c.epsilon, 4), parts(c.spec, 200, c.epsilon, 4);
    whole.act(*policy);
    for (int first = 0, count = 1; first < 200; first += count++) {
      policy->act(0, parts.act_rows(first, std::min(count, 200 - first), first), parts.draw());
    }
    EXPECT_EQ(parts.actions(), whole.actions());
    EXPECT_EQ(parts.logprob(), whole.logprob());
    EXPECT_EQ(parts.value(), whole.value());
    std::vector<float> values(200);
    policy->value(0, whole.obs().data(), 200, values.data());
    EXPECT_EQ(values, whole.value());
  }
}

TEST_F(TorchPolicy, LearnsTheGradientOfItsTwin) {
  for (const Case& c : cases()) {
    for (const Part part : {Part::kAll, Part::kActor, Part::kCritic}) {
      if (c.spec.shared && part != Part::kAll) continue;
      SCOPED_TRACE(c.name + ", part " + std::to_string(static_cast<int>(part)));
      const auto policy = make(c.spec);
      SlowPolicy twin = twin_of(*policy);
      Rollout rollout(c.spec, 700, c.epsilon, 4);
      rollout.act(*policy);
      const Mixture objective(rollout.rows());
      ThreadPool pool(1);
      double sums[Objective::kSums] = {};
      const SlowPolicy::Named gradient =
          twin.gradient(rollout.samples(), rollout.chosen(), part, objective, sums);
      const Tensors before = policy->parameters();
      const LearnResult result =
          policy->learn(pool, rollout.samples(), rollout.chosen(), part, objective, plain());
      const LearnResult expected =
          twin.learn(rollout.samples(), rollout.chosen(), part, objective, plain());
      expect_near(policy->optimiser(), "m.", gradient, 2e-5);
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-5 * expected.grad_norm);
      for (int k = 0; k < Objective::kSums; ++k) {
        EXPECT_NEAR(result.sums[k], expected.sums[k], 1e-4 * std::abs(expected.sums[k]) + 1e-3);
      }
      for (const Tensor& tensor : policy->parameters()) {
        const bool trained = SlowPolicy::trains(part, tensor.name);
        EXPECT_EQ(tensor.data != find_tensor(before, tensor.name).data, trained) << tensor.name;
      }
    }
  }
}

TEST_F(TorchPolicy, StaysWithItsTwinOverManySteps) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    SlowPolicy twin = twin_of(*policy);
    Rollout rollout(c.spec, 160, c.epsilon, 4);
    rollout.act(*policy);
    ThreadPool pool(1);
    const Mixture objective(40);
    const AdamStep step{.lr = 1e-3, .max_grad_norm = 0.3};
    for (int t = 0; t < 12; ++t) {
      const Part part =
          c.spec.shared || t % 3 == 0 ? Part::kAll : (t % 3 == 1 ? Part::kActor : Part::kCritic);
      const auto rows = rollout.chosen().subspan(static_cast<size_t>(t % 4) * 40, 40);
      const LearnResult result =
          policy->learn(pool, rollout.samples(), rows, part, objective, step);
      const LearnResult expected = twin.learn(rollout.samples(), rows, part, objective, step);
      ASSERT_NEAR(result.grad_norm, expected.grad_norm, 1e-3 * expected.grad_norm);
    }
    // A step is about lr long whatever the gradient, so roundings near zero slopes show.
    expect_near(policy->parameters(), "", twin.parameters, 2e-4);
    expect_near(policy->optimiser(), "m.", twin.first_moments, 1e-3);
    expect_near(policy->optimiser(), "v.", twin.second_moments, 1e-3);
  }
}

// Sees nothing but the log-probabilities.
class Recorder : public Objective {
 public:
  explicit Recorder(size_t rows) : logprob(rows) {}
  void differentiate(const Rows& rows, double*) const override {
    for (int i = 0; i < rows.count; ++i) {
      logprob[static_cast<size_t>(rows.sample[i])] = rows.logprob[i];
      rows.d_logprob[i] = rows.d_entropy[i] = rows.d_value[i] = 0;
    }
  }
  mutable std::vector<float> logprob;
};

TEST_F(TorchPolicy, TheFirstRatioIsOne) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Rollout rollout(c.spec, 1300, c.epsilon, 4);
    rollout.act(*policy);
    const Recorder recorder(rollout.size());
    ThreadPool pool(2);
    policy->learn(pool, rollout.samples(), rollout.chosen(), Part::kAll, recorder, plain());
    for (size_t i = 0; i < rollout.size(); ++i) {
      const double ratio = std::exp(static_cast<double>(recorder.logprob[i]) -
                                    static_cast<double>(rollout.logprob()[i]));
      ASSERT_NEAR(ratio, 1, 1e-6) << i;
    }
  }
}

TEST_F(TorchPolicy, TheNumberOfThreadsChangesNothing) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    std::string parameters, optimiser;
    for (const int threads : {1, 2, 3}) {
      const auto policy = make(c.spec);
      Rollout rollout(c.spec, 2500, c.epsilon, 4);
      rollout.act(*policy);
      ThreadPool pool(threads);
      for (int t = 0; t < 3; ++t) {
        const LearnResult result = policy->learn(pool, rollout.samples(), rollout.chosen(),
                                                 Part::kAll, Mixture(2500), AdamStep());
        EXPECT_EQ(result.sums[7], 2500);
      }
      if (threads == 1) {
        parameters = sha256(policy->parameters());
        optimiser = sha256(policy->optimiser());
      }
      EXPECT_EQ(sha256(policy->parameters()), parameters) << threads;
      EXPECT_EQ(sha256(policy->optimiser()), optimiser) << threads;
    }
  }
}

TEST_F(TorchPolicy, PartsMayActAtOnce) {
  const Case c = cases()[6];
  const auto policy = make(c.spec);
  Rollout one(c.spec, 640, c.epsilon, 4), many(c.spec, 640, c.epsilon, 4);
  one.act(*policy);
  ThreadPool pool(3);
  pool.run([&](int part) {
    const Span rows = part_of({0, 640}, part, 3, 16);
    policy->act(part, many.act_rows(rows.begin, rows.size(), rows.begin), many.draw());
  });
  EXPECT_EQ(many.actions(), one.actions());
  EXPECT_EQ(many.logprob(), one.logprob());
  EXPECT_EQ(many.value(), one.value());
}

TEST_F(TorchPolicy, GoesOnFromSavedTensors) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const auto first = make(c.spec, 1), second = make(c.spec, 2);
    Rollout rollout(c.spec, 64, c.epsilon, 4);
    rollout.act(*first);
    ThreadPool pool(1);
    const auto learn = [&](Policy& policy, Part part) {
      policy.learn(pool, rollout.samples(), rollout.chosen(), part, Mixture(64), AdamStep());
    };
    learn(*first, Part::kAll);
    learn(*first, c.spec.shared ? Part::kAll : Part::kCritic);
    second->set_parameters(first->parameters());
    second->set_optimiser(first->optimiser());
    EXPECT_TRUE(same_bits(second->parameters(), first->parameters()));
    EXPECT_TRUE(same_bits(second->optimiser(), first->optimiser()));
    learn(*first, Part::kAll);
    learn(*second, Part::kAll);
    EXPECT_TRUE(same_bits(second->parameters(), first->parameters()));
    EXPECT_TRUE(same_bits(second->optimiser(), first->optimiser()));
    EXPECT_TRUE(std::ranges::is_sorted(first->optimiser(), {}, &Tensor::name));
  }
}

TEST_F(TorchPolicy, RefusesAGradientThatIsNotFinite) {
  const Case c = cases()[0];
  const auto policy = make(c.spec);
  Rollout rollout(c.spec, 900, c.epsilon, 4);
  rollout.act(*policy);
  ThreadPool pool(2);
  policy->learn(pool, rollout.samples(), rollout.chosen(), Part::kAll, Mixture(900), AdamStep());
  const Tensors parameters = policy->parameters(), optimiser = policy->optimiser();
  const std::string text = error_text(ErrorCode::kNumeric, [&] {
    policy->learn(pool, rollout.samples(), rollout.chosen(), Part::kAll, Poison(700), AdamStep());
  });
  EXPECT_EQ(text, "the gradient of actor.0.bias is not finite");
  EXPECT_TRUE(same_bits(policy->parameters(), parameters));
  EXPECT_TRUE(same_bits(policy->optimiser(), optimiser));
}

TEST_F(TorchPolicy, RefusesWhatItCannotDo) {
  const NetworkSpec shared = network(3, {4}, Activation::kTanh, true, ActionSpace::discrete(2));
  const auto policy = make(shared);
  Rollout rollout(shared, 8, 0, 4);
  rollout.act(*policy);
  ThreadPool pool(1);
  error_text(ErrorCode::kUsage, [&] {
    policy->learn(pool, rollout.samples(), rollout.chosen(), Part::kActor, Mixture(8), AdamStep());
  });
  Tensors tensors = policy->parameters();
  tensors[0].shape = {1, 1};
  error_text(ErrorCode::kData, [&] { policy->set_parameters(tensors); });
}

TEST_F(TorchPolicy, SaysWhenThereIsNoCuda) {
  const NetworkSpec spec = cases()[0].spec;
  PolicyOptions options;
  options.device = "cuda";
  try {
    EXPECT_TRUE(make_torch_policy(spec, options)->kernel().find("cuda") != std::string::npos);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_TRUE(std::string(error.what()).find("no CUDA") != std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace flotilla::test
