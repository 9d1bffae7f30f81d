// What the light runtime is for: one row in a third of the time that Policy::act takes for a vector
// of rows, with the network that runs have by default. That is what one row costs where it is
// padded to a vector; Policy::act pads it in some layers only, so for one row it is itself faster
// than that. Larger networks are there to be seen, with room for noise.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "flotilla/inference/inference.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla {
namespace {

constexpr double kTimes = 3, kTimesOfLarge = 2.5;
constexpr int kRounds = 60, kCalls = 300;

struct Shape {
  const char* name;
  int inputs;
  std::vector<int> hidden;
  ActionSpace action;
  bool masked = false;
};

int lanes_of(const std::string& kernel) {
  if (kernel == "avx512") return 16;
  return kernel == "avx2" ? 8 : 4;
}

// Seconds of a call.
template <class Call>
double time_of(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls;
}

void compare(const Shape& shape, double least) {
  EnvSpec env;
  env.name = "walk";
  env.obs = ObsSpace::float32({shape.inputs}, -9, 9);
  env.action = shape.action;
  env.has_mask = shape.masked;
  NetworkSpec network;
  network.inputs = shape.inputs;
  network.hidden = shape.hidden;
  network.action = shape.action;
  network.has_mask = shape.masked;
  const auto policy = make_policy(network, {});
  Inference inference = Inference::from_bytes(encode_policy(*policy, env, {"walk", "", 0, 0}), "p");

  const int lanes = lanes_of(inference.kernel());
  const auto times_lanes = [&](size_t count) { return count * static_cast<size_t>(lanes); };
  const size_t inputs = static_cast<size_t>(shape.inputs);
  const size_t masked = shape.masked ? shape.action.mask_size() : 0;
  const std::vector<float> all_obs(times_lanes(inputs), 0.1F);
  const std::vector<uint8_t> all_masks(times_lanes(masked), 1);
  const std::span<const float> obs(all_obs.data(), inputs);
  const std::span<const uint8_t> masks(all_masks.data(), masked);
  std::vector<std::byte> action(times_lanes(4 * shape.action.dims())), latent(action.size());
  ActRows rows{.count = lanes,
               .obs = reinterpret_cast<const std::byte*>(all_obs.data()),
               .mask = shape.masked ? all_masks.data() : nullptr,
               .action = action.data(),
               .latent = latent.data()};
  // In turns, and the best of many: what else runs on the machine slows down both or neither.
  double vector = 1, one = 1, light = 1;
  for (int round = 0; round < kRounds; ++round) {
    rows.count = lanes;
    vector = std::min(vector, time_of([&] { policy->act(0, rows, {.greedy = true}); }));
    rows.count = 1;
    one = std::min(one, time_of([&] { policy->act(0, rows, {.greedy = true}); }));
    light = std::min(light, time_of([&] { inference.predict(obs, {.action_masks = masks}); }));
  }
  std::printf(
      "%-28s %-8s %9.0f calls/s of Inference, %.2f times Policy::act for a vector of rows"
      ", %.2f times for one\n",
      shape.name, inference.kernel().c_str(), 1 / light, vector / light, one / light);
  EXPECT_GE(vector / light, least) << shape.name;
}

TEST(InferenceSpeed, IsThreeTimesThatOfAVectorOfRows) {
#if !defined(NDEBUG) || defined(FLOTILLA_SANITIZED)
  GTEST_SKIP() << "not an optimised build";
#endif
  compare({"4-64-64, Discrete(2)", 4, {64, 64}, ActionSpace::discrete(2)}, kTimes);
  compare({"3-64-64, Box", 3, {64, 64}, ActionSpace::box({-2}, {2})}, kTimes);
  compare({"131-64-64, Discrete(36), masks", 131, {64, 64}, ActionSpace::discrete(36), true},
          kTimesOfLarge);
  compare({"20-256-256, Discrete(5)", 20, {256, 256}, ActionSpace::discrete(5)}, kTimesOfLarge);
}

}  // namespace
}  // namespace flotilla
