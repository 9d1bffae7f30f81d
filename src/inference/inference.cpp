// The kernels at the end are compiled once for each kind of CPU: this file includes itself for
// each, with FLOTILLA_LANES set, and that part of it alone is seen then.
#ifndef FLOTILLA_LANES

#include "inference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__FAST_MATH__)
#error "-ffast-math changes what a policy does"
#endif

namespace flotilla {
namespace {

static_assert(std::endian::native == std::endian::little, "the data is copied as it is");

// ---- what the kernels see
// ------------------------------------------------------------------------ Plain structs: the
// kernels share no templates of the standard library with the rest.

// Widths are padded with zeros, which change nothing of a sum, to whole vectors of every CPU.
constexpr int kPad = 16, kBf16Pad = 32;
// The head of a policy with few outputs is a few dot products, and summed as such.
constexpr int kSmallHead = 8;
constexpr float kObsClip = 10;

struct Layer {
  int in = 0, out = 0;            // padded
  const float* weight = nullptr;  // in panels: [out / kPad][in][kPad]; of a small head [out][in]
  const float* bias = nullptr;
};

struct Network {
  const Layer* hidden = nullptr;
  int depth = 0;
  Layer head;
  int outputs = 0;
  bool relu = false, bf16 = false;
};

struct Box {
  int dims = 0;  // padded
  const float *low = nullptr, *high = nullptr, *log_std = nullptr;
  bool squash = false;
};

// Numbers are read and written in whole vectors: arrays are padded.
struct Kernel {
  const char* name;
  // `x` is overwritten where the network is one of bf16; `h`: two rows of the widest layer.
  void (*forward)(const Network& network, float* x, float* const* h, float* out);
  void (*exp)(float* x, int count);
  // The action of the means, or of what `normal` draws around them unless it is null, where
  // `action` may lie.
  void (*place)(const Box& box, const float* mean, const float* normal, float* action);
};

// To the 8 significant bits of a bfloat16, halves to the even one.
inline float rounded_to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  return x == x ? std::bit_cast<float>(rounded) : x;
}

// ---- the kernels of this architecture
// ------------------------------------------------------------

#define FLOTILLA_KERNEL portable
#define FLOTILLA_LANES 4
#include "inference.cpp"
#undef FLOTILLA_KERNEL
#undef FLOTILLA_LANES

#if defined(__aarch64__)
#define FLOTILLA_KERNEL neon
#define FLOTILLA_LANES 4
#define FLOTILLA_NEON
#include "inference.cpp"
#undef FLOTILLA_KERNEL
#undef FLOTILLA_LANES
#undef FLOTILLA_NEON
#endif

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define FLOTILLA_KERNEL avx2
#define FLOTILLA_LANES 8
#include "inference.cpp"
#undef FLOTILLA_KERNEL
#undef FLOTILLA_LANES
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,fma"))), \
                             apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,fma")
#endif
#define FLOTILLA_KERNEL avx512
#define FLOTILLA_LANES 16
#include "inference.cpp"
#undef FLOTILLA_KERNEL
#undef FLOTILLA_LANES
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

// Those that this CPU can run, the fastest first.
std::vector<const Kernel*> runnable_kernels() {
  std::vector<const Kernel*> all;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    all.push_back(&avx512::kKernel);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    all.push_back(&avx2::kKernel);
  }
#elif defined(__aarch64__)
  all.push_back(&neon::kKernel);
#endif
  all.push_back(&portable::kKernel);
  return all;
}

const Kernel& find_kernel(std::string_view name) {
  const std::vector<const Kernel*> all = runnable_kernels();
  if (name.empty()) return *all.front();
  std::string known;
  for (const Kernel* kernel : all) {
    if (name == kernel->name) return *kernel;
    known += (known.empty() ? "" : ", ") + std::string(kernel->name);
  }
  throw std::invalid_argument("kernel: this CPU runs " + known + ", not '" + std::string(name) +
                              "'");
}

// ---- reading a policy file
// -----------------------------------------------------------------------

constexpr size_t kLargestFile = size_t{1} << 30, kLargestHeader = size_t{16} << 20;
constexpr uint64_t kMaxInputs = 1 << 20, kMaxWidth = 1024, kMaxOutputs = 1 << 16;
constexpr int kMaxLayers = 16;

[[noreturn]] void refuse(const std::string& origin, const std::string& what) {
  throw std::runtime_error(origin + ": " + what);
}

std::string in_quotes(std::string_view text) {
  constexpr size_t kShown = 60;
  std::string shown;
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    shown += byte >= 0x20 && byte < 0x7f ? c : '?';
  }
  return "'" + shown + (text.size() > kShown ? "...'" : "'");
}

