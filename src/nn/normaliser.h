// Running mean and variance of observations and rewards: part of the policy and of its file.
//
// Frozen while envs are stepped; updated once per rollout, block by block and in the order of the
// rows, so that the result does not depend on who collected them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "flotilla/core/blocks.h"
#include "flotilla/core/serial.h"

namespace flotilla {

// The rows of a rollout: `steps` of each env, row t * envs + i. `valid` may be null: all are.
struct RowGrid {
  int steps = 0, envs = 0;
  const uint8_t* valid = nullptr;
};

// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances" (1979): batches of rows are merged into the running sums.
class RunningMoments {
 public:
  explicit RunningMoments(size_t columns = 1);

  size_t columns() const { return mean_.size(); }
  double count() const { return count_; }
  double mean(size_t column) const { return mean_[column]; }
  double variance(size_t column) const;  // of the population; 1 before the first row

  // Rows that are not valid are passed over; `valid` may be null.
  void add(const float* rows, size_t count, const uint8_t* valid);
  void add(const uint8_t* rows, size_t count, const uint8_t* valid);
  // Those of all blocks, in their order; `rows` are those of the envs of the own ones.
  template <class T>
  void add_blocks(const T* rows, const RowGrid& grid, const Blocks& blocks);
  void merge(const RunningMoments& other);

  // The count, the means and the sums of squares: for a file.
  std::vector<double> numbers() const;
  // Throws Error(kData) for what numbers() of as many columns cannot have been.
  void set_numbers(std::span<const double> numbers);

  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  // Of rows of some envs. REQUIRES: nothing was added so far.
  template <class T>
  void take(const T* rows, const RowGrid& grid, Span envs);
  double count_ = 0;
  std::vector<double> mean_, squares_;  // squares_: sum of squared differences from the mean
};

// (x - mean) / deviation, clipped at +-NetworkSpec::kObsClip.
class ObsNormaliser {
 public:
  explicit ObsNormaliser(size_t columns) : moments_(columns), mean_(columns), scale_(columns) {
    refresh();
  }

  template <class T>
  void update(const T* rows, size_t count, const uint8_t* valid) {
    moments_.add(rows, count, valid);
    refresh();
  }
  template <class T>
  void update(const T* rows, const RowGrid& grid, const Blocks& blocks) {
    moments_.add_blocks(rows, grid, blocks);
    refresh();
  }
  const float* mean() const { return mean_.data(); }
  const float* scale() const { return scale_.data(); }  // 1 / deviation
  const RunningMoments& moments() const { return moments_; }

  void save(Writer& writer) const { moments_.save(writer); }
  void load(Reader& reader);
  void set_moments(RunningMoments moments);
  // Normalises by these from now on, without the moments they came from: for acting, not for going
  // on with training. REQUIRES: one of each per column.
  void set(std::span<const float> mean, std::span<const float> scale);

 private:
  void refresh();
  RunningMoments moments_;
  std::vector<float> mean_, scale_;
};

// Rewards divided by the deviation of the running discounted return, clipped at +-10.
class RewardNormaliser {
 public:
  explicit RewardNormaliser(size_t num_envs = 0, double gamma = 1);

  // Takes in one rollout of [steps][num_envs] rows; an episode's end sets its return to zero.
  void update(int steps, const float* reward, const uint8_t* ended, const uint8_t* valid,
              const Blocks& blocks = Blocks());
  float scale() const;
  const RunningMoments& moments() const { return moments_; }
  void set_moments(RunningMoments moments) { moments_ = std::move(moments); }
  // The running returns, by env: of envs that are others in each rollout.
  const std::vector<double>& returns() const { return returns_; }
  void set_returns(std::vector<double> returns) { returns_ = std::move(returns); }
  static constexpr float kClip = 10;

  // Of the envs of all processes; load() takes those from `first_env` on of so many.
  void save(Writer& writer, Collective& collective = alone()) const;
  void load(Reader& reader, size_t first_env, size_t all_envs);
  void load(Reader& reader) { load(reader, 0, returns_.size()); }

 private:
  double gamma_;
  std::vector<double> returns_;  // by env
  RunningMoments moments_;
};

}  // namespace flotilla
