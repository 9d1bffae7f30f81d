#include "flotilla/nn/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "flotilla/core/file.h"
#include "flotilla/core/system.h"
#include "flotilla/nn/optimiser_state.h"
#include "support/build.h"
#include "support/error_text.h"
#include "support/source_dir.h"

namespace flotilla::test {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// A file with this header, its length in front of it.
std::string with_header(const std::string& header, const std::string& data = "") {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string refusal(const std::string& bytes) {
  const std::string text =
      error_text(ErrorCode::kData, [&] { decode_safetensors(bytes, "m.safetensors"); });
  const std::string origin = "m.safetensors: ";
  EXPECT_TRUE(text.starts_with(origin)) << text;
  EXPECT_EQ(text.find('\n'), text.npos);
  return text.substr(std::min(origin.size(), text.size()));
}

std::string header_refusal(const std::string& header, const std::string& data = "") {
  return refusal(with_header(header, data));
}

// One tensor "a" of these fields, with four bytes of data.
std::string tensor_refusal(const std::string& fields) {
  return header_refusal("{\"a\":{" + fields + "}}", "1234");
}

std::string bug(const TensorFile& file) {
  return error_text(ErrorCode::kInternal, [&] { encode_safetensors(file); });
}

TensorFile sample() {
  TensorFile file;
  file.tensors = {store("weight", std::vector<float>{1, -2.5F, 3, 4, 5, 6}),
                  store("mean", std::vector<double>{0.1, -1e300}),
                  store("steps", std::vector<int64_t>{-1, INT64_MAX}),
                  store("mask", std::vector<uint8_t>{0, 1, 255})};
  file.tensors[0].shape = {2, 3};
  file.tensors.push_back({"scalar", DType::kF32, {}, bytes_of("abcd")});
  file.tensors.push_back({"empty", DType::kF64, {0, 7}, {}});
  file.metadata = {{"format", "flotilla"}, {"step", "100"}};
  return file;
}

TEST(Safetensors, Layout) {
  TensorFile file;
  file.tensors = {store("b", std::vector<uint8_t>{7}), store("a", std::vector<float>{1, -2})};
  file.metadata = {{"k", "v"}};
  const std::string header =
      R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})"
      "     ";
  ASSERT_EQ(header.size(), 0x88u);
  EXPECT_EQ(encode_safetensors(file), std::string("\x88\0\0\0\0\0\0\0", 8) + header +
                                          std::string("\0\0\x80\x3f\0\0\0\xc0\x07", 9));
}

TEST(Safetensors, TheEmptyFile) {
  const std::string bytes("\x08\0\0\0\0\0\0\0{}      ", 16);
  EXPECT_EQ(encode_safetensors({}), bytes);
  const TensorFile file = decode_safetensors(bytes, "m");
  EXPECT_TRUE(file.tensors.empty());
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_EQ(file.origin, "m");
}

TEST(Safetensors, RoundTrip) {
  const TensorFile file = sample();
  const std::string bytes = encode_safetensors(file);
  const TensorFile back = decode_safetensors(bytes, "m");
  EXPECT_EQ(back.metadata, file.metadata);
  std::vector<StoredTensor> by_name = file.tensors;
  std::ranges::sort(by_name, {}, &StoredTensor::name);
  EXPECT_EQ(back.tensors, by_name);
  EXPECT_EQ(encode_safetensors(back), bytes);
}

TEST(Safetensors, TheOrderOfTheTensorsDoesNotMatter) {
  TensorFile file = sample();
  const std::string bytes = encode_safetensors(file);
  std::ranges::sort(file.tensors, {}, &StoredTensor::name);
  do {
    ASSERT_EQ(encode_safetensors(file), bytes);
  } while (std::ranges::next_permutation(file.tensors, {}, &StoredTensor::name).found);
}

