// Policies in files: they act as before, and do not load where they do not fit.
#include "flotilla/nn/policy_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "flotilla/nn/safetensors.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

EnvSpec spec_of(ActionSpace action, bool has_mask = false) {
  EnvSpec spec;
  spec.name = "walk";
  spec.obs = ObsSpace::float32({3}, -1, 1);
  spec.action = std::move(action);
  spec.has_mask = has_mask;
  return spec;
}

EnvSpec box_spec() { return spec_of(ActionSpace::box({-2, 0}, {2, 1})); }

NetworkSpec network_of(const EnvSpec& env, const std::vector<std::string>& settings = {}) {
  Config config(NetworkSpec::schema());
  config.set("hidden", "8,4");
  for (const std::string& each : settings) config.apply_override(each);
  return NetworkSpec::from(config, "", env);
}

// A policy whose normaliser has seen something.
std::unique_ptr<Policy> trained(const EnvSpec& env, const std::vector<std::string>& settings) {
  auto policy = make_fused_policy(network_of(env, settings), 1, 5);
  const std::vector<float> rows = {0.5f, -1, 3, 0.25f, 2, 1, -0.75f, 0, 4};
  if (policy->spec().normalise_obs) policy->obs_normaliser().update(rows.data(), 3, nullptr);
  return policy;
}

PolicyFile written(const Policy& policy, const EnvSpec& env) {
  return decode_policy(encode_policy(policy, env, {"walk", "reward: 1\n", 30, 77}),
                       "p.safetensors");
}

std::vector<float> actions(const Policy& policy, size_t dims) {
  const std::vector<float> obs = {0.1f, -0.2f, 0.9f, 0.7f, 0.3f, -0.5f};
  std::vector<float> action(2 * dims), latent(2 * dims), logprob(2), value(2);
  policy.act(0,
             {.count = 2,
              .obs = reinterpret_cast<const std::byte*>(obs.data()),
              .action = reinterpret_cast<std::byte*>(action.data()),
              .latent = reinterpret_cast<std::byte*>(latent.data()),
              .logprob = logprob.data(),
              .value = value.data()},
             {.seed = 3, .step = 4});
  action.insert(action.end(), value.begin(), value.end());
  action.insert(action.end(), logprob.begin(), logprob.end());
  return action;
}

TEST(PolicyFile, ActsAsThePolicyThatWasWritten) {
  const EnvSpec env = box_spec();
  for (const char* squash : {"squash=true", "squash=false"}) {
    const auto policy = trained(
        env, {"normalise_obs=true", "activation=relu", "shared=true", "log_std=-0.5", squash});
    const PolicyFile file = written(*policy, env);
    EXPECT_EQ(file.origin.env, "walk");
    EXPECT_EQ(file.origin.env_config, "reward: 1\n");
    EXPECT_EQ(file.origin.time_limit, 30);
    EXPECT_EQ(file.origin.seed, 77u);
    const auto again = make_policy(file, env, {});
    const std::vector<float> expected = actions(*policy, 2), got = actions(*again, 2);
    EXPECT_EQ(std::memcmp(expected.data(), got.data(), expected.size() * sizeof(float)), 0);
  }
}

TEST(PolicyFile, KeepsThePrecision) {
  const EnvSpec env = box_spec();
  const auto policy = trained(env, {"precision=bf16"});
  const auto again = make_policy(written(*policy, env), env, {});
  EXPECT_EQ(again->spec().precision, Precision::kBf16);
  EXPECT_EQ(actions(*policy, 2), actions(*again, 2));
}

TEST(PolicyFile, CarriesBoundsMasksAndNormalisers) {
  const EnvSpec env = box_spec();
  const PolicyFile box = written(*trained(env, {"normalise_obs=true"}), env);
  EXPECT_EQ(box.tensors.floats("action.low"), (std::vector<float>{-2, 0}));
  EXPECT_EQ(box.tensors.floats("action.high"), (std::vector<float>{2, 1}));
  EXPECT_EQ(box.tensors.floats("obs_normaliser.mean").size(), 3u);
  EXPECT_EQ(box.tensors.find_metadata("masked"), "false");
  const EnvSpec masked = spec_of(ActionSpace::discrete(4), true);
  EXPECT_EQ(written(*trained(masked, {}), masked).tensors.find_metadata("masked"), "true");
}

TEST(PolicyFile, RefusesAnotherEnvironmentByName) {
  const EnvSpec env = box_spec();
  const PolicyFile file = written(*trained(env, {}), env);
  const auto refusal = [&](const EnvSpec& other) {
    return error_text(ErrorCode::kData, [&] { make_policy(file, other, {}); });
  };
  EnvSpec other = env;
  other.name = "run";
  EXPECT_EQ(refusal(other), "p.safetensors: is a policy of 'walk', not of 'run'");
  EXPECT_EQ(
      refusal(spec_of(ActionSpace::discrete(3))),
      "p.safetensors: is a policy of 'walk' with actions 'Box([-2, 0], [2, 1])', now they are "
      "Discrete(3)");
  other = env;
  other.obs = ObsSpace::float32({4}, -1, 1);
  EXPECT_EQ(
      refusal(other),
      "p.safetensors: is a policy of 'walk' with other observations, limits or metrics than it "
      "has now");
}

TEST(PolicyFile, RefusesWhatItIsNot) {
  const EnvSpec env = box_spec();
  const auto policy = trained(env, {"normalise_obs=true"});
  const PolicyFile whole = written(*policy, env);
  const auto refusal = [&](auto&& spoil) {
    TensorFile file = whole.tensors;
    spoil(file);
    return error_text(ErrorCode::kData, [&] {
      make_policy(decode_policy(encode_safetensors(file), "p.safetensors"), env, {});
    });
  };
  const auto text = [](TensorFile& file, const char* key) -> std::string& {
    return file.metadata.at(key);
  };
  EXPECT_NE(refusal([&](TensorFile& f) { text(f, "format") = "2"; }).find("has format '2'"),
            std::string::npos);
  EXPECT_NE(refusal([&](TensorFile& f) { text(f, "seed") = "-"; }).find("seed is '-'"),
            std::string::npos);
  EXPECT_EQ(refusal([&](TensorFile& f) {
              text(f, "network") = "hidden: 0";
            }).find("p.safetensors: network: "),
            0u);
  EXPECT_NE(refusal([&](TensorFile& f) { text(f, "network") = "hidden: 9"; }).find("'actor.0."),
            std::string::npos);
  EXPECT_NE(refusal([&](TensorFile& f) { text(f, "network") = "layers: 9"; }).find("layers"),
            std::string::npos);
  EXPECT_NE(refusal([](TensorFile& f) {
              for (StoredTensor& each : f.tensors) {
                if (each.name == "actor.0.weight") each.data[5] ^= std::byte{1};
              }
            }).find("do not match their checksum"),
            std::string::npos);
  EXPECT_NE(refusal([](TensorFile& f) {
              std::erase_if(f.tensors,
                            [](const auto& t) { return t.name == "obs_normaliser.mean"; });
            }).find("obs_normaliser.mean"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla::test