struct Entry {
  std::string dtype;
  std::vector<uint64_t> shape, offsets;
};

// The header of a safetensors file: JSON of two levels, of texts and lists of whole numbers.
class Header {
 public:
  Header(std::string_view text, const std::string& origin) : text_(text), origin_(origin) {
    object([this](const std::string& name) {
      if (name == "__metadata__") {
        object([this](const std::string& key) { metadata_[key] = string(); });
      } else {
        tensors_[name] = entry();
      }
    });
    skip_space();
    if (at_ != text_.size()) fail();
  }

  const std::map<std::string, Entry>& tensors() const { return tensors_; }
  const std::string& metadata(const std::string& key) const {
    const auto found = metadata_.find(key);
    if (found == metadata_.end()) refuse(origin_, "no metadata " + in_quotes(key));
    return found->second;
  }

 private:
  [[noreturn]] void fail() const {
    refuse(origin_, "the header is not that of a policy at byte " + std::to_string(at_));
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_space() {
    while (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t') ++at_;
  }
  bool next_is(char c) {
    skip_space();
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!next_is(c)) fail();
  }

  // Calls value(key) where each value stands.
  template <class Value>
  void object(const Value& value) {
    std::set<std::string> keys;
    expect('{');
    if (next_is('}')) return;
    do {
      const std::string key = string();
      if (!keys.insert(key).second) fail();
      expect(':');
      value(key);
    } while (next_is(','));
    expect('}');
  }

  Entry entry() {
    Entry made;
    object([&](const std::string& key) {
      if (key == "dtype") {
        made.dtype = string();
      } else if (key == "shape") {
        made.shape = numbers();
      } else if (key == "data_offsets") {
        made.offsets = numbers();
      } else {
        fail();
      }
    });
    if (made.offsets.size() != 2) fail();
    return made;
  }

  std::vector<uint64_t> numbers() {
    constexpr size_t kMost = 8;
    std::vector<uint64_t> all;
    expect('[');
    if (next_is(']')) return all;
    do {
      skip_space();
      uint64_t number = 0;
      const char* begin = text_.data() + at_;
      const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), number);
      if (status != std::errc() || all.size() == kMost) fail();
      at_ += static_cast<size_t>(end - begin);
      all.push_back(number);
    } while (next_is(','));
    expect(']');
    return all;
  }

  std::string string() {
    expect('"');
    std::string text;
    while (peek() != '"') {
      if (static_cast<unsigned char>(peek()) < ' ') fail();  // the end as well
      text += peek() == '\\' ? escaped() : std::string(1, text_[at_++]);
    }
    ++at_;
    return text;
  }

  std::string escaped() {
    constexpr std::string_view kWritten = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    ++at_;
    const char kind = peek();
    ++at_;
    if (kind == 'u') return code_point();
    const size_t place = kWritten.find(kind);
    if (place == std::string_view::npos) fail();
    return std::string(1, kMeant[place]);
  }

  // Four hexadecimal digits, as UTF-8. Halves of what lies beyond 16 bits are refused.
  std::string code_point() {
    unsigned point = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), 4);
    const auto [end, status] =
        std::from_chars(digits.data(), digits.data() + digits.size(), point, 16);
    if (status != std::errc() || digits.size() != 4 || end != digits.data() + 4) fail();
    if (point == 0 || (point >= 0xd800 && point < 0xe000)) fail();
    at_ += 4;
    const auto byte = [](unsigned bits) { return static_cast<char>(bits); };
    if (point < 0x80) return {byte(point)};
    if (point < 0x800) return {byte(0xc0 | point >> 6), byte(0x80 | (point & 0x3f))};
    return {byte(0xe0 | point >> 12), byte(0x80 | (point >> 6 & 0x3f)),
            byte(0x80 | (point & 0x3f))};
  }

  const std::string_view text_;
  const std::string& origin_;
  size_t at_ = 0;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Entry> tensors_;
};

class PolicyReader {
 public:
  PolicyReader(std::string_view bytes, const std::string& origin)
      : origin_(origin), header_(header_of(bytes), origin) {
    data_ = bytes.substr(kLengthBytes + header_bytes_);
    if (const std::string& format = metadata("format"); format != kFormat) {
      refuse(origin_, "has format " + in_quotes(format) + ", expected '" + kFormat + "'");
    }
    read_settings();
  }

  const std::string& metadata(const std::string& key) const { return header_.metadata(key); }
  bool holds(const std::string& name) const { return header_.tensors().contains(name); }

