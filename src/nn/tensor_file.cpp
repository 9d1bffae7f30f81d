#include "flotilla/nn/tensor_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

#if defined(__aarch64__)
using Half = __fp16;  // g++ 12 has no other name for it there
#else
using Half = _Float16;
#endif

[[noreturn]] void refuse_bytes(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kData, origin + ": " + what);
}

template <class T>
StoredTensor store_values(std::string name, DType dtype, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {
      std::move(name), dtype, {static_cast<int64_t>(values.size())}, {bytes.begin(), bytes.end()}};
}

template <class T>
std::vector<T> values_of(const TensorFile& file, const StoredTensor& tensor, DType dtype) {
  if (tensor.dtype != dtype) {
    refuse_bytes(file.origin, fmt::format("tensor {} is {}, expected {}", in_quotes(tensor.name),
                                          name_of(tensor.dtype), name_of(dtype)));
  }
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(T));
  return values;
}

Tensor to_tensor(const TensorFile& file, const StoredTensor& stored) {
  Tensor tensor;
  tensor.name = stored.name;
  if (stored.dtype == DType::kF16) {
    const auto halves = values_of<Half>(file, stored, DType::kF16);
    tensor.data.assign(halves.begin(), halves.end());
  } else {
    tensor.data = values_of<float>(file, stored, DType::kF32);
  }
  for (const int64_t extent : stored.shape) {
    if (extent > std::numeric_limits<int>::max()) {
      refuse_bytes(file.origin, fmt::format("tensor {} has an extent of {}, which is too large",
                                            in_quotes(stored.name), extent));
    }
    tensor.shape.push_back(static_cast<int>(extent));
  }
  return tensor;
}

}  // namespace

size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return 1;
    case DType::kF16:
      return 2;
    case DType::kF32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
  }
  return 0;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return "U8";
    case DType::kF16:
      return "F16";
    case DType::kF32:
      return "F32";
    case DType::kF64:
      return "F64";
    case DType::kI64:
      return "I64";
  }
  return "unknown";
}

bool TensorFile::holds(std::string_view name) const {
  return std::ranges::find(tensors, name, &StoredTensor::name) != tensors.end();
}

const StoredTensor& TensorFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &StoredTensor::name);
  if (found == tensors.end()) refuse_bytes(origin, "no tensor " + in_quotes(name));
  return *found;
}

const std::string& TensorFile::find_metadata(const std::string& key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) refuse_bytes(origin, "no metadata " + in_quotes(key));
  return found->second;
}

std::vector<float> TensorFile::floats(std::string_view name) const {
  return values_of<float>(*this, find(name), DType::kF32);
}

std::vector<double> TensorFile::doubles(std::string_view name) const {
  return values_of<double>(*this, find(name), DType::kF64);
}

std::vector<int64_t> TensorFile::integers(std::string_view name) const {
  return values_of<int64_t>(*this, find(name), DType::kI64);
}

std::vector<uint8_t> TensorFile::bytes(std::string_view name) const {
  return values_of<uint8_t>(*this, find(name), DType::kU8);
}

Tensor TensorFile::tensor(std::string_view name) const { return to_tensor(*this, find(name)); }

Tensors TensorFile::all_tensors() const {
  Tensors all;
  all.reserve(tensors.size());
  for (const StoredTensor& stored : tensors) all.push_back(to_tensor(*this, stored));
  std::ranges::sort(all, {}, &Tensor::name);
  return all;
}

StoredTensor store(std::string name, std::span<const float> values) {
  return store_values(std::move(name), DType::kF32, values);
}

StoredTensor store(std::string name, std::span<const double> values) {
  return store_values(std::move(name), DType::kF64, values);
}

StoredTensor store(std::string name, std::span<const int64_t> values) {
  return store_values(std::move(name), DType::kI64, values);
}

StoredTensor store(std::string name, std::span<const uint8_t> values) {
  return store_values(std::move(name), DType::kU8, values);
}

StoredTensor store(const Tensor& tensor) {
  StoredTensor stored = store(tensor.name, tensor.data);
  stored.shape.assign(tensor.shape.begin(), tensor.shape.end());
  return stored;
}

StoredTensor store_half(const Tensor& tensor) {
  std::vector<Half> halves(tensor.data.size());
  std::ranges::transform(tensor.data, halves.begin(),
                         [](float value) { return static_cast<Half>(value); });
  StoredTensor stored = store_values(tensor.name, DType::kF16, std::span<const Half>(halves));
  stored.shape.assign(tensor.shape.begin(), tensor.shape.end());
  return stored;
}

std::vector<StoredTensor> store(const Tensors& tensors) {
  std::vector<StoredTensor> all;
  all.reserve(tensors.size());
  for (const Tensor& tensor : tensors) all.push_back(store(tensor));
  return all;
}

}  // namespace flotilla