TEST(Safetensors, EveryTensorIsAligned) {
  const TensorFile file = sample();
  const std::string bytes = encode_safetensors(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  // Each tensor's data, which is found nowhere else, begins at a multiple of its element's size.
  for (const StoredTensor& tensor : file.tensors) {
    if (tensor.data.empty()) continue;
    const std::string data(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
    const size_t at = bytes.find(data, 8 + header);
    ASSERT_NE(at, bytes.npos) << tensor.name;
    EXPECT_EQ(at % size_of(tensor.dtype), 0u) << tensor.name;
  }
}

TEST(Safetensors, EveryBitOfANumberIsKept) {
  const std::vector<float> floats = {0.F,
                                     -0.F,
                                     std::numeric_limits<float>::denorm_min(),
                                     std::numeric_limits<float>::max(),
                                     -std::numeric_limits<float>::infinity(),
                                     std::bit_cast<float>(0x7FC12345u),
                                     std::bit_cast<float>(0xFF800001u)};
  const std::vector<double> doubles = {-0.0, std::bit_cast<double>(0x7FF0000000000001u), 0.1};
  TensorFile file;
  file.tensors = {store("f", floats), store("d", doubles)};
  const TensorFile back = decode_safetensors(encode_safetensors(file), "m");
  const std::vector<float> f = back.floats("f");
  const std::vector<double> d = back.doubles("d");
  ASSERT_EQ(f.size(), floats.size());
  ASSERT_EQ(d.size(), doubles.size());
  EXPECT_EQ(std::memcmp(f.data(), floats.data(), f.size() * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(d.data(), doubles.data(), d.size() * sizeof(double)), 0);
}

TEST(Safetensors, NamesAndMetadataAreAnyText) {
  TensorFile file;
  for (const char* name : {"", " ", "a.b/c", "\"\\\n\t\x01\x7f", "caf\xc3\xa9 \xf0\x9f\x98\x80",
                           "__metadata", "dtype"}) {
    file.tensors.push_back(store(name, std::vector<float>{1}));
    file.metadata[name] = name;
  }
  file.metadata["__metadata__"] = "{}";
  const TensorFile back = decode_safetensors(encode_safetensors(file), "m");
  EXPECT_EQ(back.metadata, file.metadata);
  for (const StoredTensor& tensor : file.tensors) EXPECT_EQ(back.find(tensor.name), tensor);
}

TEST(Safetensors, ParametersComeBackBitForBit) {
  NetworkSpec spec;
  spec.inputs = 4;
  spec.hidden = {16, 8};
  spec.action = ActionSpace::box({-2, -1, 0}, {2, 1, 5});
  const Tensors parameters = initial_parameters(spec, 7);
  OptimiserState optimiser(spec);
  optimiser.actor_steps = (uint64_t{1} << 40) + 3;
  TensorFile file;
  file.tensors = store(parameters);
  const Tensors back = decode_safetensors(encode_safetensors(file), "m").all_tensors();
  EXPECT_NO_THROW(require_same_shapes(parameters, back));
  EXPECT_EQ(sha256(back), sha256(parameters));
  file.tensors = store(optimiser.join());
  OptimiserState again(spec);
  again.split(decode_safetensors(encode_safetensors(file), "m").all_tensors());
  EXPECT_EQ(again.actor_steps, optimiser.actor_steps);
}

TEST(Safetensors, ValuesAreTakenByNameAndType) {
  const TensorFile file = decode_safetensors(encode_safetensors(sample()), "m.safetensors");
  EXPECT_EQ(file.floats("weight"), (std::vector<float>{1, -2.5F, 3, 4, 5, 6}));
  EXPECT_EQ(file.doubles("mean"), (std::vector<double>{0.1, -1e300}));
  EXPECT_EQ(file.integers("steps"), (std::vector<int64_t>{-1, INT64_MAX}));
  EXPECT_EQ(file.bytes("mask"), (std::vector<uint8_t>{0, 1, 255}));
  EXPECT_EQ(file.doubles("empty"), std::vector<double>{});
  EXPECT_EQ(file.tensor("weight").shape, (std::vector<int>{2, 3}));
  EXPECT_EQ(file.tensor("scalar").shape, std::vector<int>{});
  EXPECT_EQ(file.tensor("scalar").elements(), 1u);
  EXPECT_EQ(file.find_metadata("step"), "100");
  const auto refused = [](auto&& call) { return error_text(ErrorCode::kData, call); };
  EXPECT_EQ(refused([&] { file.floats("wieght"); }), "m.safetensors: no tensor 'wieght'");
  EXPECT_EQ(refused([&] { file.floats("mean"); }),
            "m.safetensors: tensor 'mean' is F64, expected F32");
  EXPECT_EQ(refused([&] { file.doubles("steps"); }),
            "m.safetensors: tensor 'steps' is I64, expected F64");
  EXPECT_EQ(refused([&] { file.bytes("weight"); }),
            "m.safetensors: tensor 'weight' is F32, expected U8");
  EXPECT_EQ(refused([&] { file.all_tensors(); }),
            "m.safetensors: tensor 'empty' is F64, expected F32");
  EXPECT_EQ(refused([&] { file.find_metadata("none"); }), "m.safetensors: no metadata 'none'");
  TensorFile wide{{{"w", DType::kF32, {0, int64_t{1} << 31}, {}}}, {}, "m"};
  EXPECT_EQ(refused([&] { wide.all_tensors(); }),
            "m: tensor 'w' has an extent of 2147483648, which is too large");
}

// Its values: tests/golden/safetensors/make_golden.py.
TEST(Safetensors, AFileOfThePythonPackage) {
  const std::string bytes =
      read_whole_file(source_dir() + "/tests/golden/safetensors/python.safetensors", 1u << 20u);
  const TensorFile file = decode_safetensors(bytes, "python.safetensors");
  ASSERT_EQ(file.tensors.size(), 7u);
  const Tensor weight = file.tensor("actor.0.weight");
  EXPECT_EQ(weight.shape, (std::vector<int>{2, 3}));
  EXPECT_EQ(weight.data,
            (std::vector<float>{0.5F, -1.25F, 3, std::numeric_limits<float>::denorm_min(), -0.F,
                                std::numeric_limits<float>::infinity()}));
  EXPECT_TRUE(std::signbit(weight.data[4]));
  EXPECT_EQ(file.floats("actor.0.bias"), (std::vector<float>{0.1F, -2}));
  EXPECT_EQ(file.doubles("obs.mean"), (std::vector<double>{0.1, -1e300, 5e-324}));
  EXPECT_EQ(file.integers("count"), std::vector<int64_t>{-9007199254740993});
  EXPECT_EQ(file.find("count").shape, std::vector<int64_t>{});
  EXPECT_EQ(file.bytes("flags"), (std::vector<uint8_t>{0, 1, 127, 255}));
  EXPECT_EQ(file.find("flags").shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(file.find("empty").shape, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(file.integers("caf\xc3\xa9 \"\n"), std::vector<int64_t>{7});
  EXPECT_EQ(file.metadata,
            (std::map<std::string, std::string>{{"made by", "safetensors for Python"}}));
  EXPECT_EQ(encode_safetensors(file), bytes) << "written again, it has other bytes";
}

TEST(Safetensors, TheHeaderMayBeInAnyOrderAndSpacing) {
  const TensorFile file = decode_safetensors(
      with_header("{ \"b\" : {\"shape\":[1], \"data_offsets\":[4,5],\n\"dtype\":\"U8\"},"
                  "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]},"
                  "\"a\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]}}\t\r\n ",
                  "12345"),
      "m");
  EXPECT_EQ(file.find("a"), (StoredTensor{"a", DType::kF32, {1, 1}, bytes_of("1234")}));
  EXPECT_EQ(file.find("b"), (StoredTensor{"b", DType::kU8, {1}, bytes_of("5")}));
  EXPECT_EQ(file.tensors[2].name, "e");
}

TEST(Safetensors, WrongFramesAreRefused) {
  EXPECT_EQ(refusal(""), "not a safetensors file: it has 0 bytes");
  EXPECT_EQ(refusal("1234567"), "not a safetensors file: it has 7 bytes");
  EXPECT_EQ(refusal(std::string("\x03\0\0\0\0\0\0\0{}", 10)),
            "truncated, or not a safetensors file: the header should have 3 bytes, 2 are there");
  EXPECT_EQ(refusal(std::string(8, '\xff') + "{}"),
            "truncated, or not a safetensors file: the header should have 18446744073709551615 "
            "bytes, 2 are there");
  EXPECT_EQ(refusal("PK\x03\x04 a zip file, as torch writes them"),
            "truncated, or not a safetensors file: the header should have 8800140462016121680 "
            "bytes, 29 are there");
  EXPECT_EQ(header_refusal(""), "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(header_refusal("[]"), "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(header_refusal(" {}"), "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(header_refusal("\xef\xbb\xbf{}"),
            "not a safetensors file: the header does not begin with '{'");
  EXPECT_EQ(header_refusal("{" + std::string(16u << 20u, ' ') + "}"),
            "the header has 16777218 bytes, 16777216 are read at most");
  EXPECT_EQ(header_refusal("{}", "x"), "the data has 1 bytes, the tensors take 0");
}

TEST(Safetensors, HeadersThatAreNotTextAreRefused) {
  EXPECT_EQ(header_refusal(std::string("{}\0", 3)), "the header is not UTF-8 text at byte 2: 0x00");
  EXPECT_EQ(header_refusal("{\"\xff\":{}}"), "the header is not UTF-8 text at byte 2: 0xff");
  EXPECT_EQ(header_refusal("{\"\xc0\x80\":{}}"), "the header is not UTF-8 text at byte 2: 0xc0");
  EXPECT_EQ(header_refusal("{\"\xed\xa0\x80\":{}}"),
            "the header is not UTF-8 text at byte 2: 0xed");
  EXPECT_EQ(header_refusal("{"), "the header is not JSON at byte 2");
  EXPECT_EQ(header_refusal("{} {}"), "the header is not JSON at byte 4");
  EXPECT_EQ(header_refusal("{\"a\":}"), "the header is not JSON at byte 6");
  EXPECT_EQ(header_refusal("{'a':{}}"), "the header is not JSON at byte 2");
  EXPECT_EQ(header_refusal("{/**/}"), "the header is not JSON at byte 2");
  EXPECT_EQ(header_refusal("{\"a\n\":{}}"), "the header is not JSON at byte 4");
  EXPECT_EQ(header_refusal("{\"\\ud800\":{}}"), "the header is not JSON at byte 9");
  EXPECT_EQ(header_refusal("{\"a\":{\"shape\":[1,]}}"), "the header is not JSON at byte 18");
  EXPECT_EQ(header_refusal("{\"a\":{\"shape\":[1e999]}}"), "the header is not JSON at byte 20");
}

TEST(Safetensors, WrongHeadersAreRefused) {
  EXPECT_EQ(header_refusal(R"({"a":1})"), "'a' is a number, not an object");
  EXPECT_EQ(header_refusal(R"({"a":-1})"), "'a' is a negative number, not an object");
  EXPECT_EQ(header_refusal(R"({"a":null})"), "'a' is null, not an object");
  EXPECT_EQ(header_refusal(R"({"a":true})"), "'a' is a boolean, not an object");
  EXPECT_EQ(header_refusal(R"({"a":"F32"})"), "'a' is a text, not an object");
  EXPECT_EQ(header_refusal(R"({"a":[]})"), "'a' is a list, not an object");
  EXPECT_EQ(header_refusal(R"({"\u0000":{}})"), "a NUL in the name '\\x00'");
  EXPECT_EQ(header_refusal(R"({"__metadata__":[]})"), "'__metadata__' is a list, not an object");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"k":1}})"),
            "__metadata__: 'k' is a number, not a text");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"k":{}}})"),
            "__metadata__: 'k' is an object, not a text");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"k":"1","k":"2"}})"),
            "__metadata__: 'k' stands there twice");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"a\u0000":"1"}})"), "a NUL in the name 'a\\x00'");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{"k":"\u0000"}})"),
            "__metadata__: a NUL in the text of 'k'");
  EXPECT_EQ(header_refusal(R"({"__metadata__":{},"__metadata__":{}})"),
            "'__metadata__' stands in the header twice");
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(header_refusal("{" + a + "," + a + "}", "x"), "'a' stands in the header twice");
}