  // Of the matrix `name`. Throws where a number of it is zero or above the limit.
  std::array<int, 2> shape_of(const std::string& name, uint64_t most_rows,
                              uint64_t most_columns) const {
    const std::vector<uint64_t>& shape = find(name).shape;
    if (shape.size() != 2 || shape[0] < 1 || shape[0] > most_rows || shape[1] < 1 ||
        shape[1] > most_columns) {
      refuse(origin_, "tensor '" + name + "' has a shape that no policy has");
    }
    return {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
  }

  std::vector<float> floats(const std::string& name, const std::vector<uint64_t>& shape) {
    const Entry& entry = find(name);
    if (entry.dtype != "F32") {
      refuse(origin_, "tensor '" + name + "' is " + in_quotes(entry.dtype) + ", expected 'F32'");
    }
    if (entry.shape != shape) {
      refuse(origin_, "tensor '" + name + "' has another shape than the network's");
    }
    uint64_t bytes = sizeof(float);  // no overflow: shapes are within the limits above
    for (const uint64_t extent : shape) bytes *= extent;
    const uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    if (begin > end || end > data_.size() || end - begin != bytes) {
      refuse(origin_, "the data of tensor '" + name + "' is not all there");
    }
    used_.insert(name);
    std::vector<float> values(bytes / sizeof(float));
    std::memcpy(values.data(), data_.data() + begin, bytes);
    return values;
  }

  // Throws for tensors of a network that this is not.
  void require_all_used() const {
    for (const auto& [name, entry] : header_.tensors()) {
      const bool of_training = name.starts_with("critic.") || name.ends_with("_normaliser.moments");
      if (used_.contains(name) || of_training || name == "env.knowledge") continue;
      refuse(origin_, "tensor " + in_quotes(name) + " is no part of such a policy");
    }
  }

  // Whether a setting of the network, which is one of two words, is the second of them.
  bool setting(const std::string& key, std::string_view first, std::string_view second) const {
    const auto found = settings_.find(key);
    if (found == settings_.end() || found->second == first) return false;
    if (found->second == second) return true;
    refuse(origin_, "network: " + key + " is " + in_quotes(found->second));
  }

  // The numbers in "Discrete(2)" and "MultiDiscrete(3, 4)", which must add up to `sum`; none in
  // "Box(...)".
  std::vector<int> choices(int sum) const {
    std::string_view rest = metadata("action");
    if (rest.starts_with("Box(")) return {};
    const size_t open = rest.find('(');
    const std::string_view kind = rest.substr(0, open);
    const auto fail = [&] { refuse(origin_, "has actions " + in_quotes(metadata("action"))); };
    const bool known = kind == "Discrete" || kind == "MultiDiscrete";
    if (!known || open == std::string_view::npos) fail();
    std::vector<int> all;
    rest.remove_prefix(kind.size());
    while (rest != ")") {
      rest.remove_prefix(1);  // what stands before a number: ( or ,
      while (rest.starts_with(' ')) rest.remove_prefix(1);
      int count = 0;
      const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
      if (status != std::errc() || count < 1 || count > sum) fail();
      sum -= count;
      all.push_back(count);
      rest.remove_prefix(static_cast<size_t>(end - rest.data()));
      if (!rest.starts_with(',') && rest != ")") fail();
    }
    if (all.empty() || sum != 0) fail();
    return all;
  }

  const std::string& origin() const { return origin_; }

 private:
  static constexpr size_t kLengthBytes = 8;
  static constexpr const char* kFormat = "flotilla policy 1";

  std::string_view header_of(std::string_view bytes) {
    uint64_t length = 0;
    if (bytes.size() >= kLengthBytes) std::memcpy(&length, bytes.data(), kLengthBytes);
    if (length == 0 || length > kLargestHeader || length > bytes.size() - kLengthBytes) {
      refuse(origin_, "truncated, or not a safetensors file");
    }
    header_bytes_ = static_cast<size_t>(length);
    return bytes.substr(kLengthBytes, header_bytes_);
  }

  // Lines of "key: value", as the engine writes them; YAML has other ways to say the same.
  void read_settings() {
    std::string_view rest = metadata("network");
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      const size_t colon = line.find(": ");
      const std::string_view key = line.substr(0, colon);
      const bool plain = std::ranges::all_of(
          key, [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '.'; });
      if (colon == line.npos || !plain || !settings_.emplace(key, line.substr(colon + 2)).second) {
        refuse(origin_, "network: expected lines of 'key: value', got " + in_quotes(line));
      }
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    }
  }

  const Entry& find(const std::string& name) const {
    const auto found = header_.tensors().find(name);
    if (found == header_.tensors().end()) refuse(origin_, "no tensor '" + name + "'");
    return found->second;
  }

  const std::string& origin_;
  size_t header_bytes_ = 0;
  const Header header_;
  std::string_view data_;
  std::map<std::string, std::string, std::less<>> settings_;
  std::set<std::string> used_;
};

std::string read_file(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) refuse(path, "there is no such file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const auto size = static_cast<std::streamoff>(file.tellg());
  if (!file || size < 0) refuse(path, "cannot be read");
  if (static_cast<uint64_t>(size) > kLargestFile) refuse(path, "is too large for a policy");
  std::string bytes(static_cast<size_t>(size), '\0');
  file.seekg(0);
  if (!file.read(bytes.data(), size)) refuse(path, "cannot be read");
  return bytes;
}

int padded(int width, int unit = kPad) { return (width + unit - 1) / unit * unit; }
uint64_t extent(int width) { return static_cast<uint64_t>(width); }

// ---- random numbers
// ------------------------------------------------------------------------------

// Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3".
std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t stream, uint64_t block) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  std::array<uint32_t, 4> counter = {low(block), high(block), low(stream), high(stream)};
  uint32_t key0 = low(seed), key1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key0, low(product1),
               high(product0) ^ counter[3] ^ key1, low(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

// The numbers that the engine draws for the actions of its first environment, in [0, 1).
float uniform(const PredictOptions& options, uint64_t word) {
  constexpr uint64_t kPolicyStreams = uint64_t{3} << 48;
  const auto block = random_block(options.seed, kPolicyStreams | options.step, word / 4);
  return static_cast<float>(block[word % 4] >> 8) * 0x1.0p-24F;
}

}  // namespace

// ---- the policy
// ----------------------------------------------------------------------------------

struct Inference::Model {
  Model(PolicyReader& file, const Kernel& with);

  const Kernel& kernel;
  std::string env;
  int inputs = 0;
  bool masked = false, normalises = false;
  std::vector<int> choices;
  std::vector<Layer> hidden;
  Network network;
  Box box;
  std::vector<Line> mean, scale;  // of observations
  int widest = 0;

 private:
  const float* keep(const std::vector<float>& values, size_t count);
  Layer load(PolicyReader& file, const std::string& name, int in, int out, bool first);
  Layer load_head(PolicyReader& file, const std::string& name, int in, int out);
  void load_box(PolicyReader& file);

  int unit_ = kPad;  // widths are padded to multiples of it
  std::vector<std::vector<Line>> kept_;
};

namespace {

template <class Lines>
float* floats_of(Lines& lines) {
  return lines.empty() ? nullptr : lines.data()->of;
}
template <class Lines>
const float* floats_of(const Lines& lines) {
  return lines.empty() ? nullptr : lines.data()->of;
}

// Where the weight of an input for an output lies.
size_t in_panel(const Layer& layer, size_t input, size_t output) {
  return (output / kPad * static_cast<size_t>(layer.in) + input) * kPad + output % kPad;
}

int likeliest(const float* p, int count) {
  int chosen = 0;
  float best = -1;
  for (int o = 0; o < count; ++o) {
    const bool better = p[o] > best;
    chosen = better ? o : chosen;
    best = better ? p[o] : best;
  }
  return chosen;
}

// The last open choice whose predecessors have at most `u` of the probability.
int drawn(const float* p, const uint8_t* mask, int count, float u) {
  const auto open_p = [&](int o) { return mask == nullptr || mask[o] != 0 ? p[o] : 0; };
  float sum = 0, passed = 0;
  for (int o = 0; o < count; ++o) sum += open_p(o);
  const float limit = u * sum;
  int chosen = 0;
  for (int o = 0; o < count; ++o) {
    if (open_p(o) > 0 && passed <= limit) chosen = o;
    passed += open_p(o);
  }
  return chosen;
}

size_t lines_for(int count) { return static_cast<size_t>(padded(count)) / kPad; }

}  // namespace

// With zeros behind them.
const float* Inference::Model::keep(const std::vector<float>& values, size_t count) {
  std::vector<Line>& lines = kept_.emplace_back((count + kPad - 1) / kPad);
  std::copy(values.begin(), values.end(), floats_of(lines));
  return floats_of(lines);
}

