// Named tensors of several types with some texts beside them: what a file of them holds.
// nn/safetensors.h turns it into bytes and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/nn/parameters.h"

namespace flotilla {

// In the order of the reference implementation, which stores the last of them first, so that every
// tensor is aligned.
enum class DType : uint8_t { kU8, kF16, kF32, kF64, kI64 };

size_t size_of(DType dtype);
const char* name_of(DType dtype);  // "F32"

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // empty: a scalar
  std::vector<std::byte> data;

  bool operator==(const StoredTensor&) const = default;
};

struct TensorFile {
  std::vector<StoredTensor> tensors;            // decoded ones are in the order of their names
  std::map<std::string, std::string> metadata;  // UTF-8
  std::string origin;                           // stands in errors; not part of the file

  bool holds(std::string_view name) const;
  // Throws Error(kData) when it is not there.
  const StoredTensor& find(std::string_view name) const;
  const std::string& find_metadata(const std::string& key) const;

  // The values of one tensor. Throws Error(kData) when it is missing or of another type; of tensors
  // as such F16 is taken for F32.
  std::vector<float> floats(std::string_view name) const;
  std::vector<double> doubles(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  std::vector<uint8_t> bytes(std::string_view name) const;
  Tensor tensor(std::string_view name) const;
  // All of them. Throws Error(kData) when one is neither F32 nor F16.
  Tensors all_tensors() const;
};

StoredTensor store(std::string name, std::span<const float> values);
StoredTensor store(std::string name, std::span<const double> values);
StoredTensor store(std::string name, std::span<const int64_t> values);
StoredTensor store(std::string name, std::span<const uint8_t> values);
StoredTensor store(const Tensor& tensor);
// In half precision: eleven bits, which is enough for weights that are not trained any more.
StoredTensor store_half(const Tensor& tensor);
std::vector<StoredTensor> store(const Tensors& tensors);

}  // namespace flotilla
