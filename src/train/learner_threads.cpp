#include "flotilla/train/learner_threads.h"

#include <algorithm>
#include <vector>

#include "flotilla/core/clock.h"

namespace flotilla {
namespace {

// A gradient that takes so long is work for all of them.
constexpr double kLong_s = 0.02;
// A number of threads is preferred to a larger one only if it is clearly faster, and smaller ones
// are not tried once they are clearly slower.
constexpr double kFaster = 0.95, kSlower = 1.2;
constexpr int kTries = 3;

class SomeLoss final : public Objective {
 public:
  void differentiate(const Rows& rows, double*) const override {
    std::fill_n(rows.d_logprob, rows.count, 1.0F);
    std::fill_n(rows.d_entropy, rows.count, 1.0F);
    std::fill_n(rows.d_value, rows.count, 1.0F);
  }
};

// One row of an observation of zeros, as often as is asked for.
class SameRow {
 public:
  SameRow(const NetworkSpec& spec, int64_t rows)
      : obs_(spec.obs_bytes()),
        mask_(static_cast<size_t>(spec.outputs()), 1),
        latent_(spec.action.dims() * sizeof(float)),
        chosen_(static_cast<size_t>(rows)),
        samples_{.obs = obs_.data(),
                 .mask = spec.has_mask ? mask_.data() : nullptr,
                 .latent = latent_.data()} {}

  const Samples& samples() const { return samples_; }
  std::span<const int32_t> chosen() const { return chosen_; }

 private:
  std::vector<std::byte> obs_;
  std::vector<uint8_t> mask_;
  std::vector<std::byte> latent_;
  std::vector<int32_t> chosen_;
  Samples samples_;
};

double seconds_with(int threads, Policy& policy, const SameRow& row) {
  ThreadPool pool(threads);
  double least = 0;
  for (int i = 0; i <= kTries; ++i) {  // memory is touched in the first
    const uint64_t start = now_ns();
    policy.gradient(pool, row.samples(), row.chosen(), Nets::kBoth, SomeLoss());
    const double seconds = seconds_since(start);
    least = i < 2 ? seconds : std::min(least, seconds);
    if (least > kLong_s) break;
  }
  return least;
}

}  // namespace

int threads_worth(Policy& policy, int64_t rows, int most) {
  if (most == 1) return 1;
  const SameRow row(policy.spec(), rows);
  int best = most;
  double least = seconds_with(most, policy, row);
  if (least > kLong_s) return most;
  for (int threads = most / 2; threads >= 1; threads /= 2) {
    const double seconds = seconds_with(threads, policy, row);
    if (seconds > kSlower * least) break;
    if (seconds > kFaster * least) continue;
    least = seconds;
    best = threads;
  }
  return best;
}

}  // namespace flotilla