Layer Inference::Model::load(PolicyReader& file, const std::string& name, int in, int out,
                             bool first) {
  Layer layer;
  // As many zeros as the engine adds, lest a sum of nothing be -0 here and 0 there.
  layer.in = first && !network.bf16 ? padded(in, 4) : padded(in, unit_);
  layer.out = padded(out, unit_);
  const std::vector<float> weight = file.floats(name + ".weight", {extent(out), extent(in)});
  std::vector<float> placed(static_cast<size_t>(layer.in) * static_cast<size_t>(layer.out));
  for (size_t o = 0, from = 0; o < static_cast<size_t>(out); ++o) {
    for (size_t i = 0; i < static_cast<size_t>(in); ++i, ++from) {
      placed[in_panel(layer, i, o)] = network.bf16 ? rounded_to_bf16(weight[from]) : weight[from];
    }
  }
  layer.weight = keep(placed, placed.size());
  layer.bias = keep(file.floats(name + ".bias", {extent(out)}), static_cast<size_t>(layer.out));
  return layer;
}

Layer Inference::Model::load_head(PolicyReader& file, const std::string& name, int in, int out) {
  Layer head;
  head.in = padded(in, unit_);
  head.out = padded(out);
  const std::vector<float> weight = file.floats(name + ".weight", {extent(out), extent(in)});
  const auto width = static_cast<size_t>(head.in), outputs = static_cast<size_t>(head.out);
  std::vector<float> placed(width * outputs);
  for (size_t o = 0, from = 0; o < static_cast<size_t>(out); ++o) {
    for (size_t i = 0; i < static_cast<size_t>(in); ++i, ++from) {
      placed[out <= kSmallHead ? o * width + i : in_panel(head, i, o)] = weight[from];
    }
  }
  head.weight = keep(placed, placed.size());
  head.bias = keep(file.floats(name + ".bias", {extent(out)}), outputs);
  return head;
}

void Inference::Model::load_box(PolicyReader& file) {
  const std::vector<uint64_t> shape = {extent(network.outputs)};
  const std::vector<float> low = file.floats("action.low", shape);
  const std::vector<float> high = file.floats("action.high", shape);
  for (size_t d = 0; d < low.size(); ++d) {
    if (!(low[d] <= high[d])) refuse(file.origin(), "the bounds of actions are out of order");
  }
  const auto dims = static_cast<size_t>(padded(network.outputs));
  box = {.dims = static_cast<int>(dims),
         .low = keep(low, dims),
         .high = keep(high, dims),
         .log_std = keep(file.floats("log_std", shape), dims),
         .squash = file.setting("squash", "false", "true")};
}

Inference::Model::Model(PolicyReader& file, const Kernel& with) : kernel(with) {
  env = file.metadata("env");
  masked = file.metadata("masked") == "true";
  file.setting("torso", "none", "none");  // convolutions are for the engine
  network.relu = file.setting("activation", "tanh", "relu");
  network.bf16 = file.setting("precision", "fp32", "bf16");
  unit_ = network.bf16 ? kBf16Pad : kPad;

  const bool shared = file.holds("trunk.0.weight");
  const std::string name = shared ? "trunk." : "actor.";
  int layers = 0;
  while (file.holds(name + std::to_string(layers) + ".weight")) ++layers;
  const int depth = shared ? layers : layers - 1;
  if (depth < 1 || depth > kMaxLayers) {
    refuse(file.origin(),
           "has no network of 1 to " + std::to_string(kMaxLayers) + " hidden layers");
  }
  int width = inputs = file.shape_of(name + "0.weight", kMaxWidth, kMaxInputs)[1];
  widest = padded(width, unit_);
  for (int l = 0; l < depth; ++l) {
    const std::string each = name + std::to_string(l);
    const int next = file.shape_of(each + ".weight", kMaxWidth, kMaxInputs)[0];
    hidden.push_back(load(file, each, width, next, l == 0));
    widest = std::max(widest, hidden.back().out);
    width = next;
  }
  const std::string head = "actor." + std::to_string(shared ? 0 : depth);
  network.outputs = file.shape_of(head + ".weight", kMaxOutputs, kMaxWidth)[0];
  network.head = load_head(file, head, width, network.outputs);
  network.hidden = hidden.data();
  network.depth = depth;

  choices = file.choices(network.outputs);
  if (choices.empty()) load_box(file);
  normalises = file.holds("obs_normaliser.mean") ||
               file.setting("normalise_obs", "false", "true") ||
               file.setting("normalize_obs", "false", "true");
  if (normalises) {
    const auto copy = [&](const char* tensor, std::vector<Line>& to) {
      const std::vector<float> values = file.floats(tensor, {extent(inputs)});
      to.resize(lines_for(inputs));
      std::copy(values.begin(), values.end(), floats_of(to));
    };
    copy("obs_normaliser.mean", mean);
    copy("obs_normaliser.scale", scale);
  }
  file.require_all_used();
}