TEST(Safetensors, WrongTensorsAreRefused) {
  const std::string f32 = R"("dtype":"F32",)", one = R"("shape":[1],)";
  const std::string all = R"("data_offsets":[0,4])";
  EXPECT_EQ(tensor_refusal(""), "tensor 'a': no dtype");
  EXPECT_EQ(tensor_refusal(R"("dtype":"F32")"), "tensor 'a': no shape");
  EXPECT_EQ(tensor_refusal(R"("dtype":"F32","shape":[1])"), "tensor 'a': no data_offsets");
  EXPECT_EQ(tensor_refusal(one + all), "tensor 'a': no dtype");
  EXPECT_EQ(tensor_refusal(f32 + f32 + one + all), "tensor 'a': 'dtype' stands there twice");
  EXPECT_EQ(tensor_refusal(f32 + one + one + all), "tensor 'a': 'shape' stands there twice");
  EXPECT_EQ(tensor_refusal(all + "," + all), "tensor 'a': 'data_offsets' stands there twice");
  EXPECT_EQ(tensor_refusal(R"("strides":[1])"), "tensor 'a': unknown key 'strides'");
  EXPECT_EQ(tensor_refusal(R"("dtype":"BF16")"),
            "tensor 'a': unknown dtype 'BF16'; F32, F64, I64 and U8 are read");
  EXPECT_EQ(tensor_refusal(R"("dtype":"f32")"),
            "tensor 'a': unknown dtype 'f32'; F32, F64, I64 and U8 are read");
  EXPECT_EQ(tensor_refusal(R"("dtype":"F32\u0000\n")"),
            "tensor 'a': unknown dtype 'F32\\x00\\n'; F32, F64, I64 and U8 are read");
  EXPECT_EQ(tensor_refusal(R"("dtype":5)"), "tensor 'a': dtype is a number, not a text");
  EXPECT_EQ(tensor_refusal(R"("dtype":{})"), "tensor 'a': dtype is an object, not a text");
  EXPECT_EQ(tensor_refusal(R"("dtype":["F32"])"), "tensor 'a': dtype is a list, not a text");
  EXPECT_EQ(tensor_refusal(R"("shape":1)"), "tensor 'a': shape is a number, not a list");
  EXPECT_EQ(tensor_refusal(R"("shape":"1")"), "tensor 'a': shape is a text, not a list");
  EXPECT_EQ(tensor_refusal(R"("shape":[[1]])"), "tensor 'a': its shape holds a list");
  EXPECT_EQ(tensor_refusal(R"("shape":[{}])"), "tensor 'a': its shape holds an object");
  EXPECT_EQ(tensor_refusal(R"("shape":["1"])"), "tensor 'a': its shape holds a text");
  EXPECT_EQ(tensor_refusal(R"("shape":[-1])"), "tensor 'a': its shape holds a negative number");
  EXPECT_EQ(tensor_refusal(R"("shape":[null])"), "tensor 'a': its shape holds null");
  EXPECT_EQ(tensor_refusal(R"("shape":[1.0])"),
            "tensor 'a': its shape holds a number that is not an integer, or too large");
  EXPECT_EQ(tensor_refusal(R"("shape":[99999999999999999999])"),
            "tensor 'a': its shape holds a number that is not an integer, or too large");
  EXPECT_EQ(tensor_refusal(R"("shape":[9223372036854775808])"),
            "tensor 'a': its shape has an extent of 9223372036854775808, which is too large");
  EXPECT_EQ(tensor_refusal(R"("shape":[1,1,1,1,1,1,1,1,1])"),
            "tensor 'a': a shape of more than 8 dimensions");
  EXPECT_EQ(tensor_refusal(R"("data_offsets":[])"), "tensor 'a': data_offsets are not two numbers");
  EXPECT_EQ(tensor_refusal(R"("data_offsets":[0])"),
            "tensor 'a': data_offsets are not two numbers");
  EXPECT_EQ(tensor_refusal(R"("data_offsets":[0,4,8])"), "tensor 'a': more than two data_offsets");
  EXPECT_EQ(tensor_refusal(R"("data_offsets":[-4,4])"),
            "tensor 'a': its data_offsets hold a negative number");
  EXPECT_EQ(tensor_refusal(R"("data_offsets":{"0":4})"),
            "tensor 'a': data_offsets is an object, not a list");
}

