// What the tests of the policies share: networks of every kind, rows for them, losses, and the
// kernels that all must carry them out alike.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/nn/fused/fused_policy.h"
#include "flotilla/nn/fused/kernel_choice.h"
#include "flotilla/nn/make_policy.h"
#include "support/slow_policy.h"

namespace flotilla::test {

// ---- networks -----------------------------------------------------------------------------------

struct Case {
  std::string name;
  NetworkSpec spec;
  float epsilon = 0;
};

inline NetworkSpec network(int inputs, std::vector<int> hidden, Activation activation, bool shared,
                           ActionSpace action) {
  NetworkSpec spec;
  spec.inputs = inputs;
  spec.hidden = std::move(hidden);
  spec.activation = activation;
  spec.shared = shared;
  spec.init = Init::kDefault;
  spec.action = std::move(action);
  return spec;
}

// Small ones, one or two for everything a network can be asked for.
inline std::vector<Case> small_cases() {
  constexpr auto kTanh = Activation::kTanh, kRelu = Activation::kRelu;
  std::vector<Case> all;
  const auto add = [&](const char* name, NetworkSpec spec, float epsilon = 0) -> NetworkSpec& {
    return all.emplace_back(name, std::move(spec), epsilon).spec;
  };
  add("discrete, tanh", network(4, {16, 16}, kTanh, false, ActionSpace::discrete(3)));
  add("discrete, relu, shared", network(7, {24, 9}, kRelu, true, ActionSpace::discrete(5)));
  add("masked", network(5, {11}, kTanh, false, ActionSpace::discrete(6))).has_mask = true;
  add("masked, epsilon", network(5, {13, 8}, kRelu, true, ActionSpace::discrete(6)), 0.2F)
      .has_mask = true;
  add("epsilon", network(3, {10}, kTanh, false, ActionSpace::discrete(4)), 0.1F);
  add("many", network(6, {12, 7, 5}, kTanh, true, ActionSpace::multi_discrete({3, 2, 4})));
  add("many, masked, epsilon",
      network(6, {12}, kRelu, false, ActionSpace::multi_discrete({3, 2, 4})), 0.05F)
      .has_mask = true;
  add("box", network(3, {16, 16}, kTanh, false, ActionSpace::box({-2, 0}, {2, 5}))).log_std = -0.5;
  NetworkSpec& squashed = add("box, squashed, shared",
                              network(8, {15}, kRelu, true, ActionSpace::box({-1, -3}, {1, 3})));
  squashed.squash = true;
  squashed.log_std = 0.3;
  NetworkSpec& bytes =
      add("bytes, normalised", network(9, {10}, kTanh, false, ActionSpace::discrete(3)));
  bytes.obs_type = ObsType::kUint8;
  bytes.normalise_obs = true;
  add("no hidden layer", network(4, {}, kTanh, true, ActionSpace::discrete(2)));
  return all;
}

inline std::string describe(const NetworkSpec& spec, float epsilon) {
  std::string text = std::to_string(spec.inputs) + " inputs";
  if (spec.obs_type == ObsType::kUint8) text += " of bytes";
  if (spec.normalise_obs) text += ", normalised";
  for (const int width : spec.hidden) text += ", " + std::to_string(width);
  text += spec.activation == Activation::kTanh ? ", tanh" : ", relu";
  if (spec.shared) text += ", shared";
  text += ", " + (spec.outputs() > 8 ? std::to_string(spec.outputs()) + " outputs"
                                     : spec.action.describe());
  if (spec.action.is_box()) text += spec.squash ? " of a squashed box" : " of a box";
  if (spec.has_mask) text += ", masked";
  if (epsilon > 0) text += ", epsilon";
  return text;
}

// The `number`-th network of random shape: 1 to 4 layers of 1 to 256, 1 to 100 inputs, up to 256
// outputs. Sixteen in a row have every depth with every kind of action.
inline Case random_case(uint32_t number) {
  Rng rng(number, stream_of(Purpose::kTest, 2));
  // From 1 to `most`, the small as likely as the large, and `most` itself now and then.
  const auto size = [&](int most) {
    if (rng.chance(0.15)) return most;
    return static_cast<int>(std::exp(rng.uniform(0, std::log(most + 1.0))));
  };
  const auto action = [&]() -> ActionSpace {
    if (number % 4 == 0) return ActionSpace::discrete(size(256));
    if (number % 4 == 1) {
      std::vector<int> choices(1 + rng.below(6));
      for (int& count : choices) count = size(42);
      return ActionSpace::multi_discrete(choices);
    }
    std::vector<float> low(static_cast<size_t>(size(24))), high;
    for (float& x : low) {
      x = static_cast<float>(rng.uniform(-3, 0));
      high.push_back(x + static_cast<float>(rng.uniform(0.5, 4)));
    }
    return ActionSpace::box(low, high);
  };
  std::vector<int> hidden(1 + number / 4 % 4);
  for (int& width : hidden) width = size(256);
  const auto activation = rng.chance(0.5) ? Activation::kTanh : Activation::kRelu;
  const bool shared = rng.chance(0.5);
  Case c{.name = "", .spec = network(size(100), hidden, activation, shared, action())};
  c.spec.obs_type = rng.chance(0.3) ? ObsType::kUint8 : ObsType::kFloat32;
  c.spec.normalise_obs = rng.chance(0.4);
  c.spec.log_std = rng.uniform(-1, 0.5);
  c.spec.squash = number % 4 == 3;
  c.spec.has_mask = !c.spec.action.is_box() && rng.chance(0.5);
  c.epsilon = !c.spec.action.is_box() && rng.chance(0.5) ? 0.1F : 0;
  c.name = "number " + std::to_string(number) + ": " + describe(c.spec, c.epsilon);
  return c;
}

inline std::vector<Case> random_cases(uint32_t count) {
  std::vector<Case> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(random_case(i));
  return all;
}

// ---- rows ---------------------------------------------------------------------------------------

// The rows of a rollout, with the actions that were taken on them.
class Rollout {
 public:
  Rollout(const NetworkSpec& spec, int rows, float epsilon, uint64_t seed)
      : spec_(spec), rows_(rows), epsilon_(epsilon), rng_(seed, stream_of(Purpose::kTest, 1)) {
    const bool bytes = spec.obs_type == ObsType::kUint8;
    const size_t numbers = size() * static_cast<size_t>(spec.inputs);
    obs_.resize(numbers * (bytes ? 1 : sizeof(float)));
    for (size_t i = 0; i < numbers; ++i) {
      if (bytes) {  // as they are, large ones would leave nothing of tanh but its ends
        obs_[i] = static_cast<std::byte>(rng_.below(spec.normalise_obs ? 256 : 4));
      } else {
        reinterpret_cast<float*>(obs_.data())[i] = static_cast<float>(rng_.normal());
      }
    }
    if (spec.has_mask) draw_mask();
    action_.resize(size() * spec.action.dims() * sizeof(float));
    latent_.resize(action_.size());
    logprob_.resize(size());
    value_.resize(size());
    chosen_.resize(size());
    std::iota(chosen_.begin(), chosen_.end(), 0);
  }

