#include "flotilla/nn/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/json_events.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is copied as it is");

using Limits = SafetensorsLimits;

constexpr size_t kLengthBytes = 8, kAlignment = 8;
constexpr const char* kMetadataKey = "__metadata__";
constexpr DType kTypes[] = {DType::kU8, DType::kF16, DType::kF32, DType::kF64, DType::kI64};

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw Error(ErrorCode::kData, origin + ": " + what);
}

// The size in bytes, unless it is beyond what an integer holds.
std::optional<uint64_t> bytes_of(DType dtype, const std::vector<int64_t>& shape) {
  uint64_t product = 1;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (__builtin_mul_overflow(product, static_cast<uint64_t>(extent), &product)) {
      return std::nullopt;
    }
  }
  if (__builtin_mul_overflow(product, size_of(dtype), &product)) return std::nullopt;
  return product;
}

// Where the first byte stands that is not UTF-8 or is a NUL, which a JSON parser may take for the
// end; nothing when there is none.
std::optional<size_t> first_bad_byte(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t at = text.size() - rest.size();
    const std::optional<char32_t> point = next_code_point(rest);
    if (!point || *point == 0) return at;
  }
  return std::nullopt;
}

bool is_plain_text(std::string_view text) { return !first_bad_byte(text); }

// A tensor as the header describes it.
struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;  // two
  bool has_dtype = false, has_shape = false, has_offsets = false;

  uint64_t begin() const { return offsets[0]; }
  uint64_t end() const { return offsets[1]; }
};

