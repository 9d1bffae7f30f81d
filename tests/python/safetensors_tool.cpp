// Writes and shows safetensors files, so that a script can hold them against another
// implementation.
//
//   safetensors_tool write FILE       what lines on stdin describe
//   safetensors_tool show FILE...     each file as "file", lines and "ok", or "refused MESSAGE"
//
// Lines: "metadata KEY VALUE" and "tensor NAME DTYPE SHAPE DATA". Texts and data are hexadecimal
// with an x in front, so that none is empty; a shape is "[2,3]".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/nn/safetensors.h"

namespace {

using namespace flotilla;

constexpr size_t kMaxBytes = size_t{1} << 30;

std::string hex(std::string_view bytes) {
  std::string text = "x";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 1; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

DType dtype_from(const std::string& name) {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64, DType::kI64}) {
    if (name == name_of(dtype)) return dtype;
  }
  throw Error(ErrorCode::kUsage, "no dtype " + name);
}

StoredTensor tensor_from(std::istream& words) {
  std::string name, dtype, shape, data;
  words >> name >> dtype >> shape >> data;
  const std::string bytes = from_hex(data);
  StoredTensor tensor{from_hex(name), dtype_from(dtype), {}, {}};
  std::istringstream extents(shape.substr(1));
  for (int64_t extent = 0; extents >> extent; extents.get()) tensor.shape.push_back(extent);
  const auto values = std::as_bytes(std::span(bytes));
  tensor.data.assign(values.begin(), values.end());
  return tensor;
}

void write(const std::string& path) {
  TensorFile file;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind, key, value;
    words >> kind;
    if (kind == "tensor") {
      file.tensors.push_back(tensor_from(words));
    } else {
      words >> key >> value;
      file.metadata[from_hex(key)] = from_hex(value);
    }
  }
  write_file_atomically(path, encode_safetensors(file));
}

void show(const std::string& path) {
  fmt::print("file\n");
  try {
    const TensorFile file = decode_safetensors(read_whole_file(path, kMaxBytes), path);
    for (const auto& [key, value] : file.metadata) {
      fmt::print("metadata {} {}\n", hex(key), hex(value));
    }
    for (const StoredTensor& tensor : file.tensors) {
      const std::string_view data(reinterpret_cast<const char*>(tensor.data.data()),
                                  tensor.data.size());
      fmt::print("tensor {} {} [{}] {}\n", hex(tensor.name), name_of(tensor.dtype),
                 fmt::join(tensor.shape, ","), hex(data));
    }
    fmt::print("ok\n");
  } catch (const Error& error) {
    fmt::print("refused {}\n", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  try {
    if (verb == "write" && argc == 3) {
      write(argv[2]);
    } else if (verb == "show") {
      for (int i = 2; i < argc; ++i) show(argv[i]);
    } else {
      throw Error(ErrorCode::kUsage, "usage: safetensors_tool write FILE | show FILE...");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