  ActRows act_rows(int first, int count, int first_env) {
    const auto row = static_cast<size_t>(first);
    const size_t action_bytes = spec_.action.dims() * sizeof(float);
    return {.count = count,
            .first_env = first_env,
            .obs = obs_.data() + row * (obs_.size() / size()),
            .mask = mask_.empty() ? nullptr : mask_.data() + row * spec_.action.mask_size(),
            .action = action_.data() + row * action_bytes,
            .latent = latent_.data() + row * action_bytes,
            .logprob = logprob_.data() + row,
            .value = value_.data() + row};
  }
  void act(const Policy& policy, bool greedy = false) {
    policy.act(0, act_rows(0, rows_, 0), draw(greedy));
  }
  // Actions that no policy chose: any open choice, any sample.
  void act_at_random() {
    for (size_t row = 0, flag = 0; row < size(); ++row) {
      for (size_t d = 0; d < spec_.action.dims(); ++d) {
        std::byte* to = latent_.data() + (row * spec_.action.dims() + d) * sizeof(float);
        if (spec_.action.is_box()) {
          *reinterpret_cast<float*>(to) = static_cast<float>(rng_.normal());
          continue;
        }
        const auto count = static_cast<uint32_t>(spec_.action.choices[d]);
        uint32_t choice = rng_.below(count);
        while (!mask_.empty() && mask_[flag + choice] == 0) choice = (choice + 1) % count;
        *reinterpret_cast<int32_t*>(to) = static_cast<int32_t>(choice);
        flag += count;
      }
    }
  }
  Draw draw(bool greedy = false) const {
    return {.seed = kSeed, .step = kStep, .epsilon = epsilon_, .greedy = greedy};
  }
  static constexpr uint64_t kSeed = 5, kStep = 17;

  Samples samples() const {
    return {.obs = obs_.data(),
            .mask = mask_.empty() ? nullptr : mask_.data(),
            .latent = latent_.data(),
            .epsilon = epsilon_};
  }

