#include "flotilla/nn/network.h"

#include <gtest/gtest.h>

#include "flotilla/core/error.h"
#include "support/error_text.h"
#include "unit/nn/cartpole_network.h"

namespace flotilla {
namespace {

using test::error_text;

EnvSpec sample_env() {
  EnvSpec env;
  env.name = "cartpole_network";
  env.obs = ObsSpace::uint8({3, 5});
  env.action = ActionSpace::multi_discrete({3, 4});
  env.has_mask = true;
  return env;
}

NetworkSpec from(const std::vector<std::string>& overrides, const EnvSpec& env = sample_env()) {
  Schema schema;
  schema.include("net", NetworkSpec::schema());
  Config config(schema);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return NetworkSpec::from(config, "net.", env);
}

TEST(Network, OutputsOfEveryKindOfAction) {
  NetworkSpec spec = cartpole_network();
  EXPECT_EQ(spec.outputs(), 2);
  spec.action = ActionSpace::multi_discrete({3, 4});
  EXPECT_EQ(spec.outputs(), 7);
  spec.action = ActionSpace::box({-1, -1, -2}, {1, 1, 2});
  EXPECT_EQ(spec.outputs(), 3);
}

TEST(Network, MacsOfSeparateNetworks) {
  // actor 4*64 + 64*64 + 64*2 = 4480, critic 4*64 + 64*64 + 64*1 = 4416
  EXPECT_EQ(cartpole_network().forward_macs(), 8896);
  // forward and the gradients of the weights: 2 * 8896; of the inputs of all layers but the first
  // of each: 64*64 + 64*2 + 64*64 + 64*1 = 8384
  EXPECT_EQ(cartpole_network().learn_macs(), 2 * 8896 + 8384);
}

TEST(Network, MacsOfASharedNetwork) {
  NetworkSpec spec = cartpole_network();
  spec.shared = true;
  EXPECT_EQ(spec.forward_macs(), 4 * 64 + 64 * 64 + 64 * (2 + 1));
  EXPECT_EQ(spec.learn_macs(), 2 * 4544 + 64 * 64 + 64 * (2 + 1));
}

TEST(Network, Defaults) {
  const NetworkSpec spec = from({});
  EXPECT_EQ(spec.inputs, 15);
  EXPECT_EQ(spec.obs_type, ObsType::kUint8);
  EXPECT_EQ(spec.hidden, (std::vector<int>{64, 64}));
  EXPECT_EQ(spec.activation, Activation::kTanh);
  EXPECT_FALSE(spec.shared);
  EXPECT_EQ(spec.init, Init::kOrthogonal);
  EXPECT_EQ(spec.action.choices, (std::vector<int>{3, 4}));
  EXPECT_TRUE(spec.has_mask);
  EXPECT_EQ(spec.log_std, 0);
  EXPECT_FALSE(spec.squash);
  EXPECT_FALSE(spec.normalise_obs);
  EXPECT_EQ(spec.precision, Precision::kFp32);
}

TEST(Network, EveryKeyIsRead) {
  EnvSpec env = sample_env();
  env.action = ActionSpace::box({-1}, {1});
  env.has_mask = false;
  const NetworkSpec spec =
      from({"net.hidden=1024, 1,7", "net.activation=relu", "net.shared=true", "net.init=default",
            "net.log_std=-0.5", "net.squash=true", "net.normalise_obs=true", "net.precision=bf16"},
           env);
  EXPECT_EQ(spec.hidden, (std::vector<int>{1024, 1, 7}));
  EXPECT_EQ(spec.activation, Activation::kRelu);
  EXPECT_TRUE(spec.shared);
  EXPECT_EQ(spec.init, Init::kDefault);
  EXPECT_TRUE(spec.action.is_box());
  EXPECT_FALSE(spec.has_mask);
  EXPECT_EQ(spec.log_std, -0.5);
  EXPECT_TRUE(spec.squash);
  EXPECT_TRUE(spec.normalise_obs);
  EXPECT_EQ(spec.precision, Precision::kBf16);
  EXPECT_NE(spec.to_config().to_yaml().find("precision: bf16\n"), std::string::npos);
}

TEST(Network, UpToSixteenLayers) {
  EXPECT_EQ(from({"net.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}).hidden.size(), 16u);
  EXPECT_EQ(
      error_text(ErrorCode::kUsage, [] { from({"net.hidden=1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"}); }),
      "net.hidden: expected 1 to 16 widths from 1 to 1024, such as 64,64; got 17 of them");
}

TEST(Network, BadWidthsNameTheKey) {
  for (const auto& [text, word] :
       {std::pair("64,0", "'0'"), std::pair("1025", "'1025'"), std::pair("", "''"),
        std::pair("64,", "''"), std::pair("64,,64", "''"), std::pair("-3", "'-3'"),
        std::pair("6x", "'6x'"), std::pair("99999999999", "'99999999999'")}) {
    const std::string expected =
        "net.hidden: expected 1 to 16 widths from 1 to 1024, such as 64,64; got ";
    EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { from({std::string("net.hidden=") + text}); }),
              expected + word + " in '" + text + "'");
  }
}

TEST(Network, OnlyABoxIsSquashed) {
  EXPECT_EQ(error_text(ErrorCode::kUsage, [] { from({"net.squash=true"}); }),
            "net.squash: only continuous actions can be squashed, those of 'cartpole_network' are "
            "MultiDiscrete(3, 4)");
}

TEST(Network, ABoxWithoutWidthIsNotSquashed) {
  EnvSpec env = sample_env();
  env.has_mask = false;
  env.action = ActionSpace::box({-1, 2}, {1, 2});
  EXPECT_EQ(from({}, env).outputs(), 2);
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { from({"net.squash=true"}, env); }),
            "net.squash: the bounds of action 1 of 'cartpole_network' are equal");
}

TEST(Network, LogStdHasARange) {
  EXPECT_NE(error_text(ErrorCode::kUsage, [] { from({"net.log_std=3"}); }).find("net.log_std"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla
