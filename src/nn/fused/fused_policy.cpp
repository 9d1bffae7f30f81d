#include "flotilla/nn/fused/fused_policy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>

#include "flotilla/core/error.h"
#include "flotilla/core/rng.h"
#include "flotilla/nn/fused/kernel_choice.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/optimiser_state.h"

namespace flotilla::fused {
namespace {

// A shard is about this many rows, and there are at most this many: more would cost more to sum
// than they bring.
constexpr size_t kShardRows = 64;
constexpr int kMaxShards = 16;
// Neighbouring shards that are summed by whoever finishes the last of them, while their gradients
// are in that core's cache; only the sums of bundles travel between cores. Where there is only one
// bundle, all threads sum its shards.
constexpr int kBundle = 4;
// Parameters that are summed, and that are changed, by one thread at a time.
constexpr size_t kChunk = 1024, kDescendChunk = 16384;
// Beyond these limits a library of matrix products is as fast.
constexpr int kMaxWidth = 256, kMaxOutputs = 256, kMaxInputs = 4096, kMaxBoxDims = 64;

int shard_count(size_t rows) {
  return static_cast<int>(std::clamp<size_t>((rows + kShardRows / 2) / kShardRows, 1, kMaxShards));
}
bool are_bundled(int shards) { return shards > kBundle; }

struct LossContext {
  const Objective* objective;
  double* sums;
};

void call_objective(void* context, const LossRows& rows) {
  const auto& loss = *static_cast<const LossContext*>(context);
  static_assert(kTile <= Objective::kMaxRows);
  loss.objective->differentiate({.count = rows.count,
                                 .sample = rows.sample,
                                 .logprob = rows.logprob,
                                 .entropy = rows.entropy,
                                 .value = rows.value,
                                 .d_logprob = rows.d_logprob,
                                 .d_entropy = rows.d_entropy,
                                 .d_value = rows.d_value},
                                loss.sums);
}

}  // namespace

FusedPolicy::Floats::Floats(size_t count)
    : field_(layout_.add<float>("floats", 1, std::max<size_t>(count, 1))),
      arena_(layout_, Arena::Backing::kPrivate) {}

FusedPolicy::FusedPolicy(const NetworkSpec& spec, int parts, const Tensors& initial,
                         const Kernels& kernels)
    : Policy(spec),
      layout_(spec),
      kernels_(kernels),
      params_(layout_.plan().params),
      derived_(layout_.plan().derived),
      gradient_(layout_.plan().params),
      m_(layout_.plan().params),
      v_(layout_.plan().params),
      squares_(layout_.plan().params / kChunk + 2) {
  make_work(parts);
  set_parameters(initial);
}

Network FusedPolicy::network() const {
  return {&layout_.plan(), params_.data(), derived_.data(), obs_normaliser_.mean(),
          obs_normaliser_.scale()};
}

void FusedPolicy::act(int part, const ActRows& rows, const Draw& draw) const {
  const ActCall call{.count = rows.count,
                     .first_env = rows.first_env,
                     .obs = rows.obs,
                     .mask = rows.mask,
                     .action = rows.action,
                     .latent = rows.latent,
                     .logprob = rows.logprob,
                     .value = rows.value,
                     .seed = draw.seed,
                     .stream = stream_of(Purpose::kPolicy, draw.step),
                     .epsilon = draw.epsilon,
                     .greedy = draw.greedy};
  kernels_.act(network(), call, work(part));
}

void FusedPolicy::value(int part, const std::byte* obs, int count, float* out) const {
  kernels_.value(network(), obs, count, out, work(part));
}

void FusedPolicy::make_work(int count) {
  while (static_cast<int>(work_.size()) < count) {
    work_.push_back(std::make_unique<Floats>(layout_.plan().work_floats));
  }
}

void FusedPolicy::make_slots(int count) {
  while (static_cast<int>(slots_.size()) < count) {
    slots_.push_back(std::make_unique<Floats>(layout_.plan().params));
    slot_data_.push_back(slots_.back()->data());
  }
}

LearnResult FusedPolicy::learn(ThreadPool& pool, const Samples& samples,
                               std::span<const int32_t> chosen, Part part,
                               const Objective& objective, const AdamStep& step) {
  const Plan& plan = layout_.plan();
  if (part != Part::kAll && spec_.shared) {
    throw Error(ErrorCode::kUsage, "actor and critic share layers and cannot be trained apart");
  }
  const size_t begin = part == Part::kCritic ? plan.actor_params : 0;
  const size_t end = part == Part::kActor ? plan.actor_params : plan.params;
  const int shards = shard_count(chosen.size());
  make_work(pool.threads());
  make_slots(shards);
  std::array<std::array<double, Objective::kSums>, kMaxShards> sums{};
  std::array<std::atomic<int>, kMaxShards / kBundle> finished{};

  pool.for_each(shards, [&](int thread, int s) {
    const Span rows = part_of({0, static_cast<int>(chosen.size())}, s, shards);
    LossContext loss{&objective, sums[static_cast<size_t>(s)].data()};
    float* slot = slots_[static_cast<size_t>(s)]->data();
    std::memset(slot + begin, 0, (end - begin) * sizeof(float));
    const LearnCall call{.sample = chosen.data() + rows.begin,
                         .count = rows.size(),
                         .obs = samples.obs,
                         .mask = samples.mask,
                         .latent = samples.latent,
                         .epsilon = samples.epsilon,
                         .actor = part != Part::kCritic,
                         .critic = part != Part::kActor,
                         .loss = call_objective,
                         .context = &loss,
                         .gradient = slot};
    kernels_.learn(network(), call, work(thread));
    if (!are_bundled(shards)) return;
    const int bundle = s / kBundle, first = bundle * kBundle;
    const int size = std::min(kBundle, shards - first);
    if (finished[static_cast<size_t>(bundle)].fetch_add(1) + 1 == size) {
      kernels_.reduce(slot_data_.data() + first, size, begin, end,
                      slots_[static_cast<size_t>(first)]->data());
    }
  });

  LearnResult result;
  for (int s = 0; s < shards; ++s) {
    for (int i = 0; i < Objective::kSums; ++i) {
      result.sums[i] += sums[static_cast<size_t>(s)][static_cast<size_t>(i)];
    }
  }
  result.grad_norm = std::sqrt(sum_bundles(pool, shards, begin, end));
  if (!std::isfinite(result.grad_norm)) refuse_gradient(begin, end);
  const bool clip = step.max_grad_norm > 0 && result.grad_norm > step.max_grad_norm;
  const double scale = clip ? step.max_grad_norm / (result.grad_norm + 1e-6) : 1;
  if (part != Part::kCritic) descend(pool, step, begin, plan.actor_params, ++actor_steps_, scale);
  if (part != Part::kActor) descend(pool, step, plan.actor_params, end, ++critic_steps_, scale);
  kernels_.derive(plan, params_.data(), derived_.data());
  return result;
}

// The sum of the gradient's squares.
double FusedPolicy::sum_bundles(ThreadPool& pool, int shards, size_t begin, size_t end) {
  static_assert(kMaxShards / kBundle <= kBundle);
  std::array<const float*, kBundle> bundles;  // or shards
  int count = 0;
  for (int s = 0; s < shards; s += are_bundled(shards) ? kBundle : 1) {
    bundles[static_cast<size_t>(count++)] = slot_data_[static_cast<size_t>(s)];
  }
  const auto chunks = static_cast<int>((end - begin + kChunk - 1) / kChunk);
  pool.for_each(chunks, [&](int, int c) {
    const size_t from = begin + static_cast<size_t>(c) * kChunk;
    squares_[static_cast<size_t>(c)] = kernels_.reduce(
        bundles.data(), count, from, std::min(from + kChunk, end), gradient_.data());
  });
  double sum = 0;
  for (int c = 0; c < chunks; ++c) sum += squares_[static_cast<size_t>(c)];
  return sum;
}

void FusedPolicy::refuse_gradient(size_t begin, size_t end) const {
  for (size_t i = begin; i < end; ++i) {
    if (std::isfinite(gradient_.data()[i])) continue;
    throw Error(ErrorCode::kNumeric, "the gradient of " + layout_.name_at(i) + " is not finite");
  }
  throw Error(ErrorCode::kNumeric, "the gradient is too large to be squared");
}

void FusedPolicy::descend(ThreadPool& pool, const AdamStep& step, size_t begin, size_t end,
                          uint64_t steps, double scale) {
  const auto t = static_cast<double>(steps);
  const AdamCall whole{.params = params_.data(),
                       .gradient = gradient_.data(),
                       .m = m_.data(),
                       .v = v_.data(),
                       .begin = begin,
                       .end = end,
                       .scale = static_cast<float>(scale),
                       .beta1 = static_cast<float>(step.beta1),
                       .beta2 = static_cast<float>(step.beta2),
                       .epsilon = static_cast<float>(step.epsilon),
                       .rest1 = static_cast<float>(1 - step.beta1),
                       .rest2 = static_cast<float>(1 - step.beta2),
                       .rate = static_cast<float>(step.lr / (1 - std::pow(step.beta1, t))),
                       .v_correction = static_cast<float>(1 / (1 - std::pow(step.beta2, t)))};
  const auto chunks = static_cast<int>((end - begin + kDescendChunk - 1) / kDescendChunk);
  const auto change = [&](int, int c) {
    AdamCall call = whole;
    call.begin = begin + static_cast<size_t>(c) * kDescendChunk;
    call.end = std::min(call.begin + kDescendChunk, end);
    kernels_.adam(call);
  };
  if (chunks == 1) {
    change(0, 0);
  } else {
    pool.for_each(chunks, change);
  }
}

Tensors FusedPolicy::parameters() const {
  Tensors tensors = make_parameters(spec_);
  layout_.unpack(params_.data(), tensors);
  return tensors;
}

void FusedPolicy::set_parameters(const Tensors& tensors) {
  require_same_shapes(make_parameters(spec_), tensors);
  layout_.pack(tensors, params_.data());
  kernels_.derive(layout_.plan(), params_.data(), derived_.data());
}

Tensors FusedPolicy::optimiser() const {
  OptimiserState state(spec_);
  layout_.unpack(m_.data(), state.m);
  layout_.unpack(v_.data(), state.v);
  state.actor_steps = actor_steps_;
  state.critic_steps = critic_steps_;
  return state.join();
}

void FusedPolicy::set_optimiser(const Tensors& tensors) {
  OptimiserState state(spec_);
  state.split(tensors);
  layout_.pack(state.m, m_.data());
  layout_.pack(state.v, v_.data());
  actor_steps_ = state.actor_steps;
  critic_steps_ = state.critic_steps;
}

}  // namespace flotilla::fused

namespace flotilla {

std::string fused_refusal(const NetworkSpec& spec) {
  using namespace fused;
  const auto beyond = [](const char* what, size_t value, int limit) {
    return value > static_cast<size_t>(limit) ? std::string(what) + " " + std::to_string(value) +
                                                    " is over its limit of " + std::to_string(limit)
                                              : std::string();
  };
  std::string why = beyond("observation size", static_cast<size_t>(spec.inputs), kMaxInputs);
  if (why.empty())
    why = beyond("number of outputs", static_cast<size_t>(spec.outputs()), kMaxOutputs);
  if (why.empty()) why = beyond("action size", spec.action.dims(), kMaxBoxDims);
  for (const int width : spec.hidden) {
    if (why.empty()) why = beyond("hidden width", static_cast<size_t>(width), kMaxWidth);
  }
  return why;
}

std::unique_ptr<Policy> make_fused_policy(const NetworkSpec& spec, int parts, uint64_t seed) {
  return std::make_unique<fused::FusedPolicy>(spec, parts, initial_parameters(spec, seed),
                                              fused::kernels());
}

}  // namespace flotilla
