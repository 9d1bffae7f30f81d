// A batch that is none of ours: whoever provides the face of VecEnv can be trained on.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "flotilla/algo/ppo.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/train/collector.h"

namespace flotilla::test {
namespace {

// Each env counts: it shows its number and its count, pays its count, and starts again at kLength.
// It has no slots, no generators and no types of env; all envs are stepped in wait().
class Counters final : public VecEnv {
 public:
  static constexpr int kLength = 3, kFirst = 10;
  using VecEnv::begin;

  Counters(int num_envs, const ArenaLayout& layout)
      : counts_(static_cast<size_t>(num_envs)), arena_(layout, Arena::Backing::kPrivate) {}

  static EnvSpec make_spec() {
    EnvSpec spec;
    spec.name = "counters";
    spec.obs = ObsSpace::float32({2}, 0, 100);
    spec.action = ActionSpace::discrete(2);
    return spec;
  }

  const EnvSpec& spec() const override { return spec_; }
  int num_envs() const override { return static_cast<int>(counts_.size()); }
  int first_env() const override { return kFirst; }
  int groups() const override { return 1; }
  Span group(int) const override { return {0, num_envs()}; }
  const Arena& arena() const override { return arena_; }

  void reset(uint64_t, const StepView& out) override {
    std::ranges::fill(counts_, 0);
    observe(out);
  }
  void begin(int, ActionView actions, const StepView& out, Actor actor) override {
    if (actor.act != nullptr) actor.act(actor.context, 0, group(0));
    actions_ = actions;
    out_ = out;
  }
  void wait(int) override {
    for (size_t i = 0; i < counts_.size(); ++i) {
      ++counts_[i];
      const bool ends = counts_[i] == kLength;
      out_.reward[i] = static_cast<float>(counts_[i]);
      out_.terminated[i] = 0;
      out_.truncated[i] = ends ? 1 : 0;
      out_.valid[i] = 1;
      if (!ends) continue;
      show(i, out_.final_obs);
      out_.episode_return[i] = 1 + 2 + 3;
      out_.episode_length[i] = kLength;
      counts_[i] = 0;
    }
    observe(out_);
  }
  void save(Writer&) const override {}
  void load(Reader&, const StepView& out) override { observe(out); }
  void observe(const StepView& out) const override {
    for (size_t i = 0; i < counts_.size(); ++i) show(i, out.obs);
  }

 private:
  void show(size_t env, std::byte* rows) const {
    float* row = reinterpret_cast<float*>(rows) + 2 * env;
    row[0] = static_cast<float>(env);
    row[1] = static_cast<float>(counts_[env]);
  }

  const EnvSpec spec_ = make_spec();
  std::vector<int> counts_;
  const Arena arena_;
  ActionView actions_;
  StepView out_;
};

NetworkSpec network() {
  NetworkSpec spec;
  spec.inputs = 2;
  spec.hidden = {8};
  spec.action = ActionSpace::discrete(2);
  return spec;
}

TEST(OwnVecEnv, IsCollectedFromAndLearntFrom) {
  constexpr int kEnvs = 5, kHorizon = 7;
  ArenaLayout layout;
  Rollout rollout(layout, Counters::make_spec(), kEnvs, kHorizon);
  Counters vec(kEnvs, layout);
  rollout.attach(vec.arena());
  const auto policy = make_fused_policy(network(), 1, 4);
  Collector collector(vec, rollout, *policy, {}, 4);
  collector.reset(4);
  collector.collect(0);
  const auto* obs = reinterpret_cast<const float*>(rollout.obs);
  for (int t = 0; t <= kHorizon; ++t) {
    for (int i = 0; i < kEnvs; ++i) {
      const size_t row = rollout.row(t, i);
      EXPECT_EQ(obs[2 * row], static_cast<float>(i));
      EXPECT_EQ(obs[2 * row + 1], static_cast<float>(t % Counters::kLength));
      if (t == kHorizon) continue;
      EXPECT_EQ(rollout.reward[row], static_cast<float>(t % Counters::kLength + 1));
    }
  }
  EXPECT_EQ(rollout.take_episodes().size(), size_t{kEnvs * (kHorizon / Counters::kLength)});

  // The policy draws for the envs by their numbers.
  std::vector<int32_t> expected(kEnvs);
  auto* actions = reinterpret_cast<std::byte*>(expected.data());
  policy->act(0,
              {.count = kEnvs,
               .first_env = Counters::kFirst,
               .obs = rollout.obs,
               .action = actions,
               .latent = actions},
              {.seed = 4, .step = 0});
  const auto* drawn = reinterpret_cast<const int32_t*>(rollout.actions(0));
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), drawn));

  const std::string before = sha256(policy->parameters());
  ThreadPool pool(1);
  PpoOptions options;
  options.minibatches = 1;
  options.lr.first = 1e-3;
  Ppo ppo(*policy, pool, options, 4);
  const Update update = ppo.learn(rollout.batch({}, rollout.reward, 0), {});
  EXPECT_EQ(update.first_ratio_error, 0);
  EXPECT_NE(sha256(policy->parameters()), before);
}

}  // namespace
}  // namespace flotilla::test