// Takes the parser's events instead of building a tree, so that what has no place in a header
// (nesting, long lists, a key given twice) is refused where it stands, before it costs memory.
class HeaderReader final : public JsonEvents {
 public:
  explicit HeaderReader(const std::string& origin) : origin_(origin) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_float(double) override {
    return unexpected("a number that is not an integer, or too large");
  }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) {
      std::vector<int64_t>& shape = entries.back().shape;
      if (shape.size() == Limits::kRank) {
        fail(fmt::format("a shape of more than {} dimensions", Limits::kRank));
      }
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fail(fmt::format("its shape has an extent of {}, which is too large", value));
      }
      shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      std::vector<uint64_t>& offsets = entries.back().offsets;
      if (offsets.size() == 2) fail("more than two data_offsets");
      offsets.push_back(value);
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      if (value.find('\0') != value.npos) fail("a NUL in the text of " + in_quotes(key_));
      metadata[key_] = std::move(value);
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      const auto* const type =
          std::ranges::find_if(kTypes, [&](DType each) { return value == name_of(each); });
      if (type == std::end(kTypes)) {
        fail(fmt::format("unknown dtype {}; F32, F64, I64 and U8 are read", in_quotes(value)));
      }
      entries.back().dtype = *type;
      entries.back().has_dtype = true;
    } else {
      unexpected("a text");
    }
    return true;
  }

  bool start_object() override {
    if (place_ == Place::kOutside) {
      place_ = Place::kFile;
    } else if (place_ == Place::kFile && key_ == kMetadataKey) {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kFile) {
      if (entries.size() == Limits::kTensors) {
        refuse(origin_, fmt::format("more than {} tensors", Limits::kTensors));
      }
      entries.emplace_back().name = key_;
      place_ = Place::kTensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      const Entry& entry = entries.back();
      if (!entry.has_dtype) fail("no dtype");
      if (!entry.has_shape) fail("no shape");
      if (!entry.has_offsets) fail("no data_offsets");
    }
    place_ = place_ == Place::kFile ? Place::kOutside : Place::kFile;
    return true;
  }

  bool start_array() override {
    if (place_ == Place::kTensor && key_ == "shape") {
      entries.back().has_shape = true;
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && key_ == "data_offsets") {
      entries.back().has_offsets = true;
      place_ = Place::kOffsets;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && entries.back().offsets.size() != 2) {
      fail("data_offsets are not two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool key(std::string& value) override {
    if (value.find('\0') != value.npos) {
      refuse(origin_, "a NUL in the name " + in_quotes(value));
    }
    const auto once = [&](bool is_new) {
      if (!is_new) fail(fmt::format("{} stands there twice", in_quotes(value)));
    };
    switch (place_) {
      case Place::kFile:
        if (!names_.insert(value).second) {
          refuse(origin_, fmt::format("{} stands in the header twice", in_quotes(value)));
        }
        break;
      case Place::kMetadata:
        once(!metadata.contains(value));
        break;
      default: {  // of a tensor: there are no other objects
        const Entry& entry = entries.back();
        if (value == "dtype") {
          once(!entry.has_dtype);
        } else if (value == "shape") {
          once(!entry.has_shape);
        } else if (value == "data_offsets") {
          once(!entry.has_offsets);
        } else {
          fail("unknown key " + in_quotes(value));
        }
      }
    }
    key_ = std::move(value);
    return true;
  }

  void error(size_t position, const std::string&) override {
    refuse(origin_, fmt::format("the header is not JSON at byte {}", position));
  }

 private:
  enum class Place : uint8_t { kOutside, kFile, kMetadata, kTensor, kShape, kOffsets };

  // An error in the tensor or the metadata that is open.
  [[noreturn]] void fail(const std::string& what) const {
    if (place_ == Place::kMetadata) refuse(origin_, std::string(kMetadataKey) + ": " + what);
    refuse(origin_, fmt::format("tensor {}: {}", in_quotes(entries.back().name), what));
  }

  bool unexpected(const std::string& what) const {
    switch (place_) {
      case Place::kOutside:
        refuse(origin_, "the header is " + what + ", not an object");
      case Place::kFile:
        refuse(origin_, fmt::format("{} is {}, not an object", in_quotes(key_), what));
      case Place::kMetadata:
        fail(fmt::format("{} is {}, not a text", in_quotes(key_), what));
      case Place::kTensor:
        fail(fmt::format("{} is {}, not a {}", key_, what, key_ == "dtype" ? "text" : "list"));
      case Place::kShape:
        fail("its shape holds " + what);
      case Place::kOffsets:
        fail("its data_offsets hold " + what);
    }
    return false;
  }

  const std::string& origin_;
  Place place_ = Place::kOutside;
  std::string key_;              // the last one
  std::set<std::string> names_;  // of the file's entries
};

std::string_view header_of(std::string_view bytes, const std::string& origin) {
  if (bytes.size() < kLengthBytes) {
    refuse(origin, fmt::format("not a safetensors file: it has {} bytes", bytes.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const std::string_view rest = bytes.substr(kLengthBytes);
  if (length > rest.size()) {
    refuse(origin, fmt::format("truncated, or not a safetensors file: the header should have {} "
                               "bytes, {} are there",
                               length, rest.size()));
  }
  if (length > Limits::kHeaderBytes) {
    refuse(origin, fmt::format("the header has {} bytes, {} are read at most", length,
                               Limits::kHeaderBytes));
  }
  const std::string_view header = rest.substr(0, static_cast<size_t>(length));
  if (!header.starts_with('{')) {
    refuse(origin, "not a safetensors file: the header does not begin with '{'");
  }
  if (const auto at = first_bad_byte(header)) {
    refuse(origin, fmt::format("the header is not UTF-8 text at byte {}: 0x{:02x}", *at,
                               static_cast<unsigned char>(header[*at])));
  }
  return header;
}

// The tensors must cover the data once and whole.
void check_places(std::vector<Entry>& entries, uint64_t data_bytes, const std::string& origin) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::pair(a.begin(), a.end()) < std::pair(b.begin(), b.end());
  });
  uint64_t covered = 0;
  for (const Entry& entry : entries) {
    const auto fail = [&](const std::string& what) {
      refuse(origin, fmt::format("tensor {}: {}", in_quotes(entry.name), what));
    };
    const std::string place = fmt::format("data_offsets [{}, {}]", entry.begin(), entry.end());
    if (entry.begin() > entry.end()) fail(place + " end before they begin");
    if (entry.end() > data_bytes) {
      fail(fmt::format("{} lie outside the data, which has {} bytes", place, data_bytes));
    }
    const std::optional<uint64_t> bytes = bytes_of(entry.dtype, entry.shape);
    const std::string shape =
        fmt::format("shape [{}] of {}", fmt::join(entry.shape, ", "), name_of(entry.dtype));
    if (!bytes) fail(shape + " is too large");
    if (*bytes != entry.end() - entry.begin()) {
      fail(fmt::format("{} takes {} bytes, its data_offsets give it {}", shape, *bytes,
                       entry.end() - entry.begin()));
    }
    if (entry.begin() < covered) fail(place + " overlap those of another tensor");
    if (entry.begin() > covered) {
      fail(fmt::format("{} leave a hole behind byte {}", place, covered));
    }
    covered = entry.end();
  }
  if (covered != data_bytes) {
    refuse(origin, fmt::format("the data has {} bytes, the tensors take {}", data_bytes, covered));
  }
}

void check_to_encode(const TensorFile& file, const std::vector<const StoredTensor*>& sorted) {
  const auto bug = [](const std::string& what) {
    throw Error(ErrorCode::kInternal, "safetensors: " + what);
  };
  if (sorted.size() > Limits::kTensors) bug(fmt::format("{} tensors", sorted.size()));
  std::set<std::string_view> names;
  for (const StoredTensor* tensor : sorted) {
    const std::string name = in_quotes(tensor->name);
    if (tensor->name == kMetadataKey || !is_plain_text(tensor->name)) bug(name + " is no name");
    if (!names.insert(tensor->name).second) bug("two tensors are called " + name);
    if (tensor->shape.size() > Limits::kRank) {
      bug(fmt::format("tensor {} has {} dimensions", name, tensor->shape.size()));
    }
    if (bytes_of(tensor->dtype, tensor->shape) != tensor->data.size()) {
      bug(fmt::format("tensor {} of shape [{}] has {} bytes", name, fmt::join(tensor->shape, ", "),
                      tensor->data.size()));
    }
  }
  for (const auto& [key, value] : file.metadata) {
    if (!is_plain_text(key) || !is_plain_text(value)) {
      bug("metadata " + in_quotes(key) + " is not UTF-8 text");
    }
  }
}

}  // namespace