TEST(Safetensors, WrongPlacesAreRefused) {
  const auto placed = [](const std::string& shape, const std::string& offsets) {
    return tensor_refusal(R"("dtype":"F32","shape":[)" + shape + R"(],"data_offsets":[)" + offsets +
                          "]");
  };
  EXPECT_EQ(placed("1", "4,0"), "tensor 'a': data_offsets [4, 0] end before they begin");
  EXPECT_EQ(placed("2", "0,8"),
            "tensor 'a': data_offsets [0, 8] lie outside the data, which has 4 bytes");
  EXPECT_EQ(placed("1", "18446744073709551612,18446744073709551615"),
            "tensor 'a': data_offsets [18446744073709551612, 18446744073709551615] lie outside the "
            "data, which has 4 bytes");
  EXPECT_EQ(placed("2", "0,4"),
            "tensor 'a': shape [2] of F32 takes 8 bytes, its data_offsets give it 4");
  EXPECT_EQ(placed("0", "0,4"),
            "tensor 'a': shape [0] of F32 takes 0 bytes, its data_offsets give it 4");
  EXPECT_EQ(placed("", "0,0"),
            "tensor 'a': shape [] of F32 takes 4 bytes, its data_offsets give it 0");
  // Products that are 0 or 4 when they wrap around.
  for (const char* shape : {"4294967296, 4294967296", "9223372036854775807, 2, 2",
                            "4611686018427387905", "4611686018427387904"}) {
    EXPECT_EQ(placed(shape, "0,4"),
              std::string("tensor 'a': shape [") + shape + "] of F32 is too large");
  }
  EXPECT_EQ(placed("0", "0,0"), "the data has 4 bytes, the tensors take 0");

  const auto two = [](const std::string& b, const std::string& data) {
    return header_refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                          R"("b":{"dtype":"U8","shape":[2],"data_offsets":)" +
                              b + "}}",
                          data);
  };
  EXPECT_EQ(two("[3,5]", "12345"),
            "tensor 'b': data_offsets [3, 5] overlap those of another tensor");
  EXPECT_EQ(two("[2,4]", "1234"),
            "tensor 'b': data_offsets [2, 4] overlap those of another tensor");
  EXPECT_EQ(two("[5,7]", "1234567"), "tensor 'b': data_offsets [5, 7] leave a hole behind byte 4");
  EXPECT_EQ(two("[4,6]", "1234567"), "the data has 7 bytes, the tensors take 6");
}

