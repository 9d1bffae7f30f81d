// The policy on libtorch: any width, CPU or CUDA. The one source file that sees libtorch.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <map>
#include <tuple>

#include "flotilla/core/error.h"
#include "flotilla/nn/optimiser_state.h"
#include "flotilla/nn/torch/distribution.h"
#include "flotilla/nn/torch/host_batch.h"
#include "flotilla/nn/torch/libtorch.h"
#include "flotilla/nn/torch/network.h"
#include "flotilla/nn/torch/plugin.h"
#include "flotilla/nn/torch/recording.h"
#include "flotilla/nn/torch/sampling.h"

namespace flotilla {
namespace {

using torch_nn::Array;
using torch_nn::Epsilon;
using torch_nn::guarded;
using torch_nn::loaded_function;
using torch_nn::Range;
using torch_nn::Recording;

// A matrix product may round a row differently when its shape or the row's place changes. So a row
// is always computed in a tile of this many, at the place its env's number says.
constexpr int kCpuTile = 64, kCudaTile = 1024;
constexpr size_t kLeastShard = 512, kMaxShards = 4;
constexpr size_t kMaxRecorded = 16;  // sizes of minibatches; each keeps its memory on the device

std::string blas_name() {
  if (auto* core = loaded_function<char*()>("openblas_get_corename")) {
    return std::string("OpenBLAS ") + core();
  }
  return at::hasMKL() ? "MKL" : "BLAS without a name";
}

class TorchPolicy final : public Policy {
 public:
  TorchPolicy(const NetworkSpec& spec, const PolicyOptions& options);

  std::string kernel() const override {
    if (device_.is_cuda()) return "torch " TORCH_VERSION " cuda";
    return "torch " TORCH_VERSION " cpu, " + blas_name();
  }
  int rows_per_part() const override { return tile_; }
  void act(int part, const ActRows& rows, const Draw& draw) const override;
  void value(int part, const std::byte* obs, int count, float* out) const override;
  LearnResult learn(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                    Part part, const Objective& objective, const AdamStep& step) override;

  Tensors parameters() const override;
  void set_parameters(const Tensors& tensors) override;
  Tensors optimiser() const override;
  void set_optimiser(const Tensors& tensors) override;

 private:
  // Rows on the device. `latent`: choices or samples, by row and dimension.
  struct Batch {
    Array obs, open, latent;
  };
  // By row; undefined where the part has none.
  struct Outputs {
    Array logprob, entropy, value;
  };
  struct Shard {
    Array gradient;
    double sums[Objective::kSums] = {};
  };
  // The passes over minibatches of one size on a GPU.
  struct Recorded {
    Batch batch;
    Epsilon epsilon;
    Outputs outputs;
    Array seen, slopes, gradient;
    bool rehearsed = false;
    Recording forward, backward;
  };

  Batch tile_batch(const ActRows& rows, int first_row, Span valid) const;
  void act_tile(const ActRows& rows, const Draw& draw, int first_row, Span valid) const;
  Array draw_choices(const std::vector<torch_nn::Choices>& choices, const ActRows& rows,
                     const Draw& draw, int first_row, Span valid) const;
  Array draw_box(const Array& mean, const ActRows& rows, const Draw& draw, int first_row,
                 Span valid) const;

  Batch gather(const Samples& samples, std::span<const int32_t> chosen) const;
  Outputs outputs(const Batch& batch, Part part, const Epsilon& epsilon) const;
  static Array seen(const Outputs& outputs);
  Array gradient(const Outputs& outputs, const Array& slopes, Part part) const;
  void learn_shard(const Samples& samples, std::span<const int32_t> chosen, Part part,
                   const Objective& objective, Shard& shard) const;
  void learn_recorded(const Samples& samples, std::span<const int32_t> chosen, Part part,
                      const Objective& objective, Shard& shard);
  static Array differentiate(const Objective& objective, std::span<const int32_t> chosen,
                             const Array& seen, double* sums);
  std::vector<Shard> learn_shards(ThreadPool& pool, const Samples& samples,
                                  std::span<const int32_t> chosen, Part part,
                                  const Objective& objective);
  LearnResult descend(const std::vector<Shard>& shards, Part part, const AdamStep& step);
  [[noreturn]] void refuse_gradient(const Array& gradient, const Range& range) const;
  void adam(const Range& range, const Array& gradient, const AdamStep& step, double count);

