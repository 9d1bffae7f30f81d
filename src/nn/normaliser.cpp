#include "flotilla/nn/normaliser.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// Keeps the scale of a column that never changes finite.
constexpr double kVarianceFloor = 1e-8;

float inverse_deviation(double variance) {
  return static_cast<float>(1 / std::sqrt(variance + kVarianceFloor));
}

void write(Writer& writer, const char* tag, const std::vector<double>& numbers) {
  writer.bytes(tag, std::as_bytes(std::span(numbers)));
}

std::vector<double> read(Reader& reader, const char* tag, size_t count) {
  std::vector<double> numbers(count);
  reader.bytes_into(tag, std::as_writable_bytes(std::span(numbers)));
  for (const double x : numbers) {
    if (!std::isfinite(x)) {
      throw Error(ErrorCode::kData, std::string("a normaliser's ") + tag + " is not finite");
    }
  }
  return numbers;
}

void require_in_range(double count, std::span<const double> squares) {
  bool in_range = std::isfinite(count) && count >= 0;
  for (const double x : squares) in_range = in_range && x >= 0;
  if (!in_range) throw Error(ErrorCode::kData, "a normaliser's count or squares are out of range");
}

}  // namespace

RunningMoments::RunningMoments(size_t columns) : mean_(columns), squares_(columns) {}

double RunningMoments::variance(size_t column) const {
  return count_ > 0 ? squares_[column] / count_ : 1;
}

void RunningMoments::add(const float* rows, size_t count, const uint8_t* valid) {
  add_blocks(rows, {.steps = 1, .envs = static_cast<int>(count), .valid = valid}, Blocks());
}

void RunningMoments::add(const uint8_t* rows, size_t count, const uint8_t* valid) {
  add_blocks(rows, {.steps = 1, .envs = static_cast<int>(count), .valid = valid}, Blocks());
}

template <class T>
void RunningMoments::take(const T* rows, const RowGrid& grid, Span envs) {
  const size_t width = columns();
  const auto for_each_row = [&](const auto& body) {
    for (int t = 0; t < grid.steps; ++t) {
      for (int env = envs.begin; env < envs.end; ++env) {
        const auto row =
            static_cast<size_t>(t) * static_cast<size_t>(grid.envs) + static_cast<size_t>(env);
        if (grid.valid == nullptr || grid.valid[row] != 0) body(rows + row * width);
      }
    }
  };
  for_each_row([&](const T* row) {
    for (size_t i = 0; i < width; ++i) mean_[i] += static_cast<double>(row[i]);
    count_ += 1;
  });
  if (count_ == 0) return;
  for (double& x : mean_) x /= count_;
  for_each_row([&](const T* row) {
    for (size_t i = 0; i < width; ++i) {
      const double difference = static_cast<double>(row[i]) - mean_[i];
      squares_[i] += difference * difference;
    }
  });
}

template <class T>
void RunningMoments::add_blocks(const T* rows, const RowGrid& grid, const Blocks& blocks) {
  std::vector<double> own;
  for (int b = 0; b < blocks.own(); ++b) {
    RunningMoments block(columns());
    block.take(rows, grid, blocks.part(grid.envs, b));
    const std::vector<double> numbers = block.numbers();
    own.insert(own.end(), numbers.begin(), numbers.end());
  }
  const std::vector<double> all = blocks.gather(own);
  const size_t width = all.size() / static_cast<size_t>(blocks.count());
  for (size_t from = 0; from < all.size(); from += width) {
    RunningMoments block(columns());
    block.set_numbers(std::span(all).subspan(from, width));
    merge(block);
  }
}

template void RunningMoments::add_blocks(const float*, const RowGrid&, const Blocks&);
template void RunningMoments::add_blocks(const uint8_t*, const RowGrid&, const Blocks&);