TEST(Safetensors, EveryPrefixIsRefused) {
  const std::string bytes = encode_safetensors(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of its own size, so that a sanitizer sees a read behind the end.
    ASSERT_NE(refusal({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)}),
              "no error")
        << size << " bytes";
  }
  EXPECT_EQ(refusal(bytes + '\0'), "the data has 64 bytes, the tensors take 63");
}

// Bits of the data change numbers, which a checksum has to find. All others are refused, or are in
// a name, the metadata or white space, or exchange two shapes of the same size.
TEST(Safetensors, FlippedBitsAreRefusedOrHarmless) {
  const std::string bytes = encode_safetensors(sample());
  int refused = 0, flips = 0;
  for (size_t at = 0; at + 63 < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit, ++flips) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      try {
        const TensorFile file = decode_safetensors(flipped, "m");
        ASSERT_NE(encode_safetensors(file), bytes) << "byte " << at << ", bit " << bit;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kData) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, flips / 2);
  EXPECT_LT(refused, flips);
}

// What grows with nesting or repetition in other readers: 16 MB each.
TEST(Safetensors, HostileHeadersCostLittle) {
  constexpr size_t kSize = kSanitized ? 1u << 20u : (16u << 20u) - 100;
  const auto repeated = [](const std::string& text) {
    std::string all;
    all.reserve(kSize + text.size());
    while (all.size() < kSize) all += text;
    return all;
  };
  const uint64_t before = peak_resident_bytes();
  EXPECT_EQ(header_refusal("{\"a\":" + repeated("[")), "'a' is a list, not an object");
  EXPECT_EQ(header_refusal(repeated("{\"a\":")), "tensor 'a': unknown key 'a'");
  EXPECT_EQ(header_refusal(R"({"a":{"shape":[)" + repeated("1,") + "1]}}"),
            "tensor 'a': a shape of more than 8 dimensions");
  EXPECT_EQ(header_refusal(R"({"a":{"data_offsets":[)" + repeated("0,") + "0]}}"),
            "tensor 'a': more than two data_offsets");
  const std::string name = repeated("n");
  EXPECT_EQ(header_refusal("{\"" + name + "\":1}"),
            "'" + std::string(80, 'n') + "...' is a number, not an object");
  if (!kSanitized) {
    EXPECT_LT(peak_resident_bytes() - before, uint64_t{200} << 20);
  }

  std::string many = "{";
  for (size_t i = 0; i <= SafetensorsLimits::kTensors; ++i) {
    many += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_EQ(header_refusal(many + "}"), "more than 100000 tensors");
}

TEST(Safetensors, AsManyTensorsAsAreAllowed) {
  TensorFile file;
  for (size_t i = 0; i < SafetensorsLimits::kTensors; ++i) {
    file.tensors.push_back(store(std::to_string(i), std::vector<uint8_t>{static_cast<uint8_t>(i)}));
  }
  const TensorFile back = decode_safetensors(encode_safetensors(file), "m");
  EXPECT_EQ(back.tensors.size(), 100'000u);
  EXPECT_EQ(back.bytes("99999"), std::vector<uint8_t>{99999 % 256});
  file.tensors.push_back(store("x", std::vector<float>{}));
  EXPECT_EQ(bug(file), "safetensors: 100001 tensors");
}

TEST(Safetensors, WhatCouldNotBeReadIsNotWritten) {
  const auto one = [](StoredTensor tensor) { return TensorFile{{std::move(tensor)}, {}, ""}; };
  EXPECT_EQ(bug(one({"a", DType::kF32, {2}, bytes_of("1234")})),
            "safetensors: tensor 'a' of shape [2] has 4 bytes");
  EXPECT_EQ(bug(one({"a", DType::kU8, {-1}, {}})),
            "safetensors: tensor 'a' of shape [-1] has 0 bytes");
  EXPECT_EQ(bug(one({"a", DType::kU8, std::vector<int64_t>(9, 1), bytes_of("1")})),
            "safetensors: tensor 'a' has 9 dimensions");
  EXPECT_EQ(bug(one({"__metadata__", DType::kU8, {0}, {}})),
            "safetensors: '__metadata__' is no name");
  EXPECT_EQ(bug(one({"\xff", DType::kU8, {0}, {}})), "safetensors: '\\xff' is no name");
  EXPECT_EQ(bug(one({std::string("a\0b", 3), DType::kU8, {0}, {}})),
            "safetensors: 'a\\x00b' is no name");
  EXPECT_EQ(bug({{store("a", std::vector<float>{1}), store("a", std::vector<double>{1})}, {}, ""}),
            "safetensors: two tensors are called 'a'");
  EXPECT_EQ(bug({{}, {{"k", "\xff"}}, ""}), "safetensors: metadata 'k' is not UTF-8 text");
  EXPECT_EQ(bug(one({std::string(17u << 20u, 'n'), DType::kU8, {0}, {}})),
            "safetensors: a header of 17825848 bytes");
}

TEST(HalfPrecision, TakesTwoBytesAndElevenBits) {
  const Tensor tensor{.name = "w", .shape = {2, 3}, .data = {0, 1, -2.5F, 0.1F, 65504, 1e-7F}};
  TensorFile file;
  file.tensors.push_back(store_half(tensor));
  const TensorFile read = decode_safetensors(encode_safetensors(file), "half");
  EXPECT_EQ(read.find("w").dtype, DType::kF16);
  EXPECT_EQ(read.find("w").data.size(), 12u);
  const Tensor back = read.tensor("w");
  EXPECT_EQ(back.shape, tensor.shape);
  // 0.1 is 1638.4 / 2^14, and 1e-7 lies between the least number, 2^-24, and its double.
  EXPECT_EQ(back.data, (std::vector<float>{0, 1, -2.5F, 1638.0F / 16384, 65504, 0x1p-23F}));
}

}  // namespace
}  // namespace flotilla::test
