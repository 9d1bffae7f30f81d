// A policy of a user's own, softmax of a linear function: what it takes to bring one, and that it
// is trained, saved and resumed like those of the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

// The parameters: a row of weights for every choice, and one for the value, each with its bias.
struct Linear {
  size_t inputs = 0, choices = 0;
  std::vector<float> weights;

  explicit Linear(const NetworkSpec& spec)
      : inputs(static_cast<size_t>(spec.inputs)),
        choices(static_cast<size_t>(spec.action.choices.at(0))),
        weights((choices + 1) * (inputs + 1)) {}

  float row(size_t number, const float* obs) const {
    const float* w = weights.data() + number * (inputs + 1);
    return std::inner_product(obs, obs + inputs, w, w[inputs]);
  }
  float value(const float* obs) const { return row(choices, obs); }
  std::vector<float> probabilities(const float* obs) const {
    std::vector<float> p(choices);
    for (size_t o = 0; o < choices; ++o) p[o] = row(o, obs);
    const float top = *std::ranges::max_element(p);
    for (float& each : p) each = std::exp(each - top);
    const float sum = std::accumulate(p.begin(), p.end(), 0.0F);
    for (float& each : p) each /= sum;
    return p;
  }

  void act(const ActRows& rows, const Draw& draw) const {
    for (int i = 0; i < rows.count; ++i) {
      const auto at = static_cast<size_t>(i);
      const float* obs = reinterpret_cast<const float*>(rows.obs) + at * inputs;
      const std::vector<float> p = probabilities(obs);
      // By the number of the env, so that the result does not depend on who acts.
      const auto env = static_cast<uint64_t>(rows.first_env + i);
      Rng rng(draw.seed, stream_of(Purpose::kPolicy, draw.step), 2 * env);
      auto left = static_cast<float>(rng.uniform());
      size_t choice = 0;
      while (choice + 1 < choices && left >= p[choice]) left -= p[choice++];
      if (draw.greedy) choice = static_cast<size_t>(std::ranges::max_element(p) - p.begin());
      reinterpret_cast<int32_t*>(rows.action)[i] = static_cast<int32_t>(choice);
      if (rows.latent != nullptr) {
        reinterpret_cast<int32_t*>(rows.latent)[i] = static_cast<int32_t>(choice);
      }
      if (rows.logprob != nullptr) rows.logprob[i] = std::log(p[choice]);
      if (rows.value != nullptr) rows.value[i] = value(obs);
    }
  }
  void values(const std::byte* obs, int count, float* out) const {
    const auto* rows = reinterpret_cast<const float*>(obs);
    for (int i = 0; i < count; ++i) out[i] = value(rows + static_cast<size_t>(i) * inputs);
  }
};

Implementation linear_implementation() { return {.kind = "linear", .name = "linear softmax"}; }

class LinearSnapshot final : public ActingPolicy {
 public:
  LinearSnapshot(const NetworkSpec& spec, const Linear& linear)
      : ActingPolicy(spec), linear_(linear) {}
  Implementation implementation() const override { return linear_implementation(); }
  void act(int, const ActRows& rows, const Draw& draw) const override { linear_.act(rows, draw); }
  void value(int, const std::byte* obs, int count, float* out) const override {
    linear_.values(obs, count, out);
  }

 private:
  const Linear linear_;
};

class LinearPolicy final : public Policy {
 public:
  explicit LinearPolicy(const NetworkSpec& spec)
      : Policy(spec),
        linear_(spec),
        gradient_(linear_.weights.size()),
        m_(gradient_.size()),
        v_(gradient_.size()) {}

  Implementation implementation() const override { return linear_implementation(); }
  void act(int, const ActRows& rows, const Draw& draw) const override {
    ++calls;
    acted += rows.count;
    linear_.act(rows, draw);
  }
  mutable std::atomic<int> calls = 0, acted = 0;  // of act(), and its rows
  void value(int, const std::byte* obs, int count, float* out) const override {
    linear_.values(obs, count, out);
  }
  std::shared_ptr<const ActingPolicy> snapshot() const override {
    return std::make_shared<LinearSnapshot>(spec_, linear_);
  }

  void evaluate(ThreadPool&, const Samples& samples, std::span<const int32_t> chosen,
                const RowTerms& out) override {
    for (size_t i = 0; i < chosen.size(); ++i) {
      const Terms terms = terms_of(samples, chosen[i]);
      if (out.logprob != nullptr) out.logprob[i] = terms.logprob;
      if (out.entropy != nullptr) out.entropy[i] = terms.entropy;
      if (out.value != nullptr) out.value[i] = terms.value;
    }
  }

