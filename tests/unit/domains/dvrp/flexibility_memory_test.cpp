// What a run knows about its travellers: saved and restored, handed on, and refused when damaged.
#include "flotilla/domains/dvrp/flexibility/memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/train/find_policy.h"
#include "support/error_text.h"

namespace flotilla::dvrp {
namespace {

using flotilla::test::error_text;

const Travellers& travellers() {
  static const Data kData = generate_data({});
  return kData.travellers;
}

AdviceOptions options() {
  return {.types = AdviceOptions::Types::kLearnt, .every = 2, .records = 500, .learning = {}};
}

// Offers to everybody, and their answers.
void ask_everybody(FlexibilityMemory& memory, Rng& rng) {
  for (int t = 0; t < travellers().count; ++t) {
    const std::vector<int>& trips = travellers().trips_of[static_cast<size_t>(t)];
    const int trip = trips[rng.below(static_cast<uint32_t>(trips.size()))];
    const auto action = static_cast<uint16_t>(rng.below(kActions));
    const bool accepted = travellers().trips[static_cast<size_t>(trip)].accepted(action);
    memory.record({.traveller = t, .trip = trip, .action = action, .accepted = accepted});
  }
}

std::vector<std::byte> saved(const FlexibilityMemory& memory) {
  Writer writer;
  memory.save(writer);
  return writer.buffer();
}

TEST(FlexibilityMemory, GoesOnAsItWas) {
  FlexibilityMemory memory(travellers(), options()), other(travellers(), options());
  Rng rng(1, stream_of(Purpose::kTest, 0));
  for (int i = 0; i < 9; ++i) ask_everybody(memory, rng);
  EXPECT_FALSE(memory.learn(1));
  EXPECT_TRUE(memory.learn(2));
  const std::vector<std::byte> state = saved(memory);
  Reader reader(state, "state");
  other.load(reader);
  EXPECT_TRUE(reader.at_end());
  for (FlexibilityMemory* each : {&memory, &other}) {
    Rng same(2, stream_of(Purpose::kTest, 0));
    for (int i = 0; i < 20; ++i) ask_everybody(*each, same);
    EXPECT_TRUE(each->learn(4));
  }
  EXPECT_EQ(saved(other), saved(memory));
  EXPECT_EQ(other.knowledge(), memory.knowledge());
  EXPECT_EQ(other.facts(), memory.facts());
}

TEST(FlexibilityMemory, LearnsTheSameInTheBackground) {
  AdviceOptions beside = options();
  beside.background = true;
  FlexibilityMemory memory(travellers(), options()), other(travellers(), beside);
  for (FlexibilityMemory* each : {&memory, &other}) {
    Rng rng(1, stream_of(Purpose::kTest, 0));
    for (int64_t rollout = 1; rollout <= 6; ++rollout) {
      for (int i = 0; i < 5; ++i) ask_everybody(*each, rng);
      const std::vector<std::byte> before = each->knowledge();
      each->prepare(rollout);
      EXPECT_EQ(each->knowledge(), before) << "handed over too early";
      EXPECT_EQ(each->learn(rollout), rollout % 2 == 0);
      EXPECT_EQ(each->knowledge() != before, rollout % 2 == 0);
    }
  }
  EXPECT_EQ(saved(other), saved(memory));
  EXPECT_EQ(other.knowledge(), memory.knowledge());
  other.prepare(8);
  saved(other);  // waits for the lesson: a data race otherwise
}

TEST(FlexibilityMemory, WhoIsGivenKnowledgeLearnsNothing) {
  FlexibilityMemory memory(travellers(), options()), given(travellers(), options());
  Rng rng(1, stream_of(Purpose::kTest, 0));
  for (int i = 0; i < 9; ++i) ask_everybody(memory, rng);
  memory.learn(2);
  given.set_knowledge(memory.knowledge());
  EXPECT_EQ(given.knowledge(), memory.knowledge());
  for (int i = 0; i < 9; ++i) ask_everybody(given, rng);
  EXPECT_FALSE(given.learn(2));
  EXPECT_EQ(given.facts()[1].second, 0) << "answers";
  // Not drawn any more.
  for (int t = 0; t < travellers().count; ++t) {
    EXPECT_EQ(given.type_of(t, 0), given.type_of(t, 0.999F));
  }
}

TEST(FlexibilityMemory, RefusesKnowledgeThatIsNone) {
  FlexibilityMemory memory(travellers(), options());
  const std::vector<std::byte> before = memory.knowledge();
  PolicyFile file{.tensors = {}, .origin = {}};
  file.tensors.origin = "policy.safetensors";
  const auto refusal = [&](std::vector<std::byte> knowledge) {
    file.origin.knowledge = std::move(knowledge);
    return error_text(ErrorCode::kData, [&] { give_knowledge(file, &memory); });
  };
  EXPECT_EQ(refusal({}),
            "policy.safetensors: knows 0 bytes about travellers, expected 960 of 30 travellers");
  const std::string expected =
      "policy.safetensors: what is known about travellers is no probability";
  for (const double wrong : {-0.1, 0.9999, 2.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    std::vector<std::byte> knowledge = before;
    std::memcpy(knowledge.data() + 17 * sizeof(double), &wrong, sizeof(wrong));
    EXPECT_EQ(refusal(knowledge), expected) << wrong;
  }
  EXPECT_EQ(memory.knowledge(), before);
}

TEST(FlexibilityMemory, RefusesADamagedState) {
  FlexibilityMemory memory(travellers(), options());
  Rng rng(1, stream_of(Purpose::kTest, 0));
  for (int i = 0; i < 9; ++i) ask_everybody(memory, rng);
  memory.learn(2);
  const std::vector<std::byte> whole = saved(memory);
  for (const size_t kept : {size_t{0}, whole.size() / 2, whole.size() - 1}) {
    FlexibilityMemory other(travellers(), options());
    const std::vector<std::byte> fresh = saved(other);
    Reader reader({whole.data(), kept}, "state");
    EXPECT_NE(error_text(ErrorCode::kData, [&] { other.load(reader); }), "");
    EXPECT_EQ(saved(other), fresh) << kept;
  }
}

}  // namespace
}  // namespace flotilla::dvrp
