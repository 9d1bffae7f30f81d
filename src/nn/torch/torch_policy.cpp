// The policy on libtorch: any width, CPU or CUDA. The one source file that sees libtorch.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "flotilla/core/error.h"
#include "flotilla/nn/optimiser_state.h"
#include "flotilla/nn/torch/acting.h"
#include "flotilla/nn/torch/plugin.h"
#include "flotilla/nn/torch/recording.h"

namespace flotilla {
namespace {

using torch_nn::Array;
using torch_nn::Epsilon;
using torch_nn::guarded;
using torch_nn::loaded_function;
using torch_nn::Range;
using torch_nn::Recording;

constexpr size_t kLeastShard = 512, kMaxShards = 4;
constexpr size_t kEvaluatedOnGpu = 2048;  // rows on a GPU, where a few are no work
constexpr size_t kPictures = 64;          // of a shard: they are worth a thread of their own
constexpr size_t kMaxRecorded = 16;  // sizes of minibatches; each keeps its memory on the device

std::string blas_name() {
  if (auto* core = loaded_function<char*()>("openblas_get_corename")) {
    return std::string("OpenBLAS ") + core();
  }
  return at::hasMKL() ? "MKL" : "BLAS without a name";
}

Implementation implementation_on(at::Device device) {
  if (device.is_cuda()) {
    return {.kind = "torch",
            .name = "torch " TORCH_VERSION " cuda",
            .memory = Memory::kCuda,
            .torch = TORCH_VERSION,
            .matrix_library = ""};
  }
  const std::string blas = blas_name();
  return {.kind = "torch",
          .name = "torch " TORCH_VERSION " cpu, " + blas,
          .memory = Memory::kHost,
          .torch = TORCH_VERSION,
          .matrix_library = blas};
}

// The policy as it was at one moment.
class TorchSnapshot final : public ActingPolicy {
 public:
  TorchSnapshot(const NetworkSpec& spec, at::Device device)
      : ActingPolicy(spec),
        network_(spec, device),
        acting_(spec_, network_, obs_normaliser_, torch_nn::Beside::kLearner) {}

  void take(const torch_nn::Network& network, const ObsNormaliser& normaliser, uint64_t version) {
    const c10::NoGradGuard no_gradients;
    network_.flat().copy_(network.flat());
    if (network_.flat().is_cuda()) Recording::wait();  // other threads do not
    obs_normaliser_ = normaliser;
    version_ = version;
  }

  Implementation implementation() const override {
    return implementation_on(network_.flat().device());
  }
  int rows_per_part() const override { return acting_.tile(); }
  void act(int /*part*/, const ActRows& rows, const Draw& draw) const override {
    acting_.act(rows, draw);
  }
  void value(int /*part*/, const std::byte* obs, int count, float* out) const override {
    acting_.value(obs, count, out);
  }

 private:
  torch_nn::Network network_;
  torch_nn::TorchActing acting_;
};

// Snapshots that nobody acts with any more: the next ones take their place, with what was recorded.
class OldSnapshots : public std::enable_shared_from_this<OldSnapshots> {
 public:
  std::shared_ptr<TorchSnapshot> reuse(const NetworkSpec& spec, at::Device device) {
    std::unique_ptr<TorchSnapshot> made;
    {
      const std::lock_guard lock(mutex_);
      if (!unused_.empty()) {
        made = std::move(unused_.back());
        unused_.pop_back();
      }
    }
    if (made == nullptr) made = std::make_unique<TorchSnapshot>(spec, device);
    return {made.release(), [all = shared_from_this()](TorchSnapshot* snapshot) {
              const std::lock_guard lock(all->mutex_);
              all->unused_.emplace_back(snapshot);
            }};
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TorchSnapshot>> unused_;
};

class TorchPolicy final : public Policy {
 public:
  TorchPolicy(const NetworkSpec& spec, const PolicyOptions& options);

