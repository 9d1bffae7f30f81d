// What the kernels ask an objective of rows, and what they are told.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "flotilla/nn/fused/kernel.h"
#include "flotilla/nn/policy.h"

namespace flotilla::fused {

// What the kernels tell a loss of a tile, and where it answers.
inline Objective::Rows rows_of(const LossRows& rows) {
  return {.count = rows.count,
          .sample = rows.sample,
          .logprob = rows.logprob,
          .entropy = rows.entropy,
          .value = rows.value,
          .d_logprob = rows.d_logprob,
          .d_entropy = rows.d_entropy,
          .d_value = rows.d_value};
}

// The loss of the rows that the kernels ask it of: tiles of independent ones, or whole sequences.
struct AskedLoss {
  const Objective* objective;
  double* sums;
};

static_assert(kTile <= Objective::kMaxRows);

inline void ask(void* context, const LossRows& rows) {
  const auto& loss = *static_cast<const AskedLoss*>(context);
  loss.objective->differentiate(rows_of(rows), loss.sums);
}

inline LossRows some_of(const LossRows& rows, int first, int count) {
  return {count,
          rows.sample + first,
          rows.logprob + first,
          rows.entropy + first,
          rows.value + first,
          rows.d_logprob + first,
          rows.d_entropy + first,
          rows.d_value + first};
}

// The loss of kLossRows at a time, with sums of their own.
struct GroupLoss {
  const Objective* objective;
  const int32_t* first;  // of all rows
  LossSums* sums;        // by group
};

inline void ask_groups(void* context, const LossRows& rows) {
  const auto& loss = *static_cast<const GroupLoss*>(context);
  auto group = static_cast<size_t>(rows.sample - loss.first) / kLossRows;
  for (int first = 0; first < rows.count; first += kLossRows, ++group) {
    const LossRows some = some_of(rows, first, std::min(kLossRows, rows.count - first));
    loss.objective->differentiate(rows_of(some), loss.sums[group].of);
  }
}

inline ChosenRows some_of(const ChosenRows& rows, int first, int count) {
  ChosenRows part = rows;
  part.sample += first;
  part.count = count;
  return part;
}

inline LearnCall some_of(const LearnCall& call, int first, int count) {
  LearnCall part = call;
  part.rows = some_of(call.rows, first, count);
  part.dense.first += first;
  part.dense.count = first + count == call.rows.count ? call.dense.count - first : count;
  return part;
}

// Numbers of rows whose loss is asked at once.
class RowNumbers {
 public:
  explicit RowNumbers(int rows) : all_(6 * static_cast<size_t>(rows)), rows_(rows) {}

  SequenceRoom room(float* const* works) {
    return {works, of(0), of(1), of(2), of(3), of(4), of(5)};
  }
  EvaluateCall terms(const ChosenRows& rows) { return {rows, of(0), of(1), of(2)}; }
  LossRows loss_rows(const int32_t* sample) {
    return {rows_, sample, of(0), of(1), of(2), of(3), of(4), of(5)};
  }

 private:
  float* of(int which) { return all_.data() + static_cast<long>(which) * rows_; }
  std::vector<float> all_;
  const int rows_;
};

// A loss that was asked before.
struct KnownLoss {
  const int32_t* first;
  LossRows rows;
};

inline void recall(void* context, const LossRows& rows) {
  const auto& loss = *static_cast<const KnownLoss*>(context);
  const auto first = rows.sample - loss.first;
  std::copy_n(loss.rows.d_logprob + first, rows.count, rows.d_logprob);
  std::copy_n(loss.rows.d_entropy + first, rows.count, rows.d_entropy);
  std::copy_n(loss.rows.d_value + first, rows.count, rows.d_value);
}

inline ChosenRows chosen_rows(const Samples& samples, std::span<const int32_t> chosen) {
  return {.sample = chosen.data(),
          .count = static_cast<int>(chosen.size()),
          .obs = samples.obs,
          .mask = samples.mask,
          .latent = samples.latent,
          .epsilon = samples.epsilon};
}

}  // namespace flotilla::fused
