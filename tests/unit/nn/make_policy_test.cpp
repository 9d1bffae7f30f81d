#include "flotilla/nn/make_policy.h"

#include <gtest/gtest.h>

#include "flotilla/core/error.h"
#include "support/error_text.h"
#include "unit/nn/cartpole_network.h"

namespace flotilla {
namespace {

using test::error_text;

std::string error_of(const NetworkSpec& spec, const std::string& kind, const std::string& device) {
  PolicyOptions options;
  options.kind = kind;
  options.device = device;
  return error_text(ErrorCode::kUsage, [&] { make_policy(spec, options); });
}

TEST(MakePolicy, AutoTakesTheFusedKernels) {
  ASSERT_EQ(fused_refusal(cartpole_network()), "");
  EXPECT_TRUE(make_policy(cartpole_network(), {})->implementation().name.starts_with("fused"));
}

TEST(MakePolicy, UnknownWordsAreNamed) {
  EXPECT_EQ(error_of(cartpole_network(), "fusd", "cpu"),
            "policy: expected one of auto, fused, torch, got 'fusd'; did you mean 'fused'?");
  EXPECT_EQ(error_of(cartpole_network(), "auto", "gpu"),
            "device: expected one of cpu, cuda, got 'gpu'; did you mean 'cpu'?");
}

TEST(MakePolicy, FusedRunsOnTheCpu) {
  EXPECT_EQ(error_of(cartpole_network(), "fused", "cuda"),
            "the fused kernels run on the cpu, not on cuda; use policy=torch");
}

TEST(MakePolicy, Bf16IsForTheFusedKernels) {
  NetworkSpec spec = cartpole_network();
  spec.precision = Precision::kBf16;
  const std::string kernel = make_policy(spec, {})->implementation().name;
  EXPECT_TRUE(kernel.starts_with("fused ") && kernel.ends_with(" bf16")) << kernel;
  EXPECT_EQ(
      error_of(spec, "torch", "cpu"),
      "net.precision: on a CPU libtorch computes in fp32 alone; bf16 needs the fused kernels or "
      "device=cuda");
}

TEST(MakePolicy, FusedSaysWhatItCannotDo) {
  NetworkSpec spec = cartpole_network();
  spec.hidden = {1024};
  const std::string why = fused_refusal(spec);
  ASSERT_NE(why, "");
  EXPECT_EQ(error_of(spec, "fused", "cpu"),
            "the fused kernels cannot do this network: " + why + "; use policy=torch");
}

}  // namespace
}  // namespace flotilla
