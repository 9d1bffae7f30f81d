#include "flotilla/core/blocks.h"

#include <algorithm>
#include <cstring>

namespace flotilla {
namespace {

// Up to so many bytes of all ranks together are exchanged sooner than a ring has gone round twice.
constexpr size_t kGatheredBytes = size_t{1} << 20;

template <class T>
void add(std::span<T> sum, const T* numbers) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += numbers[i];
}

}  // namespace

Blocks::Blocks(int count, Collective& collective, BlockSum sum)
    : count_(count),
      collective_(&collective),
      sum_(sum),
      mine_(part_of({0, count}, collective.rank(), collective.size())) {}

// Every rank sends as much as the one with most blocks.
template <class Visit>
void Blocks::for_gathered(size_t block_bytes, const Visit& visit) const {
  const int ranks = collective_->size();
  const size_t most = static_cast<size_t>((count_ + ranks - 1) / ranks) * block_bytes;
  sent_.resize(most);
  received_.resize(most * static_cast<size_t>(ranks));
  collective_->all_gather(sent_, received_);
  for (int r = 0; r < ranks; ++r) {
    const std::byte* from = received_.data() + static_cast<size_t>(r) * most;
    const int blocks = part_of({0, count_}, r, ranks).size();
    for (int b = 0; b < blocks; ++b) visit(from + static_cast<size_t>(b) * block_bytes);
  }
}

std::vector<double> Blocks::gather(std::span<const double> of_own) const {
  if (collective_->size() == 1) return {of_own.begin(), of_own.end()};
  const size_t width = of_own.size() / static_cast<size_t>(own());
  const auto bytes = std::as_bytes(of_own);
  sent_.assign(bytes.begin(), bytes.end());
  std::vector<double> all;
  for_gathered(width * sizeof(double), [&](const std::byte* block) {
    all.resize(all.size() + width);
    std::memcpy(all.data() + all.size() - width, block, width * sizeof(double));
  });
  return all;
}

void Blocks::add_up(std::span<const float> gradients, std::span<const double> sums,
                    std::span<float> gradient, std::span<double> sum) {
  std::ranges::fill(gradient, 0.0F);
  std::ranges::fill(sum, 0.0);
  if (sum_ == BlockSum::kFast || collective_->size() == 1) {
    add_up_fast(gradients, sums, gradient, sum);
  } else {
    add_up_exactly(gradients, sums, gradient, sum);
  }
}

void Blocks::add_up_exactly(std::span<const float> gradients, std::span<const double> sums,
                            std::span<float> gradient, std::span<double> sum) {
  const size_t width = gradient.size_bytes(), total = width + sum.size_bytes();
  sent_.resize(static_cast<size_t>(own()) * total);
  for (size_t b = 0; b < static_cast<size_t>(own()); ++b) {
    std::byte* to = sent_.data() + b * total;
    std::memcpy(to, gradients.data() + b * gradient.size(), width);
    std::memcpy(to + width, sums.data() + b * sum.size(), total - width);
  }
  std::vector<double> of_block(sum.size());
  for_gathered(total, [&](const std::byte* block) {
    add(gradient, reinterpret_cast<const float*>(block));
    std::memcpy(of_block.data(), block + width, total - width);
    add(sum, of_block.data());
  });
}

void Blocks::add_up_fast(std::span<const float> gradients, std::span<const double> sums,
                         std::span<float> gradient, std::span<double> sum) {
  for (size_t b = 0; b < static_cast<size_t>(own()); ++b) {
    add(gradient, gradients.data() + b * gradient.size());
    add(sum, sums.data() + b * sum.size());
  }
  if (collective_->size() == 1) return;
  // The few sums as floats, too: one message takes half of the time of two.
  std::vector<float> message(gradient.begin(), gradient.end());
  for (const double x : sum) message.push_back(static_cast<float>(x));
  reduce(message);
  std::copy_n(message.begin(), gradient.size(), gradient.begin());
  std::copy_n(message.end() - static_cast<ptrdiff_t>(sum.size()), sum.size(), sum.begin());
}

// The sum of what all ranks have, for each of them.
void Blocks::reduce(std::span<float> message) {
  const auto ranks = static_cast<size_t>(collective_->size());
  const size_t bytes = message.size_bytes();
  if (ranks * bytes > kGatheredBytes) return collective_->all_reduce(message);
  received_.resize(ranks * bytes);
  collective_->all_gather(std::as_bytes(message), received_);
  std::ranges::fill(message, 0.0F);
  for (size_t r = 0; r < ranks; ++r) {
    add(message, reinterpret_cast<const float*>(received_.data() + r * bytes));
  }
}

}  // namespace flotilla