  size_t size() const { return static_cast<size_t>(rows_); }
  int rows() const { return rows_; }
  std::vector<std::byte>& obs() { return obs_; }
  const int32_t* choice(size_t row) const {
    return reinterpret_cast<const int32_t*>(latent_.data()) + row * spec_.action.dims();
  }
  const float* sample(size_t row) const {
    return reinterpret_cast<const float*>(latent_.data()) + row * spec_.action.dims();
  }
  const float* action(size_t row) const {
    return reinterpret_cast<const float*>(action_.data()) + row * spec_.action.dims();
  }
  const std::vector<std::byte>& actions() const { return action_; }
  const std::vector<float>& logprob() const { return logprob_; }
  const std::vector<float>& value() const { return value_; }
  std::span<const int32_t> chosen() const { return chosen_; }

 private:
  // Some choice of every dimension stays open.
  void draw_mask() {
    mask_.assign(size() * spec_.action.mask_size(), 0);
    size_t first = 0;
    for (size_t row = 0; row < size(); ++row) {
      for (const int choices : spec_.action.choices) {
        const auto count = static_cast<uint32_t>(choices);
        for (size_t c = 0; c < count; ++c) mask_[first + c] = rng_.chance(0.5);
        mask_[first + rng_.below(count)] = 1;
        first += count;
      }
    }
  }

  NetworkSpec spec_;
  int rows_;
  float epsilon_;
  Rng rng_;
  std::vector<std::byte> obs_, action_, latent_;
  std::vector<uint8_t> mask_;
  std::vector<float> logprob_, value_;
  std::vector<int32_t> chosen_;
};

// ---- losses -------------------------------------------------------------------------------------

// A loss with slopes that differ from row to row and depend on all it sees.
class Mixture : public Objective {
 public:
  explicit Mixture(size_t rows) : scale_(1.0F / static_cast<float>(rows)) {}

  void differentiate(const Rows& rows, double* sums) const override {
    EXPECT_LE(rows.count, kMaxRows);
    for (int i = 0; i < rows.count; ++i) {
      const auto phase = static_cast<float>(rows.sample[i] % 7);
      rows.d_logprob[i] = scale_ * (0.3F * phase - 1 + 0.1F * std::tanh(rows.logprob[i]));
      rows.d_entropy[i] = scale_ * (0.2F - 0.05F * phase);
      rows.d_value[i] = scale_ * (rows.value[i] - phase);
      sums[0] += static_cast<double>(rows.logprob[i]);
      sums[1] += static_cast<double>(rows.entropy[i]);
      sums[2] += static_cast<double>(rows.value[i]);
      sums[7] += 1;
    }
  }

 private:
  float scale_;
};

// Remembers what it is shown, and asks for no change.
class Recorder : public Objective {
 public:
  explicit Recorder(size_t rows) : logprob(rows), entropy(rows), value(rows) {}
  void differentiate(const Rows& rows, double*) const override {
    for (int i = 0; i < rows.count; ++i) {
      const auto row = static_cast<size_t>(rows.sample[i]);
      logprob[row] = rows.logprob[i];
      entropy[row] = rows.entropy[i];
      value[row] = rows.value[i];
      rows.d_logprob[i] = rows.d_entropy[i] = rows.d_value[i] = 0;
    }
  }
  mutable std::vector<float> logprob, entropy, value;
};

// The same slopes for every row but one.
class Slopes : public Objective {
 public:
  Slopes(float slope, int32_t sample, float other)
      : slope_(slope), other_(other), sample_(sample) {}
  void differentiate(const Rows& rows, double*) const override {
    for (int i = 0; i < rows.count; ++i) {
      rows.d_entropy[i] = rows.d_value[i] = slope_;
      rows.d_logprob[i] = rows.sample[i] == sample_ ? other_ : slope_;
    }
  }

 private:
  float slope_, other_;
  int32_t sample_;
};

// ---- kernels ------------------------------------------------------------------------------------

struct Kernel {
  std::string name;
  const fused::Kernels* fused = nullptr;  // null: libtorch
  Precision precision = Precision::kFp32;

