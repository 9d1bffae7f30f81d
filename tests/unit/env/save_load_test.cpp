#include <gtest/gtest.h>

#include <array>
#include <cstddef>

#include "flotilla/core/serial.h"
#include "flotilla/env/env_loop.h"
#include "flotilla/env/random_run.h"
#include "support/batch.h"
#include "support/error_text.h"
#include "support/saved_slots.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
using Bytes = std::vector<std::byte>;

std::string refusal(Batch& batch, const Bytes& bytes) {
  return error_text(ErrorCode::kData, [&] { batch.load(bytes); });
}

// Rows of the next steps, with random actions from step `first` on.
std::vector<std::vector<std::string>> go_on(Batch& batch, uint64_t first, uint64_t steps) {
  std::vector<std::vector<std::string>> all;
  for (uint64_t t = first; t < first + steps; ++t) {
    batch.step_randomly(21, t);
    all.push_back(batch.rows());
  }
  return all;
}

TEST(SaveLoad, ContinuesInTheMiddleOfEpisodesInAnyBackEnd) {
  for (const char* env : {"faulty", "pendulum", "catch"}) {
    for (const Variant& from : variants(5)) {
      if (from.options.groups == 2 && from.options.backend == Backend::kSerial) continue;
      Batch original(env, {}, from.options);
      original.reset(21);
      go_on(original, 0, 137);
      const Bytes saved = original.saved();
      const Bytes obs(original.view().obs,
                      original.view().obs + 5 * original.spec().obs.row_bytes());
      const auto expected = go_on(original, 137, 120);
      for (const Variant& to : variants(5)) {
        // Every pair would take long; one side of each is enough.
        if (from.name != "serial" && to.name != "serial") continue;
        SCOPED_TRACE(std::string(env) + " from " + from.name + " to " + to.name);
        Batch restored(env, {}, to.options);
        restored.reset(99);
        go_on(restored, 0, 3);
        restored.load(saved);
        EXPECT_TRUE(std::equal(obs.begin(), obs.end(), restored.view().obs));
        EXPECT_EQ(restored.saved(), saved);
        EXPECT_EQ(go_on(restored, 137, 120), expected);
      }
    }
  }
}

TEST(SaveLoad, MayComeBeforeTheFirstReset) {
  Batch original("faulty", {}, serial(3));
  original.reset(21);
  go_on(original, 0, 10);
  const Bytes saved = original.saved();
  for (const Variant& variant : variants(3)) {
    SCOPED_TRACE(variant.name);
    Batch restored("faulty", {}, variant.options);
    restored.load(saved);
    Batch reference("faulty", {}, serial(3));
    reference.load(saved);
    EXPECT_EQ(go_on(restored, 10, 40), go_on(reference, 10, 40));
  }
}

TEST(SaveLoad, WritesObservationsAndMasks) {
  Batch original("faulty", {}, serial(3));
  original.reset(21);
  go_on(original, 0, 11);
  Batch restored("faulty", {}, serial(3));
  restored.load(original.saved());
  const auto same = [&](auto StepView::*field, size_t bytes) {
    return std::memcmp(original.view().*field, restored.view().*field, bytes) == 0;
  };
  EXPECT_TRUE(same(&StepView::obs, 3 * original.spec().obs.row_bytes()));
  EXPECT_TRUE(same(&StepView::mask, 9));
  EXPECT_EQ(restored.view().mask[11 % 3], 0) << "one choice is masked after an odd step";
}

TEST(SaveLoad, DroppedEnvsStayDropped) {
  VecOptions options = serial(3);
  options.on_failure = OnFailure::kDrop;
  Batch original("test_script", {}, options);
  original.reset(1);
  original.step({kGo, kThrow, kGo});
  for (const Variant& variant : variants(3)) {
    SCOPED_TRACE(variant.name);
    VecOptions into = variant.options;
    into.on_failure = OnFailure::kDrop;
    Batch restored("test_script", {}, into);
    restored.load(original.saved());
    EXPECT_EQ(restored.obs(1), std::vector<float>(3));
    restored.step({kGo, kGo, kGo});
    EXPECT_EQ(restored.view().valid[0], 1);
    EXPECT_EQ(restored.view().valid[1], 0);
    EXPECT_EQ(restored.obs(2)[0], 2);
  }
}

TEST(SaveLoad, FailuresAfterALoadNameTheOriginalSeed) {
  Batch original("test_script", {}, serial(2));
  original.reset(77);
  original.step({kGo, kGo});
  Batch restored("test_script", {}, serial(2));
  restored.reset(5);
  restored.load(original.saved());
  try {
    restored.step({kGo, kThrow});
    ADD_FAILURE();
  } catch (const EnvFailure& failure) {
    EXPECT_EQ(failure.report().seed, 77u);
    EXPECT_EQ(failure.report().step, 1u);
  }
}

TEST(SaveLoad, OtherEnvironmentsAreRefusedByName) {
  Batch cartpole("cartpole", {}, serial(3));
  cartpole.reset(1);
  const std::string head = "saved environments differ from these: ";
  Batch pendulum("pendulum", {}, serial(3));
  EXPECT_EQ(refusal(pendulum, cartpole.saved()), head + "'cartpole' was saved, this is 'pendulum'");
  Writer foreign;
  foreign.text("env", "two\nlines");
  EXPECT_EQ(refusal(pendulum, foreign.buffer()),
            head + "'two\\nlines' was saved, this is 'pendulum'");
  Batch fewer("cartpole", {}, serial(2));
  EXPECT_EQ(refusal(fewer, cartpole.saved()), head + "3 were saved, these are 2");
  Writer none;
  none.text("env", "cartpole");
  none.text("spec_sha256", fewer.vec().spec().sha256());
  for (const char* tag : {"num_envs", "slot_bytes", "seed"}) none.u64(tag, 0);
  EXPECT_EQ(refusal(fewer, none.buffer()), head + "0 were saved, these are 2");
  Batch longer("cartpole", {"time_limit=700"}, serial(3));
  EXPECT_EQ(refusal(longer, cartpole.saved()), head + "another spec of 'cartpole'");
}

