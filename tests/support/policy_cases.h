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
#include "flotilla/core/rng.h"
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

NetworkSpec network(int inputs, std::vector<int> hidden, Activation activation, bool shared,
                    ActionSpace action);

// Small ones, one or two for everything a network can be asked for.
std::vector<Case> small_cases();
// Whose minibatches are learnt from in another way if they have few rows.
std::vector<Case> wide_cases();

std::string describe(const NetworkSpec& spec, float epsilon);

// The `number`-th network of random shape: 1 to 4 layers of 1 to 256, 1 to 100 inputs, up to 256
// outputs. Sixteen in a row have every depth with every kind of action.
Case random_case(uint32_t number);

std::vector<Case> random_cases(uint32_t count);

// ---- rows ---------------------------------------------------------------------------------------

// The rows of a rollout, with the actions that were taken on them.
class Rollout {
 public:
  Rollout(const NetworkSpec& spec, int rows, float epsilon, uint64_t seed);

  ActRows act_rows(int first, int count, int first_env);
  void act(const Policy& policy, bool greedy = false);
  // Actions that no policy chose: any open choice, any sample.
  void act_at_random();
  Draw draw(bool greedy = false) const;
  static constexpr uint64_t kSeed = 5, kStep = 17;

  Samples samples() const;

  size_t size() const { return static_cast<size_t>(rows_); }
  int rows() const { return rows_; }
  std::vector<std::byte>& obs() { return obs_; }
  const int32_t* choice(size_t row) const;
  const float* sample(size_t row) const;
  const float* action(size_t row) const;
  const std::vector<std::byte>& actions() const { return action_; }
  const std::vector<float>& logprob() const { return logprob_; }
  const std::vector<float>& value() const { return value_; }
  std::span<const int32_t> chosen() const { return chosen_; }

 private:
  // Some choice of every dimension stays open.
  void draw_mask();

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
std::vector<Kernel> bf16_kernels();

std::vector<Kernel> every_kernel();

// Deviations of some columns are so small that what is seen later is clipped.
void fill(ObsNormaliser& normaliser, const NetworkSpec& spec);

std::unique_ptr<Policy> make_on(const Kernel& kernel, NetworkSpec spec, uint64_t seed = 3);

// Why a kernel cannot be tried here; "" when it can.
std::string missing(const Kernel& kernel);

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

std::string kernel_name(const testing::TestParamInfo<Kernel>& info);

// The twin of all that make() gives for a spec and a seed.
SlowPolicy make_twin(const NetworkSpec& spec, uint64_t seed = 3);

SlowPolicy twin_of(const Policy& policy);

// ---- comparisons --------------------------------------------------------------------------------

inline bool same_bits(const Tensors& a, const Tensors& b) { return sha256(a) == sha256(b); }

// Every number of a tensor, within `tolerance` of the largest, or of `least`.
void expect_near(const Tensors& tensors, const std::string& prefix, const SlowPolicy::Named& named,
                 double tolerance, double least);

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