Inference::Inference(std::shared_ptr<const Model> model) : model_(std::move(model)) {
  const Network& network = model_->network;
  x_.resize(lines_for(model_->widest));
  for (std::vector<Line>& h : h_) h.resize(lines_for(model_->widest));
  out_.resize(lines_for(network.outputs));
  aside_.resize(out_.size());
  if (is_box()) {
    action_.values_.resize(dims());
  } else {
    action_.choices_.resize(dims());
  }
}

Inference Inference::from_bytes(std::string_view bytes, const std::string& origin,
                                std::string_view kernel) {
  PolicyReader file(bytes, origin);
  return Inference(std::make_shared<const Model>(file, find_kernel(kernel)));
}

Inference::Inference(const std::string& path, std::string_view kernel)
    : Inference(from_bytes(read_file(path), path, kernel)) {}

std::vector<std::string> Inference::kernels() {
  std::vector<std::string> names;
  for (const Kernel* kernel : runnable_kernels()) names.emplace_back(kernel->name);
  return names;
}

std::string Inference::kernel() const { return model_->kernel.name; }
const std::string& Inference::env() const { return model_->env; }
size_t Inference::inputs() const { return static_cast<size_t>(model_->inputs); }
bool Inference::is_box() const { return model_->choices.empty(); }
std::span<const int> Inference::choices() const { return model_->choices; }
bool Inference::masked() const { return model_->masked; }
size_t Inference::dims() const {
  return is_box() ? static_cast<size_t>(model_->network.outputs) : model_->choices.size();
}

std::string mask_refusal(std::span<const int> choices, bool masked,
                         std::span<const uint8_t> action_masks) {
  if (action_masks.empty()) {
    return masked ? "this policy was trained with masks: give action_masks" : "";
  }
  size_t wanted = 0;
  for (const int count : choices) wanted += static_cast<size_t>(count);
  if (action_masks.size() != wanted) {
    return "action_masks: expected " + std::to_string(wanted) + " flags, got " +
           std::to_string(action_masks.size());
  }
  for (size_t d = 0; d < choices.size(); ++d) {
    const auto flags = action_masks.first(static_cast<size_t>(choices[d]));
    if (std::ranges::all_of(flags, [](uint8_t flag) { return flag == 0; })) {
      return "action_masks: no choice of dimension " + std::to_string(d) + " is open";
    }
    action_masks = action_masks.subspan(flags.size());
  }
  return "";
}

template <class T>
const Action& Inference::act(std::span<const T> obs, const PredictOptions& options) {
  const Model& model = *model_;
  if (obs.size() != inputs()) {
    throw std::invalid_argument("obs: expected " + std::to_string(inputs()) + " numbers, got " +
                                std::to_string(obs.size()));
  }
  if (model.masked || !options.action_masks.empty()) {
    const std::string refusal = mask_refusal(model.choices, model.masked, options.action_masks);
    if (!refusal.empty()) throw std::invalid_argument(refusal);
  }
  float* x = floats_of(x_);
  for (size_t i = 0; i < obs.size(); ++i) x[i] = static_cast<float>(obs[i]);
  if (model.normalises) {
    const float *mean = floats_of(model.mean), *scale = floats_of(model.scale);
    for (size_t i = 0; i < obs.size(); ++i) {
      const float z = (x[i] - mean[i]) * scale[i];
      x[i] = z < -kObsClip ? -kObsClip : (z > kObsClip ? kObsClip : z);
    }
  }
  float* const h[2] = {floats_of(h_[0]), floats_of(h_[1])};
  model.kernel.forward(model.network, x, h, floats_of(out_));
  if (is_box()) {
    place(options);
  } else {
    choose(options);
  }
  return action_;
}

const Action& Inference::predict(std::span<const float> obs, const PredictOptions& options) {
  return act(obs, options);
}
const Action& Inference::predict(std::span<const uint8_t> obs, const PredictOptions& options) {
  return act(obs, options);
}