void RunningMoments::merge(const RunningMoments& other) {
  const double added = other.count_;
  if (added == 0) return;
  const double total = count_ + added;
  for (size_t i = 0; i < columns(); ++i) {
    const double difference = other.mean_[i] - mean_[i];
    mean_[i] += difference * (added / total);
    squares_[i] += other.squares_[i] + difference * difference * (count_ * added / total);
  }
  count_ = total;
}

void RunningMoments::save(Writer& writer) const {
  writer.f64("count", count_);
  write(writer, "mean", mean_);
  write(writer, "squares", squares_);
}

void RunningMoments::load(Reader& reader) {
  const double count = reader.f64("count");
  std::vector<double> mean = read(reader, "mean", columns());
  std::vector<double> squares = read(reader, "squares", columns());
  require_in_range(count, squares);
  count_ = count;
  mean_ = std::move(mean);
  squares_ = std::move(squares);
}

std::vector<double> RunningMoments::numbers() const {
  std::vector<double> all = {count_};
  all.insert(all.end(), mean_.begin(), mean_.end());
  all.insert(all.end(), squares_.begin(), squares_.end());
  return all;
}

void RunningMoments::set_numbers(std::span<const double> numbers) {
  const auto is_finite = [](double x) { return std::isfinite(x); };
  if (numbers.size() != 1 + 2 * columns() || !std::ranges::all_of(numbers, is_finite)) {
    throw Error(ErrorCode::kData, "a normaliser's moments are not finite, or not as many");
  }
  const auto squares = numbers.subspan(1 + columns());
  require_in_range(numbers[0], squares);
  count_ = numbers[0];
  std::ranges::copy(numbers.subspan(1, columns()), mean_.begin());
  std::ranges::copy(squares, squares_.begin());
}

void ObsNormaliser::load(Reader& reader) {
  moments_.load(reader);
  refresh();
}

void ObsNormaliser::set_moments(RunningMoments moments) {
  moments_ = std::move(moments);
  refresh();
}

void ObsNormaliser::set(std::span<const float> mean, std::span<const float> scale) {
  std::ranges::copy(mean, mean_.begin());
  std::ranges::copy(scale, scale_.begin());
}

void ObsNormaliser::refresh() {
  for (size_t i = 0; i < mean_.size(); ++i) {
    mean_[i] = static_cast<float>(moments_.mean(i));
    scale_[i] = inverse_deviation(moments_.variance(i));
  }
}

RewardNormaliser::RewardNormaliser(size_t num_envs, double gamma)
    : gamma_(gamma), returns_(num_envs) {}

void RewardNormaliser::update(int steps, const float* reward, const uint8_t* ended,
                              const uint8_t* valid, const Blocks& blocks) {
  const size_t envs = returns_.size();
  const size_t rows = static_cast<size_t>(steps) * envs;
  std::vector<float> seen(rows);
  for (size_t row = 0; row < rows; ++row) {
    double& running = returns_[row % envs];
    // A step that failed ends its episode too.
    const bool failed = valid != nullptr && valid[row] == 0;
    running = failed ? 0 : running * gamma_ + static_cast<double>(reward[row]);
    seen[row] = static_cast<float>(running);
    if (ended[row] != 0) running = 0;
  }
  moments_.add_blocks(seen.data(), {.steps = steps, .envs = static_cast<int>(envs), .valid = valid},
                      blocks);
}

float RewardNormaliser::scale() const { return inverse_deviation(moments_.variance(0)); }

void RewardNormaliser::save(Writer& writer, Collective& collective) const {
  std::vector<std::byte> all;
  for (const auto& own : gather_bytes(collective, std::as_bytes(std::span(returns_)))) {
    all.insert(all.end(), own.begin(), own.end());
  }
  writer.bytes("returns", all);
  moments_.save(writer);
}

void RewardNormaliser::load(Reader& reader, size_t first_env, size_t all_envs) {
  const std::vector<double> all = read(reader, "returns", all_envs);
  moments_.load(reader);
  if (all.empty()) return;  // rewards are not scaled
  std::copy_n(&all[first_env], returns_.size(), returns_.begin());
}

}  // namespace flotilla