  Implementation implementation() const override { return implementation_on(device_); }
  int rows_per_part() const override { return acting_.tile(); }
  void act(int /*part*/, const ActRows& rows, const Draw& draw) const override {
    acting_.act(rows, draw);
  }
  void value(int /*part*/, const std::byte* obs, int count, float* out) const override {
    acting_.value(obs, count, out);
  }
  void evaluate(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                const RowTerms& out) override;
  Samples bring(ThreadPool& pool, const Samples& samples, size_t rows) override;
  LossSums gradient(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                    Nets nets, const Objective& objective) override;
  GradientView gradient_view() override;
  size_t gradient_count(Nets nets) override {
    return static_cast<size_t>(network_.range(nets).size);
  }
  void read_gradient(std::span<float> to) override;
  void write_gradient(Nets nets, std::span<const float> from) override;
  double apply(ThreadPool& pool, Nets nets, const GradientStep& step) override;
  std::span<float> parameter_view() override;
  void parameters_changed() override { ++version_; }
  std::unique_ptr<Policy> copy() const override;
  std::shared_ptr<const ActingPolicy> snapshot() const override;

  Tensors parameters() const override;
  void set_parameters(const Tensors& tensors) override;
  Tensors optimiser() const override;
  void set_optimiser(const Tensors& tensors) override;

 private:
  // Rows on the device. `latent`: choices or samples, by row and dimension.
  struct Batch {
    Array obs, open, latent;
  };
  // By row; undefined where it is not wanted.
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

  void require_known(const Samples& samples) const;
  Array upload(ThreadPool& pool, const std::byte* from, size_t bytes);
  Batch select(std::span<const int32_t> chosen) const;
  Batch gather(const Samples& samples, std::span<const int32_t> chosen) const;
  Outputs outputs(const Batch& batch, Nets nets, const Epsilon& epsilon) const;
  static Array seen(const Outputs& outputs);
  Array gradient_of(const Outputs& outputs, const Array& slopes, Nets nets) const;
  void learn_shard(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                   const Objective& objective, Shard& shard) const;
  void learn_recorded(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                      const Objective& objective, Shard& shard);
  static Array differentiate(const Objective& objective, std::span<const int32_t> chosen,
                             const Array& seen, double* sums);
  std::vector<Shard> learn_shards(ThreadPool& pool, const Samples& samples,
                                  std::span<const int32_t> chosen, Nets nets,
                                  const Objective& objective);
  double descend(Nets nets, const GradientStep& step);
  [[noreturn]] void refuse_gradient(const Range& range) const;
  void change(const Range& range, const Array& gradient, const GradientStep& step, double count);