  const at::Device device_;
  const int tile_;
  torch_nn::Network network_;
  Array m_, v_;  // of Adam, laid out as the network's parameters
  uint64_t actor_steps_ = 0, critic_steps_ = 0;
  // By rows, part, whether there are masks, and whether there is an epsilon.
  std::map<std::tuple<size_t, Part, bool, bool>, Recorded> recorded_;
};

TorchPolicy::TorchPolicy(const NetworkSpec& spec, const PolicyOptions& options)
    : Policy(spec),
      device_(torch_nn::device_of(options.device)),
      tile_(device_.is_cuda() ? kCudaTile : kCpuTile),
      network_(spec, device_),
      m_(at::zeros_like(network_.flat())),
      v_(at::zeros_like(network_.flat())) {
  set_parameters(initial_parameters(spec, options.seed));
}

// ---- acting -------------------------------------------------------------------------------------

// Row `first_row` of `rows`, which may lie before the first, comes to the top of the tile; rows
// that are not there are zeros with every choice open.
TorchPolicy::Batch TorchPolicy::tile_batch(const ActRows& rows, int first_row, Span valid) const {
  torch_nn::HostBatch host(spec_, obs_normaliser_, tile_, rows.mask != nullptr);
  for (int i = valid.begin; i < valid.end; ++i) {
    host.put(static_cast<size_t>(i), rows.obs, rows.mask, static_cast<size_t>(first_row + i));
  }
  return {host.obs().to(device_), host.open(device_), Array()};
}

Array TorchPolicy::draw_choices(const std::vector<torch_nn::Choices>& choices, const ActRows& rows,
                                const Draw& draw, int first_row, Span valid) const {
  const size_t dims = spec_.action.dims();
  const torch_nn::Uniforms uniforms(draw, rows.first_env + first_row, tile_, dims);
  const Epsilon epsilon(static_cast<double>(draw.epsilon));
  Array latent = at::zeros({tile_, static_cast<int64_t>(dims)}, at::kLong);
  for (size_t d = 0; d < dims; ++d) {
    const auto count = static_cast<size_t>(spec_.action.choices[d]);
    const Array p = choices[d].probabilities(epsilon).to(at::kCPU);
    const float* table = p.data_ptr<float>();
    for (int i = valid.begin; i < valid.end; ++i) {
      const std::span<const float> row(table + static_cast<size_t>(i) * count, count);
      const int32_t choice =
          draw.greedy ? torch_nn::likeliest(row) : torch_nn::choose(row, uniforms(i, d));
      const size_t at = static_cast<size_t>(first_row + i) * dims + d;
      latent.data_ptr<int64_t>()[static_cast<size_t>(i) * dims + d] = choice;
      reinterpret_cast<int32_t*>(rows.action)[at] = choice;
      reinterpret_cast<int32_t*>(rows.latent)[at] = choice;
    }
  }
  return latent.to(device_);
}

Array TorchPolicy::draw_box(const Array& mean, const ActRows& rows, const Draw& draw, int first_row,
                            Span valid) const {
  const size_t dims = spec_.action.dims();
  const torch_nn::Uniforms uniforms(draw, rows.first_env + first_row, tile_, dims * 2);
  const Array deviation = network_.leaf("log_std").exp().to(at::kCPU);
  Array latent = mean.to(at::kCPU).clone();
  for (int i = valid.begin; i < valid.end; ++i) {
    for (size_t d = 0; d < dims; ++d) {
      float& sample = latent.data_ptr<float>()[static_cast<size_t>(i) * dims + d];
      if (!draw.greedy) {
        sample += deviation.data_ptr<float>()[d] *
                  torch_nn::normal(uniforms(i, 2 * d), uniforms(i, 2 * d + 1));
      }
      const size_t at = static_cast<size_t>(first_row + i) * dims + d;
      reinterpret_cast<float*>(rows.latent)[at] = sample;
      reinterpret_cast<float*>(rows.action)[at] = torch_nn::box_action(spec_, sample, d);
    }
  }
  return latent.to(device_);
}

void TorchPolicy::act_tile(const ActRows& rows, const Draw& draw, int first_row, Span valid) const {
  const Batch batch = tile_batch(rows, first_row, valid);
  const torch_nn::Heads heads = network_.forward(batch.obs, true, rows.value != nullptr);
  Array logprob;
  if (spec_.action.is_box()) {
    const Array latent = draw_box(heads.actor, rows, draw, first_row, valid);
    if (rows.logprob != nullptr) {
      logprob = torch_nn::gaussian_logprob(spec_, heads.actor, network_.leaf("log_std"), latent);
    }
  } else {
    const auto choices = torch_nn::choices_of(spec_.action, heads.actor, batch.open);
    const Array latent = draw_choices(choices, rows, draw, first_row, valid);
    if (rows.logprob != nullptr) {
      logprob =
          torch_nn::choices_logprob(choices, latent, Epsilon(static_cast<double>(draw.epsilon)));
    }
  }
  const auto copy_out = [&](const Array& from, float* to) {
    if (to == nullptr) return;
    const Array here = from.to(at::kCPU).contiguous();
    std::memcpy(to + first_row + valid.begin, here.data_ptr<float>() + valid.begin,
                static_cast<size_t>(valid.size()) * sizeof(float));
  };
  copy_out(logprob, rows.logprob);
  copy_out(heads.value, rows.value);
}

void TorchPolicy::act(int /*part*/, const ActRows& rows, const Draw& draw) const {
  guarded([&] {
    const c10::InferenceMode no_gradients;
    for (int first = -(rows.first_env % tile_); first < rows.count; first += tile_) {
      act_tile(rows, draw, first, {std::max(0, -first), std::min(tile_, rows.count - first)});
    }
  });
}

void TorchPolicy::value(int /*part*/, const std::byte* obs, int count, float* out) const {
  guarded([&] {
    const c10::InferenceMode no_gradients;
    for (int first = 0; first < count; first += tile_) {
      const Span valid{0, std::min(tile_, count - first)};
      const Batch batch = tile_batch({.obs = obs}, first, valid);
      const Array values = network_.forward(batch.obs, false, true).value.to(at::kCPU).contiguous();
      std::memcpy(out + first, values.data_ptr<float>(),
                  static_cast<size_t>(valid.size()) * sizeof(float));
    }
  });
}

// ---- learning -----------------------------------------------------------------------------------

TorchPolicy::Batch TorchPolicy::gather(const Samples& samples,
                                       std::span<const int32_t> chosen) const {
  const auto n = static_cast<int64_t>(chosen.size());
  const size_t dims = spec_.action.dims(), bytes = dims * sizeof(float);
  torch_nn::HostBatch host(spec_, obs_normaliser_, n, samples.mask != nullptr);
  Array latent =
      at::empty({n, static_cast<int64_t>(dims)}, spec_.action.is_box() ? at::kFloat : at::kInt);
  auto* to = static_cast<std::byte*>(latent.data_ptr());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto row = static_cast<size_t>(chosen[i]);
    host.put(i, samples.obs, samples.mask, row);
    std::memcpy(to + i * bytes, samples.latent + row * bytes, bytes);
  }
  latent = latent.to(device_);
  return {host.obs().to(device_), host.open(device_),
          spec_.action.is_box() ? latent : latent.to(at::kLong)};
}

// `seen`: rows of log-probabilities, entropies and values; the derivatives come back likewise.
Array TorchPolicy::differentiate(const Objective& objective, std::span<const int32_t> chosen,
                                 const Array& seen, double* sums) {
  const auto n = static_cast<int>(chosen.size());
  const Array from = seen.to(at::kCPU).contiguous();
  Array to = at::zeros({3, n});
  const float* in = from.data_ptr<float>();
  auto* out = to.data_ptr<float>();
  for (int first = 0; first < n; first += Objective::kMaxRows) {
    objective.differentiate({.count = std::min(Objective::kMaxRows, n - first),
                             .sample = chosen.data() + first,
                             .logprob = in + first,
                             .entropy = in + n + first,
                             .value = in + 2 * n + first,
                             .d_logprob = out + first,
                             .d_entropy = out + n + first,
                             .d_value = out + 2 * n + first},
                            sums);
  }
  return to.to(seen.device());
}

TorchPolicy::Outputs TorchPolicy::outputs(const Batch& batch, Part part,
                                          const Epsilon& epsilon) const {
  const bool actor = part != Part::kCritic, critic = part != Part::kActor;
  const torch_nn::Heads heads = network_.forward(batch.obs, actor, critic);
  Outputs outputs;
  if (actor) {
    const Array log_std = spec_.action.is_box() ? network_.leaf("log_std") : Array();
    const torch_nn::Terms terms =
        torch_nn::action_terms(spec_, heads.actor, log_std, batch.open, batch.latent, epsilon);
    outputs.logprob = terms.logprob;
    outputs.entropy = terms.entropy;
  }
  if (critic) outputs.value = heads.value;
  return outputs;
}

// What differentiate() takes: zeros for what is undefined.
Array TorchPolicy::seen(const Outputs& outputs) {
  const Array any = outputs.value.defined() ? outputs.value : outputs.logprob;
  const Array none = at::zeros_like(any.detach());
  const auto numbers = [&](const Array& x) { return x.defined() ? x.detach() : none; };
  return at::stack({numbers(outputs.logprob), numbers(outputs.entropy), numbers(outputs.value)});
}

Array TorchPolicy::gradient(const Outputs& outputs, const Array& slopes, Part part) const {
  std::vector<Array> from, with;
  const Array* const all[] = {&outputs.logprob, &outputs.entropy, &outputs.value};
  for (int64_t i = 0; i < 3; ++i) {
    if (!all[i]->defined()) continue;
    from.push_back(*all[i]);
    with.push_back(slopes[i]);
  }
  std::vector<Array> gradients =
      torch::autograd::grad(from, network_.leaves(network_.range(part)), with);
  for (Array& each : gradients) each = each.reshape({-1});
  return at::cat(gradients);
}

void TorchPolicy::learn_shard(const Samples& samples, std::span<const int32_t> chosen, Part part,
                              const Objective& objective, Shard& shard) const {
  const Batch batch = gather(samples, chosen);
  const Outputs found = outputs(batch, part, Epsilon(static_cast<double>(samples.epsilon)));
  const Array slopes = differentiate(objective, chosen, seen(found), shard.sums);
  shard.gradient = gradient(found, slopes, part);
}

// learn_shard() on a GPU. The first minibatch of a size is the rehearsal of the recordings, the
// second one records them; the objective is asked between both.
void TorchPolicy::learn_recorded(const Samples& samples, std::span<const int32_t> chosen, Part part,
                                 const Objective& objective, Shard& shard) {
  const std::tuple key(chosen.size(), part, samples.mask != nullptr, samples.epsilon != 0);
  if (!recorded_.contains(key) && recorded_.size() >= kMaxRecorded) recorded_.clear();
  Recorded& r = recorded_[key];
  const auto take = [](Array& to, const Array& from) {
    if (!from.defined()) return;
    if (to.defined()) {
      to.copy_(from);
    } else {
      to = from.clone();
    }
  };
  const Batch batch = gather(samples, chosen);
  const Epsilon epsilon(static_cast<double>(samples.epsilon));
  take(r.batch.obs, batch.obs);
  take(r.batch.open, batch.open);
  take(r.batch.latent, batch.latent);
  r.epsilon.any = epsilon.any;
  const auto number = [&](const Array& x) { return x.to(device_, at::kFloat); };
  take(r.epsilon.part, number(epsilon.part));
  take(r.epsilon.rest, number(epsilon.rest));

  const auto run = [&](Recording& recording, const auto& work, Recording* before) {
    if (!r.rehearsed) return Recording::rehearse(work);
    if (!recording.made()) recording.record(work, before);
    recording.replay();
  };
  run(
      r.forward,
      [&] {
        r.outputs = outputs(r.batch, part, r.epsilon);
        r.seen = seen(r.outputs);
      },
      nullptr);
  take(r.slopes, differentiate(objective, chosen, r.seen, shard.sums));
  run(
      r.backward, [&] { r.gradient = gradient(r.outputs, r.slopes, part); }, &r.forward);
  r.outputs = {};  // with what autograd keeps of this stream
  r.rehearsed = true;
  shard.gradient = r.gradient;
}

void TorchPolicy::refuse_gradient(const Array& gradient, const Range& range) const {
  for (size_t i = range.first_slot; i < range.first_slot + range.slots; ++i) {
    const torch_nn::Slot& slot = network_.slot(i);
    const Array here = gradient.narrow(0, slot.first - range.first, slot.size);
    if (!here.isfinite().all().item<bool>()) {
      throw Error(ErrorCode::kNumeric, "the gradient of " + slot.name + " is not finite");
    }
  }
  throw Error(ErrorCode::kNumeric, "the norm of the gradient is not finite");
}

void TorchPolicy::adam(const Range& range, const Array& gradient, const AdamStep& step,
                       double count) {
  const double correction1 = 1 - std::pow(step.beta1, count);
  const double correction2 = 1 - std::pow(step.beta2, count);
  Array m = m_.narrow(0, range.first, range.size), v = v_.narrow(0, range.first, range.size);
  m.mul_(step.beta1).add_(gradient, 1 - step.beta1);
  v.mul_(step.beta2).addcmul_(gradient, gradient, 1 - step.beta2);
  const Array divisor = (v / correction2).sqrt_().add_(step.epsilon);
  network_.flat().narrow(0, range.first, range.size).addcdiv_(m, divisor, -step.lr / correction1);
}

std::vector<TorchPolicy::Shard> TorchPolicy::learn_shards(ThreadPool& pool, const Samples& samples,
                                                          std::span<const int32_t> chosen,
                                                          Part part, const Objective& objective) {
  if (device_.is_cuda()) {  // all rows at once
    std::vector<Shard> one(1);
    learn_recorded(samples, chosen, part, objective, one[0]);
    return one;
  }
  // The cut depends on the number of rows alone.
  const size_t n = chosen.size();
  const size_t size = std::max(kLeastShard, (n + kMaxShards - 1) / kMaxShards);
  std::vector<Shard> shards((n + size - 1) / size);
  pool.run([&](int thread) {
    const Span mine = part_of({0, static_cast<int>(shards.size())}, thread, pool.threads());
    for (auto i = static_cast<size_t>(mine.begin); i < static_cast<size_t>(mine.end); ++i) {
      learn_shard(samples, chosen.subspan(i * size, std::min(n - i * size, size)), part, objective,
                  shards[i]);
    }
  });
  return shards;
}

LearnResult TorchPolicy::descend(const std::vector<Shard>& shards, Part part,
                                 const AdamStep& step) {
  const c10::NoGradGuard no_gradients;
  LearnResult result;
  Array gradient = at::zeros_like(shards[0].gradient);
  for (const Shard& shard : shards) {
    gradient += shard.gradient;
    for (int k = 0; k < Objective::kSums; ++k) result.sums[k] += shard.sums[k];
  }
  const Range whole = network_.range(part);
  result.grad_norm = gradient.to(at::kDouble).square().sum().sqrt().item<double>();
  if (!std::isfinite(result.grad_norm)) refuse_gradient(gradient, whole);
  if (step.max_grad_norm > 0) {
    gradient *= std::min(1.0, step.max_grad_norm / (result.grad_norm + 1e-6));
  }
  for (const Part one : {Part::kActor, Part::kCritic}) {
    if (part != Part::kAll && part != one) continue;
    const Range range = network_.range(one);
    const uint64_t count = one == Part::kActor ? ++actor_steps_ : ++critic_steps_;
    adam(range, gradient.narrow(0, range.first - whole.first, range.size), step,
         static_cast<double>(count));
  }
  return result;
}

LearnResult TorchPolicy::learn(ThreadPool& pool, const Samples& samples,
                               std::span<const int32_t> chosen, Part part,
                               const Objective& objective, const AdamStep& step) {
  if (spec_.shared && part != Part::kAll) {
    throw Error(ErrorCode::kUsage, "actor and critic share layers: they learn together only");
  }
  if (chosen.empty()) throw Error(ErrorCode::kUsage, "no rows to learn from");
  return guarded(
      [&] { return descend(learn_shards(pool, samples, chosen, part, objective), part, step); });
}

// ---- in and out ---------------------------------------------------------------------------------

Tensors TorchPolicy::parameters() const {
  return guarded([&] { return network_.read(network_.flat()); });
}

void TorchPolicy::set_parameters(const Tensors& tensors) {
  require_same_shapes(make_parameters(spec_), tensors);
  guarded([&] { network_.write(tensors, network_.flat()); });
}

Tensors TorchPolicy::optimiser() const {
  return guarded([&] {
    OptimiserState state(spec_);
    state.m = network_.read(m_);
    state.v = network_.read(v_);
    state.actor_steps = actor_steps_;
    state.critic_steps = critic_steps_;
    return state.join();
  });
}

void TorchPolicy::set_optimiser(const Tensors& tensors) {
  OptimiserState state(spec_);
  state.split(tensors);
  guarded([&] {
    network_.write(state.m, m_);
    network_.write(state.v, v_);
  });
  actor_steps_ = state.actor_steps;
  critic_steps_ = state.critic_steps;
}

}  // namespace
}  // namespace flotilla

extern "C" [[gnu::visibility("default")]] flotilla::Policy* flotilla_make_torch_policy(
    const flotilla::NetworkSpec& spec, const flotilla::PolicyOptions& options) {
  return flotilla::torch_nn::guarded([&]() -> flotilla::Policy* {
    flotilla::torch_nn::use_one_thread();
    return new flotilla::TorchPolicy(spec, options);
  });
}