// By the probabilities, not their logarithms: where rounding makes two of them equal, the engine
// takes the first.
void Inference::choose(const PredictOptions& options) {
  constexpr float kNever = -1e30F;  // of what is not open: less likely than all that is
  const uint8_t* mask = options.action_masks.empty() ? nullptr : options.action_masks.data();
  const float* logit = floats_of(out_);
  float* p = floats_of(aside_);
  for (const int count : model_->choices) {
    float top = kNever;
    for (int o = 0; o < count; ++o) {
      p[o] = mask == nullptr || mask[o] != 0 ? logit[o] : kNever;
      top = top > p[o] ? top : p[o];
    }
    for (int o = 0; o < count; ++o) p[o] -= top;
    p += count;
    logit += count;
    if (mask != nullptr) mask += count;
  }
  p = floats_of(aside_);
  model_->kernel.exp(p, static_cast<int>(aside_.size()) * kPad);

  mask = options.action_masks.empty() ? nullptr : options.action_masks.data();
  for (size_t d = 0; d < model_->choices.size(); ++d) {
    const int count = model_->choices[d];
    action_.choices_[d] =
        options.deterministic ? likeliest(p, count) : drawn(p, mask, count, uniform(options, d));
    p += count;
    if (mask != nullptr) mask += count;
  }
}

// Draws by Box and Muller.
void Inference::place(const PredictOptions& options) {
  float* aside = floats_of(aside_);
  for (size_t d = 0; !options.deterministic && d < dims(); ++d) {
    const float u1 = uniform(options, 2 * d), u2 = uniform(options, 2 * d + 1);
    aside[d] = std::sqrt(-2.0F * std::log(1.0F - u1)) * std::cos(6.2831853071795865F * u2);
  }
  const float* normal = options.deterministic ? nullptr : aside;
  model_->kernel.place(model_->box, floats_of(out_), normal, aside);
  std::copy_n(aside, dims(), action_.values_.begin());
}

}  // namespace flotilla

#else  // FLOTILLA_LANES: the kernel FLOTILLA_KERNEL, inside of the unnamed namespace above

namespace FLOTILLA_KERNEL {

constexpr int kLanes = FLOTILLA_LANES;
#if FLOTILLA_LANES > 4 || defined(__aarch64__)
constexpr bool kManyRegisters = true;  // for the sums of 64 outputs
#else
constexpr bool kManyRegisters = false;
#endif

typedef float V __attribute__((vector_size(kLanes * 4)));
typedef int32_t I __attribute__((vector_size(kLanes * 4)));
typedef float Unaligned __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

#define FLOTILLA_INLINE inline __attribute__((always_inline))

FLOTILLA_INLINE V load(const float* p) { return *(const Unaligned*)p; }
FLOTILLA_INLINE void store(float* p, V v) { *(Unaligned*)p = v; }
FLOTILLA_INLINE V splat(float x) { return x - V{}; }
FLOTILLA_INLINE V max(V a, V b) { return a > b ? a : b; }
FLOTILLA_INLINE V min(V a, V b) { return a < b ? a : b; }

// What the kernels of the engine differ in: whether a * b + c rounds once or twice, and how 1 / x
// is found.
FLOTILLA_INLINE V fma(V a, V b, V c) {
#if FLOTILLA_LANES == 16
  return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif FLOTILLA_LANES == 8
  return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(FLOTILLA_NEON)
  return (V)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}

FLOTILLA_INLINE V reciprocal(V x) {
#if FLOTILLA_LANES == 16
  const V y = (V)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);  // g++ 12 warns of the one without mask
  return y * fma(-x, y, splat(2));
#elif defined(FLOTILLA_NEON)
  V y = (V)vrecpeq_f32((float32x4_t)x);
  y *= fma(-x, y, splat(2));
  return y * fma(-x, y, splat(2));
#else
  return 1.0f / x;
#endif
}

// A rational function of degree 13 over 6, the minimax fit Eigen uses.
FLOTILLA_INLINE V tanh(V x) {
  x = max(min(x, splat(7.90531110763549805f)), splat(-7.90531110763549805f));
  const V x2 = x * x;
  V p = splat(-2.76076847742355e-16f);
  p = fma(p, x2, splat(2.00018790482477e-13f));
  p = fma(p, x2, splat(-8.60467152213735e-11f));
  p = fma(p, x2, splat(5.12229709037114e-08f));
  p = fma(p, x2, splat(1.48572235717979e-05f));
  p = fma(p, x2, splat(6.37261928875436e-04f));
  p = fma(p, x2, splat(4.89352455891786e-03f));
  V q = splat(1.19825839466702e-06f);
  q = fma(q, x2, splat(1.18534705686654e-04f));
  q = fma(q, x2, splat(2.26843463243900e-03f));
  q = fma(q, x2, splat(4.89352518554385e-03f));
  return x * p * reciprocal(q);
}

