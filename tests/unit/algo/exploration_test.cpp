// The bonus for observations that were met seldom: what is counted, what is paid, what is kept.
#include "flotilla/algo/exploration.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

NetworkSpec network(int inputs) {
  NetworkSpec spec;
  spec.inputs = inputs;
  return spec;
}

ExplorationOptions options(double bonus, double resolution = 0) {
  return {.bonus = {Schedule::Shape::kLinear, bonus, 0}, .resolution = resolution, .cells = 997};
}

// Keeps the rewards it was given.
class Witness final : public Learner {
 public:
  explicit Witness(std::vector<float>& rewards) : rewards_(rewards) {}
  Update learn(const Batch& batch, const LearnProgress&) override {
    const Trajectory& t = batch.trajectory;
    rewards_.assign(t.reward, t.reward + t.rows());
    return {.metrics = {{"its/own", 1}}};
  }
  double gamma() const override { return 0.5; }
  double passes() const override { return 3; }
  void save(Writer& writer) const override { writer.u64("witness", 7); }
  void load(Reader& reader) override { EXPECT_EQ(reader.u64("witness"), 7u); }

 private:
  std::vector<float>& rewards_;
};

// Two envs and three steps of one number each.
struct Sample {
  std::array<float, 6> obs = {1, 1, 2, 1, -0.0F, 0};
  std::array<float, 6> reward = {0, 1, 2, 3, 4, 5};
  std::array<uint8_t, 6> valid = {1, 1, 1, 0, 1, 1};

  Batch batch() const {
    Batch batch;
    batch.trajectory = {.steps = 3, .envs = 2, .reward = reward.data(), .valid = valid.data()};
    batch.samples.obs = std::as_bytes(std::span(obs)).data();
    return batch;
  }
};

double metric(const Update& update, const std::string& name) {
  for (const auto& [each, value] : update.metrics) {
    if (each == name) return value;
  }
  return NAN;
}

TEST(Exploration, PaysForWhatWasMetSeldom) {
  const Sample sample;
  std::vector<float> rewards;
  const auto learner = with_exploration(std::make_unique<Witness>(rewards), network(1), options(2));
  EXPECT_EQ(learner->gamma(), 0.5);
  EXPECT_EQ(learner->passes(), 3);
  const Update first = learner->learn(sample.batch(), {.fraction = 0.5});
  const float half = std::sqrt(0.5F);
  // Row 3 is not valid; 0 and -0 are the same number.
  EXPECT_EQ(rewards, (std::vector<float>{half, 1 + half, 3, 3, 4 + half, 5 + half}));
  EXPECT_EQ(metric(first, "its/own"), 1);
  EXPECT_EQ(metric(first, "schedule/bonus"), 1);
  EXPECT_EQ(metric(first, "explore/cells"), 3);
  EXPECT_NEAR(metric(first, "explore/bonus_mean"), (1 + 4 * std::sqrt(0.5)) / 5, 1e-12);

  learner->learn(sample.batch(), {.fraction = 0});
  EXPECT_EQ(rewards[0], 1.0F);  // 2 / sqrt(4)
  EXPECT_EQ(rewards[2], 2 + static_cast<float>(2 / std::sqrt(2)));
  learner->learn(sample.batch(), {.fraction = 1});
  EXPECT_TRUE(std::ranges::equal(rewards, sample.reward));
}

TEST(Exploration, NumbersOfOneCellAreTheSame) {
  const ObservationCounts exact(network(2), options(1)), coarse(network(2), options(1, 0.5));
  const auto cell = [](const ObservationCounts& counts, std::array<float, 2> obs) {
    return counts.cell(std::as_bytes(std::span(obs)).data());
  };
  EXPECT_EQ(cell(coarse, {0.1F, 1.4F}), cell(coarse, {-0.2F, 1.6F}));
  EXPECT_NE(cell(coarse, {0.1F, 1.4F}), cell(coarse, {0.6F, 1.4F}));
  EXPECT_NE(cell(exact, {0.1F, 1.4F}), cell(exact, {0.2F, 1.4F}));
  EXPECT_NE(cell(exact, {1, 2}), cell(exact, {2, 1}));
}

TEST(Exploration, IsKept) {
  const Sample sample;
  std::vector<float> rewards, others;
  const auto make = [](std::vector<float>& seen) {
    return with_exploration(std::make_unique<Witness>(seen), network(1), options(2));
  };
  const auto whole = make(rewards), second = make(others);
  whole->learn(sample.batch(), {});
  Writer writer;
  whole->save(writer);
  Reader reader(writer.buffer(), "saved");
  second->load(reader);
  EXPECT_TRUE(reader.at_end());
  EXPECT_EQ(metric(second->learn(sample.batch(), {}), "explore/cells"), 3);
  whole->learn(sample.batch(), {});
  EXPECT_EQ(others, rewards);
}

TEST(Exploration, DamagedCountsAreRefused) {
  std::vector<float> rewards;
  const auto refusal = [&](std::vector<uint32_t> pairs) {
    Writer writer;
    writer.bytes("observation_counts", std::as_bytes(std::span(pairs)));
    Reader reader(writer.buffer(), "saved");
    ObservationCounts counts(network(1), options(1));
    return error_text(ErrorCode::kData, [&] { counts.load(reader); });
  };
  for (const std::vector<uint32_t>& pairs :
       std::vector<std::vector<uint32_t>>{{997, 1}, {3, 0}, {3, 1, 3, 1}, {3}}) {
    EXPECT_EQ(refusal(pairs), "counts of observations are damaged");
  }
}

}  // namespace
}  // namespace flotilla
