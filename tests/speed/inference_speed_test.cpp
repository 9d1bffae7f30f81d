// What the light runtime is for: at least three times the calls of Policy::act for one row, with
// the network that runs have by default. Kernels of four lanes pad a row to four and could not gain
// more than that; larger networks are there to be seen, with room for noise.
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

  std::vector<float> obs(static_cast<size_t>(shape.inputs), 0.1F);
  const std::vector<uint8_t> masks(shape.masked ? shape.action.mask_size() : 0, 1);
  std::vector<std::byte> action(4 * shape.action.dims()), latent(action.size());
  const ActRows row{.count = 1,
                    .obs = reinterpret_cast<const std::byte*>(obs.data()),
                    .mask = shape.masked ? masks.data() : nullptr,
                    .action = action.data(),
                    .latent = latent.data()};
  // In turns, and the best of many: what else runs on the machine slows down both or neither.
  double engine = 1, light = 1;
  for (int round = 0; round < kRounds; ++round) {
    engine = std::min(engine, time_of([&] { policy->act(0, row, {.greedy = true}); }));
    light = std::min(light, time_of([&] { inference.predict(obs, {.action_masks = masks}); }));
  }
  std::printf("%-28s %-8s %9.0f calls/s of Policy::act, %9.0f of Inference: %.2f times\n",
              shape.name, inference.kernel().c_str(), 1 / engine, 1 / light, engine / light);
  EXPECT_GE(engine / light, least) << shape.name;
}

TEST(InferenceSpeed, IsThreeTimesThatOfTheEngine) {
#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
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
