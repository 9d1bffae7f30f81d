// A3C: Mnih et al. (2016). Every thread acts for some envs with a copy of the parameters, computes
// the gradient of what it saw and applies it to the parameters that all share, without a lock:
// what two threads write at once may be lost (Recht et al., "Hogwild!", 2011). So results depend on
// timing as soon as there are two threads. docs/asynchronous.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "flotilla/algo/algorithms.h"
#include "flotilla/algo/impala.h"
#include "flotilla/algo/schedule.h"

namespace flotilla {

struct A3cOptions {
  double gamma = 0.99, lambda = 1;
  Schedule lr, entropy;
  double value_coef = 0.5, max_grad_norm = 40;
  double decay = 0.99, epsilon = 1e-5;  // of RMSprop, whose statistics are shared as well

  static Schema schema();
  static A3cOptions from(const Config& section);
};

// Numbers that threads read and change at once: every access is a relaxed atomic one.
class SharedNumbers {
 public:
  void resize(size_t count) { numbers_ = std::vector<std::atomic<float>>(count); }
  size_t size() const { return numbers_.size(); }
  float get(size_t i) const { return numbers_[i].load(std::memory_order_relaxed); }
  void set(size_t i, float number) { numbers_[i].store(number, std::memory_order_relaxed); }
  void copy_from(std::span<const float> from);
  void copy_to(std::span<float> to) const;

 private:
  std::vector<std::atomic<float>> numbers_;
};

class A3c final : public Learner, public ActorLearner {
 public:
  A3c(Policy& policy, ThreadPool& pool, const A3cOptions& options);

  ActorLearner* in_actors() override { return this; }
  void begin() override;
  const ActingPolicy& current(int part) override;
  void learn(int part, const Batch& batch, Span envs) override;
  void end() override;

  Update learn(const Batch& batch, const LearnProgress& progress) override;
  double gamma() const override { return options_.gamma; }
  double passes() const override { return 1; }
  void save(Writer& writer) const override;
  void load(Reader& reader) override;

 private:
  // What a thread has for itself.
  struct Part {
    std::unique_ptr<Policy> policy;
    ThreadPool alone{1};
    std::vector<float> last_value;
    std::vector<int32_t> rows;
    int64_t begun = 0;  // updates of all when it took the parameters
  };
  // What was done since the last report.
  struct Report {
    double sums[Objective::kSums] = {}, rows = 0, norms = 0, lag = 0;
    int64_t updates = 0, most_lag = 0;
  };

  // Returns the norm of the gradient before it was clipped.
  double descend(std::span<const float> gradient, double lr);
  void note(const LossSums& sums, double rows, double norm, int64_t lag);

  Policy& policy_;
  const A3cOptions options_;
  std::vector<std::unique_ptr<Part>> parts_;
  SharedNumbers params_, squares_;
  std::atomic<int64_t> updates_{0};
  std::atomic<double> fraction_{0};  // of the run, for schedules
  std::mutex mutex_;                 // of the report
  Report report_;
};

Algorithm a3c_algorithm();

}  // namespace flotilla