// Cephes: e^x = 2^n e^r with |r| <= ln 2 / 2.
FLOTILLA_INLINE V exp(V x) {
  x = max(min(x, splat(88.0f)), splat(-87.0f));
  const V magic = splat(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const V shifted = fma(x, splat(1.44269504088896341f), magic);
  const V n = shifted - magic;
  V r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  V p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r + 1.0f);
  const I power = (I)shifted << 23;  // the low bits of `shifted` are n
  return (V)((I)p + power);
}

struct Tanh {
  static FLOTILLA_INLINE V of(V x) { return tanh(x); }
};
struct Relu {
  static FLOTILLA_INLINE V of(V x) { return max(x, V{}); }
};
struct Linear {
  static FLOTILLA_INLINE V of(V x) { return x; }
};

// kVectors of the outputs. Each is summed in the order of the inputs, as in the engine; enough at a
// time that no sum waits for its last addition.
template <int kVectors, class Activation>
FLOTILLA_INLINE void outputs_at(int column, const Layer& layer, const float* x, float* out) {
  V sum[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) sum[v] = load(layer.bias + column + v * kLanes);
  const float* weight = layer.weight + (long)column * layer.in;
  const long panel = (long)layer.in * kPad;
  for (int k = 0; k < layer.in; ++k, weight += kPad) {
    const V each = splat(x[k]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const int at = v * kLanes;
      sum[v] = fma(each, load(weight + at / kPad * panel + at % kPad), sum[v]);
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) store(out + column + v * kLanes, Activation::of(sum[v]));
}

// From `column` on, so many at a time, as long as there are; returns the next column.
template <int kColumns, class Activation>
FLOTILLA_INLINE int outputs_from(int column, const Layer& layer, const float* x, float* out) {
  for (; layer.out - column >= kColumns; column += kColumns) {
    outputs_at<kColumns / kLanes, Activation>(column, layer, x, out);
  }
  return column;
}

template <class Activation>
void forward_layer(const Layer& layer, const float* x, float* out) {
  int column = 0;
  if (kManyRegisters) column = outputs_from<64, Activation>(column, layer, x, out);
  column = outputs_from<32, Activation>(column, layer, x, out);
  outputs_from<16, Activation>(column, layer, x, out);
}

// The lanes of a dot product are summed as neighbours, their sums likewise.
FLOTILLA_INLINE float dot(const float* x, const float* weight, int count) {
  V sums = V{};
  for (int k = 0; k < count; k += kLanes) sums = fma(load(x + k), load(weight + k), sums);
  float lane[kLanes];
  store(lane, sums);
#pragma GCC unroll 16
  for (int width = kLanes / 2; width > 0; width /= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < width; ++i) lane[i] = lane[2 * i] + lane[2 * i + 1];
  }
  return lane[0];
}

void forward(const Network& network, float* x, float* const* h, float* out) {
  for (int l = 0; l < network.depth; ++l) {
    const Layer& layer = network.hidden[l];
    if (network.bf16) {
      for (int k = 0; k < layer.in; ++k) x[k] = rounded_to_bf16(x[k]);
    }
    if (network.relu) {
      forward_layer<Relu>(layer, x, h[l % 2]);
    } else {
      forward_layer<Tanh>(layer, x, h[l % 2]);
    }
    x = h[l % 2];
  }
  const Layer& head = network.head;
  if (network.outputs > kSmallHead) return forward_layer<Linear>(head, x, out);
  for (int o = 0; o < network.outputs; ++o) {
    out[o] = dot(x, head.weight + o * head.in, head.in) + head.bias[o];
  }
}

void exp_all(float* x, int count) {
  for (int i = 0; i < count; i += kLanes) store(x + i, exp(load(x + i)));
}

void place(const Box& box, const float* mean, const float* normal, float* action) {
  for (int d = 0; d < box.dims; d += kLanes) {
    V sample = load(mean + d);
    if (normal != nullptr) sample = fma(load(normal + d), exp(load(box.log_std + d)), sample);
    const V low = load(box.low + d), high = load(box.high + d);
    const V wide = box.squash ? fma(tanh(sample) + 1.0f, 0.5f * (high - low), low) : sample;
    store(action + d, max(low, min(high, wide)));
  }
}

#define FLOTILLA_TEXT(word) #word
#define FLOTILLA_TEXT_OF(macro) FLOTILLA_TEXT(macro)
constexpr Kernel kKernel = {FLOTILLA_TEXT_OF(FLOTILLA_KERNEL), forward, exp_all, place};
#undef FLOTILLA_TEXT_OF
#undef FLOTILLA_TEXT
#undef FLOTILLA_INLINE

}  // namespace FLOTILLA_KERNEL

#endif
