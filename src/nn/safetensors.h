// Tensors in a file, in the safetensors format (github.com/huggingface/safetensors), which other
// programs read without any code of ours:
//
//   8 bytes   length of the header, little endian
//   header    JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}, ...},
//             padded with spaces to a multiple of 8 bytes
//   data      of the tensors one behind the other: row-major, little endian, without holes
//
// What is decoded may come from anywhere. Input that is truncated, altered, foreign or hostile is
// an Error(kData) of one line that names its origin and what is wrong with it. Decoding takes
// memory in proportion to the input and never trusts a number in it.
//
// Determinism: equal contents give equal bytes, in whichever order the tensors stand; and the bytes
// that the reference implementation writes, as long as there is at most one metadata entry (it
// writes more of them in any order).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "flotilla/nn/tensor_file.h"

namespace flotilla {

struct SafetensorsLimits {
  static constexpr size_t kHeaderBytes = size_t{16} << 20;
  static constexpr size_t kTensors = 100'000;
  static constexpr size_t kRank = 8;
};

// Throws Error(kInternal) for contents that decode_safetensors() would refuse: a shape that does
// not fit the data, a name given twice, a text that is not UTF-8.
std::string encode_safetensors(const TensorFile& file);
TensorFile decode_safetensors(std::string_view bytes, const std::string& origin);

}  // namespace flotilla