  LossSums gradient(ThreadPool&, const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                    const Objective& objective) override {
    EXPECT_EQ(nets, Nets::kBoth);
    EXPECT_EQ(objective.sequence(), 1);
    std::ranges::fill(gradient_, 0.0F);
    LossSums sums;
    for (size_t first = 0; first < chosen.size(); first += Objective::kMaxRows) {
      const size_t left = chosen.size() - first;
      add_gradient(samples, chosen.subspan(first, std::min<size_t>(left, Objective::kMaxRows)),
                   objective, sums.of);
    }
    return sums;
  }
  GradientView gradient_view() override { return {gradient_.data(), gradient_.size()}; }

  double apply(ThreadPool&, Nets, const GradientStep& step) override {
    double squares = 0;
    for (const float g : gradient_) squares += static_cast<double>(g) * static_cast<double>(g);
    const double norm = std::sqrt(squares);
    const double scale =
        norm > step.max_grad_norm && step.max_grad_norm > 0 ? step.max_grad_norm / norm : 1;
    const Adam& adam = std::get<Adam>(step.rule);
    ++steps_;
    const double rest1 = 1 - std::pow(adam.beta1, steps_), rest2 = 1 - std::pow(adam.beta2, steps_);
    for (size_t i = 0; i < gradient_.size(); ++i) {
      const double g = static_cast<double>(gradient_[i]) * scale;
      const double m = adam.beta1 * static_cast<double>(m_[i]) + (1 - adam.beta1) * g;
      const double v = adam.beta2 * static_cast<double>(v_[i]) + (1 - adam.beta2) * g * g;
      m_[i] = static_cast<float>(m);
      v_[i] = static_cast<float>(v);
      linear_.weights[i] -=
          static_cast<float>(step.lr * m / rest1 / (std::sqrt(v / rest2) + adam.epsilon));
    }
    ++version_;
    return norm;
  }

  Tensors parameters() const override { return {tensor("linear.weights", linear_.weights)}; }
  void set_parameters(const Tensors& tensors) override {
    require_same_shapes(parameters(), tensors);
    linear_.weights = tensors[0].data;
    ++version_;
  }
  Tensors optimiser() const override {
    return {tensor("m.linear", m_), tensor("steps", {static_cast<float>(steps_)}),
            tensor("v.linear", v_)};
  }
  void set_optimiser(const Tensors& tensors) override {
    require_same_shapes(optimiser(), tensors);
    m_ = tensors[0].data;
    steps_ = static_cast<int>(tensors[1].data[0]);
    v_ = tensors[2].data;
  }

 private:
  struct Terms {
    const float* obs = nullptr;
    size_t choice = 0;
    std::vector<float> p;
    float logprob = 0, entropy = 0, value = 0;
  };

  static Tensor tensor(const char* name, const std::vector<float>& values) {
    return {name, {static_cast<int>(values.size())}, values};
  }

  Terms terms_of(const Samples& samples, int32_t row) const {
    const auto at = static_cast<size_t>(row);
    Terms terms;
    terms.obs = reinterpret_cast<const float*>(samples.obs) + at * linear_.inputs;
    terms.choice = static_cast<size_t>(reinterpret_cast<const int32_t*>(samples.latent)[at]);
    terms.p = linear_.probabilities(terms.obs);
    terms.logprob = std::log(terms.p[terms.choice]);
    for (const float p : terms.p) terms.entropy -= p * std::log(p);
    terms.value = linear_.value(terms.obs);
    return terms;
  }

  void add_gradient(const Samples& samples, std::span<const int32_t> chosen,
                    const Objective& objective, double* sums) {
    const size_t rows = chosen.size();
    std::vector<Terms> terms;
    std::vector<float> logprob, entropy, value, d_logprob(rows), d_entropy(rows), d_value(rows);
    for (const int32_t row : chosen) {
      terms.push_back(terms_of(samples, row));
      logprob.push_back(terms.back().logprob);
      entropy.push_back(terms.back().entropy);
      value.push_back(terms.back().value);
    }
    objective.differentiate({.count = static_cast<int>(rows),
                             .sample = chosen.data(),
                             .logprob = logprob.data(),
                             .entropy = entropy.data(),
                             .value = value.data(),
                             .d_logprob = d_logprob.data(),
                             .d_entropy = d_entropy.data(),
                             .d_value = d_value.data()},
                            sums);
    for (size_t i = 0; i < rows; ++i) {
      const Terms& each = terms[i];
      for (size_t o = 0; o < linear_.choices; ++o) {
        const float p = each.p[o], taken = o == each.choice ? 1.0F : 0.0F;
        add_row(o, each.obs,
                d_logprob[i] * (taken - p) - d_entropy[i] * p * (std::log(p) + each.entropy));
      }
      add_row(linear_.choices, each.obs, d_value[i]);
    }
  }