  const at::Device device_;
  torch_nn::Network network_;
  torch_nn::TorchActing acting_;
  Array gradient_;  // of the nets it was asked for
  Array m_, v_;     // of the optimiser, laid out as the network's parameters
  Batch brought_;   // by bring(), all rows of it
  Array staging_;   // pages that a GPU reads by itself
  uint64_t actor_steps_ = 0, critic_steps_ = 0;
  const std::shared_ptr<OldSnapshots> old_snapshots_ = std::make_shared<OldSnapshots>();
  // By rows, nets, whether there are masks, and whether there is an epsilon.
  std::map<std::tuple<size_t, Nets, bool, bool>, Recorded> recorded_;
};

TorchPolicy::TorchPolicy(const NetworkSpec& spec, const PolicyOptions& options)
    : Policy(spec),
      device_(torch_nn::device_of(options.device)),
      network_(spec, device_),
      acting_(spec_, network_, obs_normaliser_, torch_nn::Beside::kNothing),
      m_(at::zeros_like(network_.flat())),
      v_(at::zeros_like(network_.flat())) {
  set_parameters(initial_parameters(spec, options.seed));
}

std::shared_ptr<const ActingPolicy> TorchPolicy::snapshot() const {
  return guarded([&]() -> std::shared_ptr<const ActingPolicy> {
    const auto made = old_snapshots_->reuse(spec_, device_);
    made->take(network_, obs_normaliser_, version_);
    return made;
  });
}

// ---- learning -----------------------------------------------------------------------------------

void TorchPolicy::require_known(const Samples& samples) const {
  const bool brought =
      brought_.obs.defined() && static_cast<const void*>(samples.obs) == brought_.obs.data_ptr();
  if (!brought) require_host(samples.memory);
}

Array TorchPolicy::upload(ThreadPool& pool, const std::byte* from, size_t bytes) {
  constexpr size_t kPiece = size_t{32} << 20;
  if (!staging_.defined()) {
    staging_ = at::empty({int64_t{kPiece}}, at::dtype(at::kByte).pinned_memory(true));
  }
  const Array to = at::empty({static_cast<int64_t>(bytes)}, at::device(device_).dtype(at::kByte));
  for (size_t at = 0; at < bytes; at += kPiece) {
    const size_t size = std::min(kPiece, bytes - at);
    pool.for_each(pool.threads(), [&](int, int part) {
      const Span mine = part_of({0, static_cast<int>(size)}, part, pool.threads());
      std::memcpy(staging_.data_ptr<uint8_t>() + mine.begin, from + at + mine.begin,
                  static_cast<size_t>(mine.size()));
    });
    to.narrow(0, static_cast<int64_t>(at), static_cast<int64_t>(size))
        .copy_(staging_.narrow(0, 0, static_cast<int64_t>(size)));
  }
  return to;
}

// Pictures alone: other rows are small, and are normalised on the host.
Samples TorchPolicy::bring(ThreadPool& pool, const Samples& samples, size_t rows) {
  if (!device_.is_cuda() || !torch_nn::takes_bytes(spec_)) return samples;
  require_host(samples.memory);
  return guarded([&]() -> Samples {
    const auto n = static_cast<int64_t>(rows);
    const auto dims = static_cast<int64_t>(spec_.action.dims());
    const size_t mask_bytes = rows * spec_.action.mask_size();
    const bool masked = samples.mask != nullptr && mask_bytes > 0;
    brought_ = {};  // its memory serves again
    brought_.obs = upload(pool, samples.obs, rows * spec_.obs_bytes()).view({n, spec_.inputs});
    if (masked) {
      const auto* flags = reinterpret_cast<const std::byte*>(samples.mask);
      brought_.open = upload(pool, flags, mask_bytes).view({n, -1}).to(at::kBool);
    }
    const Array latent = upload(pool, samples.latent, rows * spec_.action.dims() * sizeof(float));
    brought_.latent = spec_.action.is_box() ? latent.view(at::kFloat).view({n, dims})
                                            : latent.view(at::kInt).view({n, dims}).to(at::kLong);
    return {.obs = static_cast<const std::byte*>(brought_.obs.data_ptr()),
            .mask = masked ? static_cast<const uint8_t*>(brought_.open.data_ptr()) : nullptr,
            .latent = static_cast<const std::byte*>(brought_.latent.data_ptr()),
            .epsilon = samples.epsilon,
            .memory = Memory::kCuda};
  });
}

TorchPolicy::Batch TorchPolicy::select(std::span<const int32_t> chosen) const {
  const Array rows = at::from_blob(const_cast<int32_t*>(chosen.data()),
                                   {static_cast<int64_t>(chosen.size())}, at::kInt)
                         .to(device_);
  const auto pick = [&](const Array& from) {
    return from.defined() ? from.index_select(0, rows) : from;
  };
  return {pick(brought_.obs), pick(brought_.open), pick(brought_.latent)};
}

TorchPolicy::Batch TorchPolicy::gather(const Samples& samples,
                                       std::span<const int32_t> chosen) const {
  if (samples.memory == Memory::kCuda) return select(chosen);
  const auto n = static_cast<int64_t>(chosen.size());
  const size_t dims = spec_.action.dims(), bytes = dims * sizeof(float);
  torch_nn::HostObs obs(spec_, obs_normaliser_, n);
  torch_nn::HostMask mask(spec_, n, samples.mask != nullptr);
  Array latent =
      at::empty({n, static_cast<int64_t>(dims)}, spec_.action.is_box() ? at::kFloat : at::kInt);
  auto* to = static_cast<std::byte*>(latent.data_ptr());
  for (size_t i = 0; i < chosen.size(); ++i) {
    const auto row = static_cast<size_t>(chosen[i]);
    obs.put(i, samples.obs, row);
    mask.put(i, samples.mask, row);
    std::memcpy(to + i * bytes, samples.latent + row * bytes, bytes);
  }
  latent = latent.to(device_);
  return {obs.rows().to(device_), mask.open().defined() ? mask.open().to(device_) : Array(),
          spec_.action.is_box() ? latent : latent.to(at::kLong)};
}

// `seen`: rows of log-probabilities, entropies and values; the derivatives come back likewise.
Array TorchPolicy::differentiate(const Objective& objective, std::span<const int32_t> chosen,
                                 const Array& seen, double* sums) {
  const auto n = static_cast<int>(chosen.size());
  const bool there = seen.is_cuda() && objective.reads(Memory::kCuda);
  const Array from = (there ? seen : seen.to(at::kCPU)).contiguous();
  Array to = at::zeros({3, n}, from.options());
  const float* in = from.data_ptr<float>();
  auto* out = to.data_ptr<float>();
  const int at_once = objective.sequence() == 1 ? Objective::kMaxRows : n;
  for (int first = 0; first < n; first += at_once) {
    objective.differentiate({.count = std::min(at_once, n - first),
                             .sample = chosen.data() + first,
                             .logprob = in + first,
                             .entropy = in + n + first,
                             .value = in + 2 * n + first,
                             .d_logprob = out + first,
                             .d_entropy = out + n + first,
                             .d_value = out + 2 * n + first,
                             .memory = there ? Memory::kCuda : Memory::kHost},
                            sums);
  }
  return to.to(seen.device());
}

TorchPolicy::Outputs TorchPolicy::outputs(const Batch& batch, Nets nets,
                                          const Epsilon& epsilon) const {
  const bool actor = nets != Nets::kCritic, critic = nets != Nets::kActor;
  const torch_nn::Heads heads = network_.forward(batch.obs, actor, critic);
  Outputs outputs;
  if (actor) {
    const auto precise = [&](const Array& x) { return torch_nn::precise(x, device_); };
    const Array log_std = spec_.action.is_box() ? precise(network_.leaf("log_std")) : Array();
    const torch_nn::Terms terms = torch_nn::action_terms(spec_, precise(heads.actor), log_std,
                                                         batch.open, batch.latent, epsilon);
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

Array TorchPolicy::gradient_of(const Outputs& outputs, const Array& slopes, Nets nets) const {
  std::vector<Array> from, with;
  const Array* const all[] = {&outputs.logprob, &outputs.entropy, &outputs.value};
  for (int64_t i = 0; i < 3; ++i) {
    if (!all[i]->defined()) continue;
    from.push_back(*all[i]);
    with.push_back(slopes[i]);
  }
  std::vector<Array> gradients =
      torch::autograd::grad(from, network_.leaves(network_.range(nets)), with);
  for (Array& each : gradients) each = each.reshape({-1});
  return at::cat(gradients);
}

void TorchPolicy::learn_shard(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                              const Objective& objective, Shard& shard) const {
  const Batch batch = gather(samples, chosen);
  const Outputs found = outputs(batch, nets, Epsilon(static_cast<double>(samples.epsilon)));
  const Array slopes = differentiate(objective, chosen, seen(found), shard.sums);
  shard.gradient = gradient_of(found, slopes, nets);
}

// learn_shard() on a GPU. The first minibatch of a size is the rehearsal of the recordings, the
// second one records them; the objective is asked between both.
void TorchPolicy::learn_recorded(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                                 const Objective& objective, Shard& shard) {
  const std::tuple key(chosen.size(), nets, samples.mask != nullptr, samples.epsilon != 0);
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
        r.outputs = outputs(r.batch, nets, r.epsilon);
        r.seen = seen(r.outputs);
      },
      nullptr);
  take(r.slopes, differentiate(objective, chosen, r.seen, shard.sums));
  run(
      r.backward, [&] { r.gradient = gradient_of(r.outputs, r.slopes, nets); }, &r.forward);
  r.outputs = {};  // with what autograd keeps of this stream
  r.rehearsed = true;
  shard.gradient = r.gradient;
}

void TorchPolicy::refuse_gradient(const Range& range) const {
  for (size_t i = range.first_slot; i < range.first_slot + range.slots; ++i) {
    const torch_nn::Slot& slot = network_.slot(i);
    const Array here = gradient_.narrow(0, slot.first - range.first, slot.size);
    if (!here.isfinite().all().item<bool>()) {
      throw Error(ErrorCode::kNumeric, "the gradient of " + slot.name + " is not finite");
    }
  }
  throw Error(ErrorCode::kNumeric, "the norm of the gradient is not finite");
}

void TorchPolicy::change(const Range& range, const Array& gradient, const GradientStep& step,
                         double count) {
  Array m = m_.narrow(0, range.first, range.size), v = v_.narrow(0, range.first, range.size);
  Array params = network_.flat().narrow(0, range.first, range.size);
  if (const auto* adam = std::get_if<Adam>(&step.rule)) {
    const double correction1 = 1 - std::pow(adam->beta1, count);
    const double correction2 = 1 - std::pow(adam->beta2, count);
    m.mul_(adam->beta1).add_(gradient, 1 - adam->beta1);
    v.mul_(adam->beta2).addcmul_(gradient, gradient, 1 - adam->beta2);
    const Array divisor = (v / correction2).sqrt_().add_(adam->epsilon);
    params.addcdiv_(m, divisor, -step.lr / correction1);
  } else {
    const auto& rule = std::get<RmsProp>(step.rule);
    v.mul_(rule.decay).addcmul_(gradient, gradient, 1 - rule.decay);
    params.addcdiv_(gradient, v.sqrt().add_(rule.epsilon), -step.lr);
  }
}

std::vector<TorchPolicy::Shard> TorchPolicy::learn_shards(ThreadPool& pool, const Samples& samples,
                                                          std::span<const int32_t> chosen,
                                                          Nets nets, const Objective& objective) {
  if (device_.is_cuda()) {  // all rows at once
    std::vector<Shard> one(1);
    learn_recorded(samples, chosen, nets, objective, one[0]);
    return one;
  }
  // The cut depends on the number of rows alone, and on how many of them belong together.
  const size_t n = chosen.size(), whole = static_cast<size_t>(objective.sequence());
  const size_t least =
      spec_.sees_images() ? kPictures : std::max(kLeastShard, (n + kMaxShards - 1) / kMaxShards);
  const size_t size = (least + whole - 1) / whole * whole;
  std::vector<Shard> shards((n + size - 1) / size);
  pool.for_each(static_cast<int>(shards.size()), [&](int, int item) {
    const auto i = static_cast<size_t>(item);
    learn_shard(samples, chosen.subspan(i * size, std::min(n - i * size, size)), nets, objective,
                shards[i]);
  });
  return shards;
}

double TorchPolicy::descend(Nets nets, const GradientStep& step) {
  const c10::NoGradGuard no_gradients;
  const Range whole = network_.range(nets);
  const double norm = gradient_.to(at::kDouble).square().sum().sqrt().item<double>();
  if (!std::isfinite(norm)) refuse_gradient(whole);
  if (step.max_grad_norm > 0) gradient_ *= std::min(1.0, step.max_grad_norm / (norm + 1e-6));
  for (const Nets one : {Nets::kActor, Nets::kCritic}) {
    if (nets != Nets::kBoth && nets != one) continue;
    const Range range = network_.range(one);
    const uint64_t count = one == Nets::kActor ? ++actor_steps_ : ++critic_steps_;
    change(range, gradient_.narrow(0, range.first - whole.first, range.size), step,
           static_cast<double>(count));
  }
  ++version_;
  return norm;
}

void TorchPolicy::evaluate(ThreadPool& pool, const Samples& samples,
                           std::span<const int32_t> chosen, const RowTerms& out) {
  require_known(samples);
  if (chosen.empty()) return;
  const size_t n = chosen.size(), at_once = device_.is_cuda() ? kEvaluatedOnGpu : kLeastShard;
  guarded([&] {
    std::vector<Array> pieces((n + at_once - 1) / at_once);
    const auto evaluate_one = [&](size_t i) {
      const c10::NoGradGuard no_gradients;
      const auto rows = chosen.subspan(i * at_once, std::min(at_once, n - i * at_once));
      pieces[i] = seen(outputs(gather(samples, rows), Nets::kBoth,
                               Epsilon(static_cast<double>(samples.epsilon))));
    };
    if (device_.is_cuda()) {
      for (size_t i = 0; i < pieces.size(); ++i) evaluate_one(i);
    } else {
      pool.for_each(static_cast<int>(pieces.size()),
                    [&](int, int i) { evaluate_one(static_cast<size_t>(i)); });
    }
    const Array all = at::cat(pieces, 1).to(at::kCPU).contiguous();
    const auto copy_out = [&](int64_t which, float* to) {
      if (to != nullptr) std::copy_n(all[which].data_ptr<float>(), n, to);
    };
    copy_out(0, out.logprob);
    copy_out(1, out.entropy);
    copy_out(2, out.value);
  });
}

LossSums TorchPolicy::gradient(ThreadPool& pool, const Samples& samples,
                               std::span<const int32_t> chosen, Nets nets,
                               const Objective& objective) {
  require_known(samples);
  require_apart(nets);
  require_whole(chosen, objective);
  return guarded([&] {
    const std::vector<Shard> shards = learn_shards(pool, samples, chosen, nets, objective);
    const c10::NoGradGuard no_gradients;
    LossSums sums;
    gradient_ = at::zeros_like(shards[0].gradient);
    for (const Shard& shard : shards) {
      gradient_ += shard.gradient;
      for (int k = 0; k < Objective::kSums; ++k) sums.of[k] += shard.sums[k];
    }
    return sums;
  });
}

GradientView TorchPolicy::gradient_view() {
  if (!gradient_.defined()) gradient_ = at::zeros_like(network_.flat());
  return {.data = gradient_.data_ptr<float>(),
          .count = static_cast<size_t>(gradient_.numel()),
          .memory = device_.is_cuda() ? Memory::kCuda : Memory::kHost};
}

void TorchPolicy::read_gradient(std::span<float> to) {
  guarded([&] {
    const at::Tensor here = gradient_.to(at::kCPU).contiguous();
    std::copy_n(here.data_ptr<float>(), to.size(), to.data());
  });
}

void TorchPolicy::write_gradient(Nets nets, std::span<const float> from) {
  guarded([&] {
    at::Tensor here = at::empty({network_.range(nets).size}, at::kFloat);
    std::ranges::copy(from, here.data_ptr<float>());
    gradient_ = here.to(device_);
  });
}

double TorchPolicy::apply(ThreadPool& /*pool*/, Nets nets, const GradientStep& step) {
  return guarded([&] { return descend(nets, step); });
}

// ---- in and out ---------------------------------------------------------------------------------

std::span<float> TorchPolicy::parameter_view() {
  if (device_.is_cuda()) return Policy::parameter_view();
  return {network_.flat().data_ptr<float>(), static_cast<size_t>(network_.flat().numel())};
}

std::unique_ptr<Policy> TorchPolicy::copy() const {
  auto made = std::make_unique<TorchPolicy>(
      spec_, PolicyOptions{.kind = "torch", .device = device_.is_cuda() ? "cuda" : "cpu"});
  made->set_parameters(parameters());
  made->obs_normaliser_ = obs_normaliser_;
  return made;
}

Tensors TorchPolicy::parameters() const {
  return guarded([&] { return network_.read(network_.flat()); });
}

void TorchPolicy::set_parameters(const Tensors& tensors) {
  require_same_shapes(make_parameters(spec_), tensors);
  guarded([&] { network_.write(tensors, network_.flat()); });
  ++version_;
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
