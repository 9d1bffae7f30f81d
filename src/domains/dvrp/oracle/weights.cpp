#include "flotilla/domains/dvrp/oracle/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/log.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/sha256.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla::dvrp {
namespace {

constexpr const char* kKind = "flotilla dial-a-ride oracle";
constexpr const char* kWeightFormat = "1";
constexpr size_t kMaxWeightBytes = size_t{256} << 20u;

Tensor zeros(const std::string& name, std::vector<int> shape) {
  size_t count = 1;
  for (const int size : shape) count *= static_cast<size_t>(size);
  return {.name = name, .shape = std::move(shape), .data = std::vector<float>(count)};
}

Tensors empty_oracle(int cells) {
  constexpr int d = kOracleWidth;
  Tensors all;
  const auto linear = [&all](const std::string& name, int out, int in, bool bias) {
    all.push_back(zeros(name + ".weight", {out, in}));
    if (bias) all.push_back(zeros(name + ".bias", {out}));
  };
  linear("init", d, cells + kOracleNodeScalars, true);
  for (int k = 0; k < kOracleLayers; ++k) {
    const std::string layer = fmt::format("layer.{}.", k);
    linear(layer + "qkv", 3 * d, d, true);
    linear(layer + "out", d, d, true);
    linear(layer + "wide", kOracleHidden, d, true);
    linear(layer + "narrow", d, kOracleHidden, true);
    for (const char* norm : {"norm1", "norm2"}) {
      for (const char* part : {".weight", ".bias", ".mean", ".var"}) {
        all.push_back(zeros(layer + norm + part, {d}));
      }
    }
  }
  linear("cache", 3 * d, d, false);
  linear("graph", d, d, false);
  linear("context", d, d + kOracleScalars, false);
  linear("glimpse", d, d, false);
  std::ranges::sort(all, {}, &Tensor::name);
  return all;
}

bool is_norm(const std::string& name) { return name.find(".norm") != std::string::npos; }

// The bias of a layer is drawn as its weight is.
int inputs_of(const Tensors& all, const Tensor& tensor) {
  if (tensor.shape.size() == 2) return tensor.shape[1];
  const std::string layer = tensor.name.substr(0, tensor.name.rfind('.'));
  return find_tensor(all, layer + ".weight").shape[1];
}

}  // namespace

Tensors initial_oracle(int cells, uint64_t seed) {
  Tensors all = empty_oracle(cells);
  for (size_t i = 0; i < all.size(); ++i) {
    Tensor& tensor = all[i];
    if (is_norm(tensor.name)) {
      const bool one = tensor.name.ends_with(".weight") || tensor.name.ends_with(".var");
      std::ranges::fill(tensor.data, one ? 1.0F : 0.0F);
      continue;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(inputs_of(all, tensor)));
    Rng rng(seed, stream_of(Purpose::kInit, i));
    for (float& value : tensor.data) value = static_cast<float>(rng.uniform(-bound, bound));
  }
  return all;
}

std::string city_hash(const City& city) {
  std::string bytes;
  for (int i = 0; i < city.size(); ++i) {
    for (int j = 0; j < city.size(); ++j) bytes += fmt::format("{},", city.seconds(i, j));
  }
  return sha256_hex(bytes + fmt::format("depot {}", city.depot()));
}

std::string encode_oracle(const OracleWeights& weights) {
  TensorFile file;
  for (const Tensor& tensor : weights.tensors) file.tensors.push_back(store_half(tensor));
  file.metadata = {{"kind", kKind}, {"format", kWeightFormat}, {"city", weights.city}};
  return encode_safetensors(file);
}

OracleWeights read_oracle(const std::string& path, const City& city) {
  const TensorFile file = decode_safetensors(read_whole_file(path, kMaxWeightBytes), path);
  if (file.find_metadata("kind") != kKind || file.find_metadata("format") != kWeightFormat) {
    throw Error(ErrorCode::kData, path + ": holds no weights of an oracle that this program reads");
  }
  OracleWeights weights{
      .tensors = file.all_tensors(), .city = file.find_metadata("city"), .origin = path};
  const Tensor& init = file.tensor("init.weight");
  const int cells = init.shape.size() == 2 ? init.shape[1] - kOracleNodeScalars : 0;
  if (cells != city.size()) {
    throw Error(ErrorCode::kData,
                fmt::format("{}: is the oracle of a city of {} cells, this one has {}", path, cells,
                            city.size()));
  }
  try {
    require_same_shapes(empty_oracle(cells), weights.tensors);
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, path + ": " + error.what());
  }
  for (const Tensor& tensor : weights.tensors) {
    if (!std::ranges::all_of(tensor.data, [](float x) { return std::isfinite(x); })) {
      throw Error(ErrorCode::kData, fmt::format("{}: tensor '{}' holds a value that is not finite",
                                                path, tensor.name));
    }
  }
  if (weights.city != city_hash(city)) {
    log::warn(path + ": was trained in another city; its routes keep all rules, but are longer");
  }
  return weights;
}

}  // namespace flotilla::dvrp