  void add_row(size_t number, const float* obs, float slope) {
    float* g = gradient_.data() + number * (linear_.inputs + 1);
    for (size_t i = 0; i < linear_.inputs; ++i) g[i] += slope * obs[i];
    g[linear_.inputs] += slope;
  }

  Linear linear_;
  std::vector<float> gradient_, m_, v_;
  int steps_ = 0;
};

const PolicyFactory kFactory = [](const NetworkSpec& spec, const PolicyOptions&) {
  return std::make_unique<LinearPolicy>(spec);
};

RunConfig own_run(const std::vector<std::string>& overrides) {
  std::vector<std::string> all = {"num_envs=16", "horizon=64",  "backend=threads",
                                  "threads=2",   "ppo.lr=0.02", "ppo.minibatches=4"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  const Config config = load_run_config(registry(), "cartpole", true, all);
  RunConfig run(env_of(registry(), config), config);
  run.policy_factory = kFactory;
  return run;
}

class OwnPolicy : public testing::Test {
 protected:
  ~OwnPolicy() override { std::filesystem::remove_all(path_); }
  const std::string path_ =
      std::filesystem::temp_directory_path() / ("flotilla-own-policy-" + std::to_string(getpid()));
};

TEST_F(OwnPolicy, Learns) {
  Trainer trainer(own_run({"steps=60000"}));
  EXPECT_EQ(trainer.policy().implementation().kind, "linear");
  trainer.train();
  EXPECT_GT(trainer.progress().return_mean, 100);
  const std::vector<float> right = {0, 0, 0.15F, 0.5F}, left = {0, 0, -0.15F, -0.5F};
  EXPECT_EQ(trainer.policy().predict(right).discrete(), 1);
  EXPECT_EQ(trainer.policy().predict(left).discrete(), 0);
}

TEST_F(OwnPolicy, ActsForAllEnvsInOneCall) {
  Trainer trainer(own_run({"backend=serial", "threads=1"}));
  trainer.iterate();
  const auto& policy = dynamic_cast<const LinearPolicy&>(trainer.policy());
  EXPECT_EQ(policy.acted, 16 * 64);
  EXPECT_EQ(policy.calls, 64) << "steps of a rollout";
}

TEST_F(OwnPolicy, IsSavedAndResumed) {
  Trainer whole(own_run({"steps=8192"}));
  whole.train();
  {
    flotilla::Run run(own_run({"steps=4096"}), path_);
    run.train();
    const std::string summary = run.finish();
    EXPECT_NE(summary.find(R"("policy": "linear")"), summary.npos) << summary;
  }
  const auto longer = [](Config& config) { config.set("steps", "8192"); };
  const auto resumed = flotilla::Run::resume(registry(), path_, longer, std::nullopt,
                                             built_in_algorithms(), kFactory);
  resumed->train();
  resumed->finish();  // and with it the last checkpoint is written
  EXPECT_EQ(resumed->trainer().params_sha256(), whole.params_sha256());

  const RunConfig run = own_run({});
  const PolicyFile file = find_policy(path_, "last");
  const auto policy = make_policy(file, run.spec, {.factory = kFactory});
  EXPECT_EQ(sha256(policy->parameters()), whole.params_sha256());
  // Without the factory it is no policy of ours.
  EXPECT_TRUE(error_text(ErrorCode::kData, [&] {
                make_policy(file, run.spec, {});
              }).ends_with(": no tensor 'actor.0.bias'"));
}

TEST_F(OwnPolicy, AFactoryMustMakeOne) {
  RunConfig run = own_run({});
  run.policy_factory = [](const NetworkSpec&, const PolicyOptions&) { return nullptr; };
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { Trainer trainer(run); }),
            "the policy factory made no policy");
}

}  // namespace
}  // namespace flotilla::test
