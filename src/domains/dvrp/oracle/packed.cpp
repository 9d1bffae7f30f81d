#include "flotilla/domains/dvrp/oracle/packed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>

namespace flotilla::dvrp {
namespace {

constexpr size_t kWidth = kOracleWidth;

// Part of a matrix: `rows` rows from `first` on.
std::vector<float> rows_of(const Tensor& matrix, size_t first, size_t rows) {
  const auto inputs = static_cast<size_t>(matrix.shape[1]);
  const auto begin = matrix.data.begin() + static_cast<std::ptrdiff_t>(first * inputs);
  return {begin, begin + static_cast<std::ptrdiff_t>(rows * inputs)};
}

void scale(std::vector<float>& values, size_t begin, size_t end, float factor) {
  for (size_t i = begin; i < end; ++i) values[i] *= factor;
}

// `count` columns from `first` on.
std::vector<float> columns_of(const Tensor& matrix, size_t first, size_t count) {
  const auto inputs = static_cast<size_t>(matrix.shape[1]);
  std::vector<float> part;
  for (size_t row = 0; row < static_cast<size_t>(matrix.shape[0]); ++row) {
    for (size_t c = 0; c < count; ++c) part.push_back(matrix.data[row * inputs + first + c]);
  }
  return part;
}

// A column as a row of its own.
std::vector<float> column(const Tensor& matrix, size_t index) {
  return columns_of(matrix, index, 1);
}

// transpose(a) b, both [width][width].
std::vector<float> transposed_product(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(kWidth * kWidth);
  for (size_t i = 0; i < kWidth; ++i) {
    for (size_t j = 0; j < kWidth; ++j) {
      double sum = 0;
      for (size_t k = 0; k < kWidth; ++k) {
        sum += static_cast<double>(a[k * kWidth + i]) * static_cast<double>(b[k * kWidth + j]);
      }
      out[i * kWidth + j] = static_cast<float>(sum);
    }
  }
  return out;
}

struct Affine {
  std::vector<float> scale, shift;
};

// The normaliser of a sum in which `bias` is still missing.
Affine fold(const Tensors& weights, const std::string& norm, const std::vector<float>& bias) {
  const auto part = [&](const char* name) { return find_tensor(weights, norm + name).data; };
  const std::vector<float> weight = part(".weight"), shift = part(".bias"), mean = part(".mean"),
                           var = part(".var");
  Affine folded;
  for (size_t c = 0; c < kWidth; ++c) {
    const float factor = weight[c] / std::sqrt(var[c] + kNormEpsilon);
    folded.scale.push_back(factor);
    folded.shift.push_back(shift[c] + (bias[c] - mean[c]) * factor);
  }
  return folded;
}

}  // namespace

void PackedOracle::Free::operator()(float* p) const { std::free(p); }

PackedOracle::PackedOracle(const Tensors& weights, const City& city, const OracleKernels& kernels)
    : kernels_(kernels) {
  pack_embedding(weights, city);
  for (int k = 0; k < kOracleLayers; ++k) pack_layer(weights, k);
  pack_decoder(weights);
}

float* PackedOracle::allocate(size_t count) {
  constexpr size_t kLine = 64;
  const size_t bytes = (count * sizeof(float) + kLine - 1) / kLine * kLine;
  auto* memory = static_cast<float*>(std::aligned_alloc(kLine, bytes));
  if (memory == nullptr) throw std::bad_alloc();
  memory_.emplace_back(memory);
  std::fill_n(memory, bytes / sizeof(float), 0.0F);
  return memory;
}

const float* PackedOracle::keep(const std::vector<float>& values) {
  float* memory = allocate(values.size());
  std::ranges::copy(values, memory);
  return memory;
}

PackedMatrix PackedOracle::pack(const std::vector<float>& rows, int outputs, int inputs) {
  float* packed = allocate(rows.size());
  kernels_.pack_matrix(rows.data(), outputs, inputs, packed);
  return {.inputs = inputs, .outputs = outputs, .weights = packed};
}

void PackedOracle::pack_embedding(const Tensors& weights, const City& city) {
  const Tensor& init = find_tensor(weights, "init.weight");
  const auto cells = static_cast<size_t>(city.size());
  const std::vector<float>& bias = find_tensor(weights, "init.bias").data;
  std::vector<float> projections;
  for (size_t cell = 0; cell < cells; ++cell) {
    for (size_t c = 0; c < kWidth; ++c) {
      double sum = static_cast<double>(bias[c]);
      for (size_t other = 0; other < cells; ++other) {
        const float way = city.minutes(static_cast<int>(cell), static_cast<int>(other));
        sum += static_cast<double>(init.data[c * (cells + kOracleNodeScalars) + other]) *
               static_cast<double>(scaled_way(way));
      }
      projections.push_back(static_cast<float>(sum));
    }
  }
  network_.cells = keep(projections);
  std::vector<float> scalars;
  for (size_t s = 0; s < kOracleNodeScalars; ++s) {
    std::ranges::copy(column(init, cells + s), std::back_inserter(scalars));
  }
  network_.node_scalars = keep(scalars);
}

void PackedOracle::pack_layer(const Tensors& weights, int index) {
  PackedLayer& layer = network_.layers[index];
  const std::string name = fmt::format("layer.{}.", index);
  const auto values = [&](const char* part) { return find_tensor(weights, name + part).data; };
  const float factor = 1 / std::sqrt(static_cast<float>(kOracleHeadWidth));
  std::vector<float> qkv = values("qkv.weight"), qkv_bias = values("qkv.bias");
  scale(qkv, 0, kWidth * kWidth, factor);
  scale(qkv_bias, 0, kWidth, factor);
  layer.qkv = pack(qkv, 3 * kOracleWidth, kOracleWidth);
  layer.qkv_bias = keep(qkv_bias);
  layer.out = pack(values("out.weight"), kOracleWidth, kOracleWidth);
  layer.wide = pack(values("wide.weight"), kOracleHidden, kOracleWidth);
  layer.wide_bias = keep(values("wide.bias"));
  layer.narrow = pack(values("narrow.weight"), kOracleWidth, kOracleHidden);
  const Affine first = fold(weights, name + "norm1", values("out.bias"));
  const Affine second = fold(weights, name + "norm2", values("narrow.bias"));
  layer.scale1 = keep(first.scale);
  layer.shift1 = keep(first.shift);
  layer.scale2 = keep(second.scale);
  layer.shift2 = keep(second.shift);
}

void PackedOracle::pack_decoder(const Tensors& weights) {
  const Tensor& cache = find_tensor(weights, "cache.weight");
  const Tensor& context = find_tensor(weights, "context.weight");
  std::vector<float> all = rows_of(cache, 0, 2 * kWidth);
  scale(all, 0, kWidth * kWidth, 1 / std::sqrt(static_cast<float>(kOracleHeadWidth)));
  std::vector<float> logits = transposed_product(find_tensor(weights, "glimpse.weight").data,
                                                 rows_of(cache, 2 * kWidth, kWidth));
  scale(logits, 0, logits.size(), 1 / std::sqrt(static_cast<float>(kOracleWidth)));
  std::ranges::copy(logits, std::back_inserter(all));
  std::ranges::copy(columns_of(context, 0, kWidth), std::back_inserter(all));
  network_.cache = pack(all, kCacheWidth, kOracleWidth);
  network_.graph = pack(find_tensor(weights, "graph.weight").data, kOracleWidth, kOracleWidth);
  std::vector<float> scalars;
  for (size_t s = 0; s < kOracleScalars; ++s) {
    std::ranges::copy(column(context, kWidth + s), std::back_inserter(scalars));
  }
  network_.context_scalars = keep(scalars);
}

}  // namespace flotilla::dvrp
