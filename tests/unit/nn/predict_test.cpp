// Policy::predict: one observation, one action, without knowledge of rows and bytes; also of a file
// whose environment is not at hand.
#include <gtest/gtest.h>

#include <array>

#include "flotilla/nn/policy_file.h"
#include "flotilla/nn/safetensors.h"
#include "support/error_text.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

std::string refusal(const std::function<void()>& call) {
  return error_text(ErrorCode::kUsage, call);
}

TEST(Predict, IsDeterministicUnlessAskedOtherwise) {
  const NetworkSpec spec = network(3, {8}, Activation::kTanh, false, ActionSpace::discrete(4));
  const auto policy = make_policy(spec, {.seed = 4});
  const std::array<float, 3> obs = {0.5F, -1, 2};
  const int likeliest = policy->predict(obs).discrete();
  EXPECT_EQ(policy->predict(obs).discrete(), likeliest);
  std::array<int, 4> drawn{};
  for (uint64_t step = 0; step < 400; ++step) {
    const Action action = policy->predict(obs, {.deterministic = false, .seed = 1, .step = step});
    ++drawn[static_cast<size_t>(action.discrete())];
    EXPECT_EQ(policy->predict(obs, {.deterministic = false, .seed = 1, .step = step}).discrete(),
              action.discrete());
  }
  for (const int count : drawn) EXPECT_GT(count, 10);
  EXPECT_EQ(std::ranges::max_element(drawn) - drawn.begin(), likeliest);
}

TEST(Predict, GivesWhatActGives) {
  for (const Case& each : small_cases()) {
    SCOPED_TRACE(each.name);
    const auto policy = make_fused_policy(each.spec, 1, 3);
    fill(policy->obs_normaliser(), each.spec);
    Rollout rows(each.spec, 1, 0, 5);
    const ActRows row = rows.act_rows(0, 1, 0);
    policy->act(0, row, {.greedy = true});
    PredictOptions options;
    if (row.mask != nullptr) options.action_masks = {row.mask, each.spec.action.mask_size()};
    const auto count = static_cast<size_t>(each.spec.inputs);
    const Action action =
        each.spec.obs_type == ObsType::kUint8
            ? policy->predict(std::span(reinterpret_cast<const uint8_t*>(row.obs), count), options)
            : policy->predict(std::span(reinterpret_cast<const float*>(row.obs), count), options);
    EXPECT_EQ(std::memcmp(action.data(), row.action, each.spec.action.dims() * 4), 0);
    EXPECT_EQ(action.values().size(), each.spec.action.is_box() ? each.spec.action.dims() : 0);
  }
}

TEST(Predict, RefusesWhatDoesNotFit) {
  NetworkSpec spec = network(2, {8}, Activation::kTanh, false, ActionSpace::discrete(3));
  spec.has_mask = true;
  const auto policy = make_policy(spec, {});
  const std::vector<float> obs = {1, 2}, more = {1, 2, 3};
  const std::vector<uint8_t> masks = {0, 0, 1};
  EXPECT_EQ(policy->predict(obs, {.action_masks = masks}).discrete(), 2);
  EXPECT_EQ(refusal([&] { policy->predict(more, {.action_masks = masks}); }),
            "obs: expected 2 numbers, got 3");
  EXPECT_EQ(refusal([&] { policy->predict(obs); }),
            "this policy was trained with masks: give action_masks");
  spec.obs_type = ObsType::kUint8;
  EXPECT_EQ(refusal([&] { make_policy(spec, {})->predict(obs, {.action_masks = masks}); }),
            "obs: this policy reads bytes, not floats");
}

// ---- files without their environment
// --------------------------------------------------------------

std::string file_of(const NetworkSpec& spec, uint64_t seed) {
  const auto policy = make_policy(spec, {.seed = seed});
  fill(policy->obs_normaliser(), spec);
  EnvSpec env;
  env.name = "walk";
  env.obs = spec.obs_type == ObsType::kUint8 ? ObsSpace::uint8({spec.inputs})
                                             : ObsSpace::float32({spec.inputs}, -9, 9);
  env.action = spec.action;
  env.has_mask = spec.has_mask;
  return encode_policy(*policy, env, {"walk", "", 0, 0});
}

TEST(Predict, WorksOfAFileAlone) {
  for (const Case& each : small_cases()) {
    if (each.spec.hidden.empty()) continue;
    SCOPED_TRACE(each.name);
    const auto policy = make_policy(decode_policy(file_of(each.spec, 9), "p"));
    Inference inference = Inference::from_bytes(file_of(each.spec, 9), "p");
    std::vector<uint8_t> obs(static_cast<size_t>(each.spec.inputs));
    for (size_t i = 0; i < obs.size(); ++i) obs[i] = static_cast<uint8_t>(5 * i % 7);
    PredictOptions options;
    const std::vector<uint8_t> masks(each.spec.action.mask_size(), 1);
    options.action_masks = masks;
    const Action action = policy->predict(obs, options), again = inference.predict(obs, options);
    EXPECT_EQ(std::memcmp(action.data(), again.data(), each.spec.action.dims() * 4), 0);
  }
}

TEST(Predict, AFileThatLiesTakesNoMemory) {
  const NetworkSpec spec = network(2, {8}, Activation::kTanh, false, ActionSpace::discrete(3));
  const auto refusal_with = [&](const char* key, const char* text) {
    TensorFile file = decode_safetensors(file_of(spec, 1), "p");
    file.metadata[key] = text;
    return error_text(ErrorCode::kData,
                      [&] { make_policy(decode_policy(encode_safetensors(file), "p")); });
  };
  EXPECT_EQ(refusal_with("action", "Discrete(2000000000)"),
            "p: its network and actions do not fit its tensors");
  EXPECT_EQ(refusal_with("action", "MultiDiscrete(2000000000, 2000000000)"),
            "p: its network and actions do not fit its tensors");
  EXPECT_EQ(refusal_with("action", "Discrete(3, 4)"), "p: has actions 'Discrete(3, 4)'");
  EXPECT_EQ(refusal_with("action", "Tuple"), "p: has actions 'Tuple'");
  EXPECT_EQ(refusal_with("network", "hidden: \"1024\"\n"),
            "p: its network and actions do not fit its tensors");
}

}  // namespace
}  // namespace flotilla::test