TEST(SaveLoad, EveryTruncationIsRefusedAndChangesNothing) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch original("test_script", {}, serial(2));
    original.reset(1);
    original.step({kGo, kGo});
    const Bytes good = original.saved();
    Batch batch("test_script", {}, variant.options);
    batch.reset(2);
    batch.step({kGo, kEnd});
    const Bytes before = batch.saved();
    const auto rows = batch.rows();
    for (size_t size = 0; size < good.size(); ++size) {
      const Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NE(refusal(batch, cut), "no error") << size << " of " << good.size() << " bytes";
    }
    EXPECT_EQ(batch.saved(), before);
    EXPECT_EQ(batch.rows(), rows);
    batch.load(good);
    EXPECT_EQ(batch.saved(), good);
  }
}

TEST(SaveLoad, AStateTheEnvCannotBeInIsRefused) {
  using Slot = LoopOf<Script>::Slot;
  Batch batch("test_script", {}, serial(3));
  batch.reset(1);
  batch.step({kGo, kGo, kGo});
  const Bytes good = batch.saved();
  const size_t second = slot_offsets(good, 3)[1];
  const auto damaged = [&](size_t at, int32_t value) {
    Bytes bytes = good;
    std::memcpy(bytes.data() + second + at, &value, sizeof(value));
    return bytes;
  };
  const std::string expected =
      "saved environments differ from these: the state of env 1 is damaged";
  const size_t state = offsetof(Slot, state), header = offsetof(Slot, header);
  EXPECT_EQ(refusal(batch, damaged(state + offsetof(Script::State, count), -1)), expected);
  EXPECT_EQ(refusal(batch, damaged(state + offsetof(Script::State, blind), 1)), expected);
  EXPECT_EQ(refusal(batch, damaged(header + offsetof(SlotHeader, status), 17)), expected);
  EXPECT_EQ(batch.saved(), good);
  batch.load(damaged(state + offsetof(Script::State, count), 3));
  EXPECT_EQ(batch.obs(1)[0], 3);
}

// The same env, whose State has grown since.
class Before : public Script {
 public:
  using Script::Script;
};

class Since : public Script {
 public:
  using OldState = Script::State;
  struct State {
    std::array<int64_t, 40> more;
    Script::State old;
  };
  using Script::Script;

  static State upgraded(const OldState& old) { return {.more = {7}, .old = old}; }
  void reset(State& s, Rng& g) const { Script::reset(s.old, g); }
  Outcome step(State& s, ActionRow action, Rng& g) const { return Script::step(s.old, action, g); }
  void observe(const State& s, ObsRow row) const { Script::observe(s.old, row); }
  void metrics(const State& s, MetricRow row) const { Script::metrics(s.old, row); }
  bool valid(const State& s) const { return s.more[0] == 7 && Script::valid(s.old); }
};

TEST(SaveLoad, StatesOfAnOlderLayoutAreRead) {
  const EnvType before = env_type<Before>("grown", ""), since = env_type<Since>("grown", "");
  for (const char* frames : {"frame_stack=1", "frame_stack=3"}) {
    const Config config = config_of(before, {"time_limit=50", frames});
    RandomRun old(before, config, serial(4), 3), now(since, config, serial(4), 4);
    const auto go = [](RandomRun& run) {
      TrajectoryHash hash(run.vec().spec(), 4);
      for (int i = 0; i < 20; ++i) {
        // Acts that throw are no part of this.
        run.step([&run] {
          auto* acts = const_cast<int32_t*>(run.actions().ints());
          for (int env = 0; env < 4; ++env) acts[env] = kGo;
        });
        hash.add(run.view());
      }
      return hash.hex();
    };
    go(old);
    Writer writer;
    old.save(writer);
    Reader reader(writer.buffer(), "saved");
    now.load(reader);
    EXPECT_EQ(go(now), go(old)) << frames;
    Writer back;
    now.save(back);
    Reader newer(back.buffer(), "saved");
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { old.load(newer); }),
              "saved environments differ from these: states of another size");
  }
}

TEST(SaveLoad, MutatedBuffersAreRefusedOrRun) {
  Batch batch("test_script", {"time_limit=1000"}, serial(3));
  batch.reset(1);
  batch.step({kGo, kGo, kGo});
  const Bytes good = batch.saved();
  Rng rng(5, stream_of(Purpose::kTest, 0));
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    Bytes bytes = good;
    for (uint32_t k = 0; k <= rng.below(4); ++k) {
      const uint32_t at = rng.below(static_cast<uint32_t>(bytes.size()));
      switch (rng.below(4)) {
        case 0:
          bytes[at] ^= std::byte(1u << rng.below(8));
          break;
        case 1:
          bytes[at] = std::byte(rng.below(256));
          break;
        case 2:
          bytes.erase(bytes.begin() + at);
          break;
        default:
          bytes.insert(bytes.begin() + at, std::byte(rng.below(256)));
      }
    }
    batch.load(good);
    try {
      batch.load(bytes);
      batch.step({kGo, kEnd, kCut});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
      ASSERT_EQ(batch.saved(), good) << "round " << round << " changed something";
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace flotilla::test