  bool is_torch() const { return fused == nullptr; }
};
inline void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

// The fused kernels with factors of bfloat16.
inline std::vector<Kernel> bf16_kernels() {
  std::vector<Kernel> all;
  for (const fused::Kernels* kernels : fused::compiled_kernels(Precision::kBf16)) {
    all.push_back({kernels->name + std::string("_bf16"), kernels, Precision::kBf16});
  }
  return all;
}

inline std::vector<Kernel> every_kernel() {
  std::vector<Kernel> all;
  for (const fused::Kernels* kernels : fused::compiled_kernels()) {
    all.push_back({kernels->name, kernels});
  }
  all.push_back({"torch", nullptr});
  return all;
}

// Deviations of some columns are so small that what is seen later is clipped.
inline void fill(ObsNormaliser& normaliser, const NetworkSpec& spec) {
  if (!spec.normalise_obs) return;
  constexpr size_t kRows = 32;
  const bool bytes = spec.obs_type == ObsType::kUint8;
  std::vector<float> rows(kRows * static_cast<size_t>(spec.inputs));
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool narrow = i % static_cast<size_t>(spec.inputs) % 3 == 0;
    const auto wave = static_cast<float>(i * 37 % 50) / 25 - 1;
    rows[i] = bytes ? 128 + wave * (narrow ? 9 : 60) : 0.3F + wave * (narrow ? 0.1F : 2);
  }
  normaliser.update(rows.data(), kRows, nullptr);
}

inline std::unique_ptr<Policy> make_on(const Kernel& kernel, NetworkSpec spec, uint64_t seed = 3) {
  constexpr int kParts = 3;
  spec.precision = kernel.precision;
  std::unique_ptr<Policy> policy;
  if (kernel.is_torch()) {
    PolicyOptions options{.kind = "torch", .parts = kParts, .seed = seed};
    const char* device = std::getenv("FLOTILLA_TEST_DEVICE");
    if (device != nullptr) options.device = device;
    policy = make_torch_policy(spec, options);
  } else {
    policy = std::make_unique<fused::FusedPolicy>(spec, kParts, initial_parameters(spec, seed),
                                                  *kernel.fused);
  }
  fill(policy->obs_normaliser(), spec);
  return policy;
}

// Why a kernel cannot be tried here; "" when it can.
inline std::string missing(const Kernel& kernel) {
  if (!kernel.is_torch()) return can_run(*kernel.fused) ? "" : "this CPU cannot run " + kernel.name;
  static const std::string why = [&]() -> std::string {
    try {
      make_on(kernel, small_cases()[0].spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }();
  return why;
}

// Where a kernel is missing, its tests skip. FLOTILLA_TEST_DEVICE=cuda runs those of libtorch
// there.
class OnEveryKernel : public testing::TestWithParam<Kernel> {
 protected:
  void SetUp() override {
    const std::string why = missing(GetParam());
    if (!why.empty()) GTEST_SKIP() << why;
  }
  static bool is_torch() { return GetParam().is_torch(); }
  static std::unique_ptr<Policy> make(const NetworkSpec& spec, uint64_t seed = 3) {
    return make_on(GetParam(), spec, seed);
  }
};

inline std::string kernel_name(const testing::TestParamInfo<Kernel>& info) {
  return info.param.name;
}

// The twin of all that make() gives for a spec and a seed.
inline SlowPolicy make_twin(const NetworkSpec& spec, uint64_t seed = 3) {
  SlowPolicy twin(spec, initial_parameters(spec, seed));
  ObsNormaliser normaliser(static_cast<size_t>(spec.inputs));
  fill(normaliser, spec);
  twin.set_normaliser(normaliser);
  return twin;
}

inline SlowPolicy twin_of(const Policy& policy) {
  SlowPolicy twin(policy.spec(), policy.parameters());
  twin.set_normaliser(policy.obs_normaliser());
  return twin;
}

// ---- comparisons --------------------------------------------------------------------------------

inline bool same_bits(const Tensors& a, const Tensors& b) { return sha256(a) == sha256(b); }

// Every number of a tensor, within `tolerance` of the largest, or of `least`.
inline void expect_near(const Tensors& tensors, const std::string& prefix,
                        const SlowPolicy::Named& named, double tolerance, double least) {
  for (const auto& [name, values] : named) {
    const Tensor& tensor = find_tensor(tensors, prefix + name);
    ASSERT_EQ(tensor.elements(), values.size());
    double largest = least;
    for (const double x : values) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(tensor.data[i], values[i], tolerance * largest)
          << prefix << name << "[" << i << "]";
    }
  }
}

// The distance between where two of every tensor have come from `start`, as a part of the way.
template <class Values>
double distance_of_ways(const Tensor& start, const Values& a, const std::vector<float>& b) {
  constexpr double kNothing = 1e-6;  // a way so short is all rounding
  double apart = 0, way = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    way += std::pow(static_cast<double>(a[i]) - static_cast<double>(start.data[i]), 2);
  }
  return std::sqrt(apart) / (std::sqrt(way) + kNothing * std::sqrt(static_cast<double>(b.size())));
}

}  // namespace flotilla::test