std::string encode_safetensors(const TensorFile& file) {
  std::vector<const StoredTensor*> sorted;
  sorted.reserve(file.tensors.size());
  for (const StoredTensor& tensor : file.tensors) sorted.push_back(&tensor);
  std::ranges::sort(sorted, [](const StoredTensor* a, const StoredTensor* b) {
    return a->dtype != b->dtype ? a->dtype > b->dtype : a->name < b->name;
  });
  check_to_encode(file, sorted);

  // Put together by hand: an object of Json is searched from the front for every key.
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  std::string header = "{";
  const auto add = [&](const std::string& key, const std::string& value) {
    if (header.size() > 1) header += ',';
    header += quoted(key) + ":" + value;
  };
  if (!file.metadata.empty()) add(kMetadataKey, Json(file.metadata).dump());
  size_t data_bytes = 0;
  for (const StoredTensor* tensor : sorted) {
    const size_t end = data_bytes + tensor->data.size();
    add(tensor->name,
        fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                    name_of(tensor->dtype), fmt::join(tensor->shape, ","), data_bytes, end));
    data_bytes = end;
  }
  header += '}';
  header.resize((header.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (header.size() > Limits::kHeaderBytes) {
    throw Error(ErrorCode::kInternal,
                fmt::format("safetensors: a header of {} bytes", header.size()));
  }

  const uint64_t length = header.size();
  std::string bytes;
  bytes.reserve(kLengthBytes + header.size() + data_bytes);
  bytes.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  bytes += header;
  for (const StoredTensor* tensor : sorted) {
    bytes.append(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
  }
  return bytes;
}

TensorFile decode_safetensors(std::string_view bytes, const std::string& origin) {
  const std::string_view header = header_of(bytes, origin);
  const std::string_view data = bytes.substr(kLengthBytes + header.size());
  HeaderReader reader(origin);
  read_json(header, reader);
  check_places(reader.entries, data.size(), origin);
  TensorFile file;
  file.origin = origin;
  file.metadata = std::move(reader.metadata);
  file.tensors.reserve(reader.entries.size());
  for (Entry& entry : reader.entries) {
    const auto values =
        std::as_bytes(std::span(data)).subspan(entry.begin(), entry.end() - entry.begin());
    file.tensors.push_back({std::move(entry.name),
                            entry.dtype,
                            std::move(entry.shape),
                            {values.begin(), values.end()}});
  }
  std::ranges::sort(file.tensors, {}, &StoredTensor::name);
  return file;
}

}  // namespace flotilla
