#include "flotilla/train/learner_threads.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <vector>

#include "flotilla/core/clock.h"

namespace flotilla {
namespace {

// A gradient that takes so long is work for all of them.
constexpr double kLong_s = 0.02;
// A number of threads is preferred to a larger one only if it is clearly faster, and smaller ones
// are not tried once they are clearly slower.
constexpr double kFaster = 0.9, kSlower = 1.2;
// Gradients in a row, of which the middle one counts, and how often all is tried again: another
// program that takes a core for some milliseconds must not decide.
constexpr int kTries = 3, kRounds = 3;

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
  std::array<double, kTries + 1> took{};
  for (double& seconds : took) {
    const uint64_t start = now_ns();
    policy.gradient(pool, row.samples(), row.chosen(), Nets::kBoth, SomeLoss());
    seconds = seconds_since(start);
    if (seconds > kLong_s) return seconds;
  }
  const auto tries = std::span(took).subspan(1);  // memory is touched in the first
  std::ranges::sort(tries);
  return tries[kTries / 2];
}

struct Candidate {
  int threads;
  double least_s = std::numeric_limits<double>::infinity();
};

// From most to one, as far as fewer threads are not clearly slower.
std::vector<Candidate> measured(Policy& policy, const SameRow& row, int most) {
  std::vector<Candidate> all;
  for (int threads = most; threads >= 1; threads /= 2) all.push_back({threads});
  for (int round = 0; round < kRounds; ++round) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < all.size(); ++i) {
      double& seconds = all[i].least_s;
      seconds = std::min(seconds, seconds_with(all[i].threads, policy, row));
      if (i == 0 && seconds > kLong_s) return {all[0]};
      if (seconds > kSlower * least) {
        all.resize(i);
        break;
      }
      least = std::min(least, seconds);
    }
  }
  return all;
}

}  // namespace

int threads_worth(Policy& policy, int64_t rows, int most) {
  if (most == 1) return 1;
  Candidate best{most};
  for (const Candidate& candidate : measured(policy, SameRow(policy.spec(), rows), most)) {
    if (candidate.threads == most || candidate.least_s < kFaster * best.least_s) best = candidate;
  }
  return best.threads;
}

}  // namespace flotilla
