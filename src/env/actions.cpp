#include "flotilla/env/actions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/core/error.h"
#include "flotilla/core/random_words.h"
#include "flotilla/core/rng.h"

namespace flotilla {
namespace {

// Long episodes keep this many actions at most, and all envs together this many bytes.
constexpr uint64_t kMaxLoggedSteps = 4096;
constexpr uint64_t kMaxLoggedBytes = uint64_t{64} << 20;

[[noreturn]] void refuse(const EnvSpec& spec, int env, size_t dim, const std::string& value,
                         const std::string& why) {
  const std::string where = spec.action.dims() > 1 ? fmt::format(" (dimension {})", dim) : "";
  throw Error(ErrorCode::kUsage,
              fmt::format("env {} of '{}': action {}{} {}", env, spec.name, value, where, why));
}

void check_choices(const EnvSpec& spec, Span envs, ActionView actions, int first_env) {
  const size_t dims = spec.action.dims();
  for (int env = envs.begin; env < envs.end; ++env) {
    const int32_t* row = actions.ints() + static_cast<size_t>(env) * dims;
    for (size_t d = 0; d < dims; ++d) {
      if (row[d] < 0 || row[d] >= spec.action.choices[d]) {
        refuse(spec, first_env + env, d, fmt::to_string(row[d]),
               "is outside " + spec.action.describe());
      }
    }
  }
}

void check_box(const EnvSpec& spec, Span envs, ActionView actions, int first_env) {
  const size_t dims = spec.action.dims();
  for (int env = envs.begin; env < envs.end; ++env) {
    const float* row = actions.floats() + static_cast<size_t>(env) * dims;
    for (size_t d = 0; d < dims; ++d) {
      if (!std::isfinite(row[d]))
        refuse(spec, first_env + env, d, fmt::to_string(row[d]), "is not a number");
      if (row[d] < spec.action.low[d] || row[d] > spec.action.high[d]) {
        refuse(spec, first_env + env, d, fmt::to_string(row[d]),
               "is outside " + spec.action.describe());
      }
    }
  }
}

int32_t pick(uint32_t word, uint32_t n) { return static_cast<int32_t>((uint64_t{word} * n) >> 32); }

// How many of eight bytes of a mask, which are 0 or 1, are 1.
uint32_t ones_in(const uint8_t* mask) {
  uint64_t word = 0;
  std::memcpy(&word, mask, 8);
  return static_cast<uint32_t>((word * 0x0101010101010101) >> 56u);
}

int32_t pick_legal(uint32_t word, const uint8_t* mask, int n) {
  const int whole = n / 8 * 8;
  uint32_t legal = 0;
  for (int at = 0; at < whole; at += 8) legal += ones_in(mask + at);
  for (int at = whole; at < n; ++at) legal += mask[at];
  auto rank = static_cast<uint32_t>(pick(word, legal));
  int at = 0;
  for (uint32_t here = 0; at < whole && rank >= (here = ones_in(mask + at)); at += 8) rank -= here;
  for (; at < n; ++at) {
    if (mask[at] != 0 && rank-- == 0) return at;
  }
  return 0;
}

void pick_masked(const ActionSpace& space, const uint8_t* mask, const uint32_t* words, size_t begin,
                 size_t end, int32_t* out) {
  const size_t dims = space.dims(), mask_size = space.mask_size();
  for (size_t k = begin; k < end; ++k) {
    const size_t d = k % dims;
    size_t offset = k / dims * mask_size;
    for (size_t before = 0; before < d; ++before) {
      offset += static_cast<size_t>(space.choices[before]);
    }
    out[k] = pick_legal(words[k - begin], mask + offset, space.choices[d]);
  }
}

float pick_point(uint32_t word, float low, float high) {
  const double fraction = word * 0x1.0p-32;
  return std::min(high, static_cast<float>(low + (double{high} - low) * fraction));
}

}  // namespace

void check_actions(const EnvSpec& spec, Span envs, ActionView actions, int first_env) {
  if (spec.action.is_box()) {
    check_box(spec, envs, actions, first_env);
    return;
  }
  if (spec.action.dims() == 1) {
    // The common case as one reduction the compiler vectorises; the slow way only names culprits.
    // The sign bit of a | (n - 1 - a) is set where a is negative or at least n.
    const auto last = static_cast<uint32_t>(spec.action.choices[0] - 1);
    uint32_t signs = 0;
    for (int env = envs.begin; env < envs.end; ++env) {
      const auto choice = static_cast<uint32_t>(actions.ints()[env]);
      signs |= choice | (last - choice);
    }
    if (signs >> 31 == 0) return;
  }
  check_choices(spec, envs, actions, first_env);
}

std::string describe_action(const EnvSpec& spec, ActionView actions, int env) {
  const size_t dims = spec.action.dims();
  const size_t first = static_cast<size_t>(env) * dims;
  std::vector<std::string> parts;
  for (size_t d = first; d < first + dims; ++d) {
    parts.push_back(spec.action.is_box() ? fmt::to_string(actions.floats()[d])
                                         : fmt::to_string(actions.ints()[d]));
  }
  if (dims == 1) return parts[0];
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

void random_actions(const EnvSpec& spec, Span envs, uint64_t seed, uint64_t step,
                    const uint8_t* mask, std::byte* out, int first_env) {
  const ActionSpace& space = spec.action;
  const size_t dims = space.dims();
  const size_t skipped = static_cast<size_t>(first_env) * dims;  // numbers of envs before these
  const size_t first = skipped + static_cast<size_t>(envs.begin) * dims;
  const size_t last = skipped + static_cast<size_t>(envs.end) * dims;
  const uint64_t stream = stream_of(Purpose::kAction, step);
  uint32_t block[kWordsAtOnce];
  // Word k of the stream belongs to dimension k % dims of env k / dims, whichever span is asked.
  for (size_t base = first / kWordsAtOnce * kWordsAtOnce; base < last; base += kWordsAtOnce) {
    random_words(seed, stream, base / 4, block);
    const uint32_t* words = block + (std::max(first, base) - base);
    const size_t begin = std::max(first, base) - skipped;  // in `out`, as is k from here on
    const size_t end = std::min(last, base + kWordsAtOnce) - skipped;
    if (space.is_box()) {
      auto* points = reinterpret_cast<float*>(out);
      for (size_t k = begin; k < end; ++k) {
        points[k] = pick_point(words[k - begin], space.low[k % dims], space.high[k % dims]);
      }
    } else if (mask != nullptr) {
      pick_masked(space, mask, words, begin, end, reinterpret_cast<int32_t*>(out));
    } else if (dims == 1) {
      auto* choices = reinterpret_cast<int32_t*>(out);
      const auto n = static_cast<uint32_t>(space.choices[0]);
      for (size_t k = begin; k < end; ++k) choices[k] = pick(words[k - begin], n);
    } else {
      auto* choices = reinterpret_cast<int32_t*>(out);
      for (size_t k = begin; k < end; ++k) {
        choices[k] = pick(words[k - begin], static_cast<uint32_t>(space.choices[k % dims]));
      }
    }
  }
}

ActionLog::ActionLog(const EnvSpec& spec, int num_envs) : dims_(spec.action.dims()) {
  const auto fits_in_a_byte = [](int choices) { return choices <= 256; };
  if (spec.action.is_box()) {
    kept_ = Kept::kFloats;
  } else if (std::ranges::all_of(spec.action.choices, fits_in_a_byte)) {
    kept_ = Kept::kSmallChoices;
  }
  value_bytes_ = kept_ == Kept::kSmallChoices ? 1 : sizeof(int32_t);
  row_bytes_ = value_bytes_ * dims_ * static_cast<size_t>(num_envs);
  rows_ = spec.time_limit > 0 ? static_cast<uint64_t>(spec.time_limit) : kMaxLoggedSteps;
  rows_ = std::clamp<uint64_t>(kMaxLoggedBytes / row_bytes_, 1, std::min(rows_, kMaxLoggedSteps));
  data_.resize(rows_ * row_bytes_);
}

void ActionLog::record(uint64_t step, Span envs, ActionView actions) {
  const size_t first = static_cast<size_t>(envs.begin) * dims_;
  const size_t count = static_cast<size_t>(envs.size()) * dims_;
  std::byte* to = data_.data() + step % rows_ * row_bytes_ + first * value_bytes_;
  if (kept_ == Kept::kSmallChoices) {
    const int32_t* choices = reinterpret_cast<const int32_t*>(actions.data) + first;
    for (size_t k = 0; k < count; ++k) to[k] = static_cast<std::byte>(choices[k]);
  } else {
    std::memcpy(to, actions.data + first * value_bytes_, count * value_bytes_);
  }
}

double ActionLog::value_at(const std::byte* place) const {
  if (kept_ == Kept::kSmallChoices) return std::to_integer<int>(*place);
  if (kept_ == Kept::kFloats) {
    float value = 0;
    std::memcpy(&value, place, sizeof(value));
    return static_cast<double>(value);
  }
  int32_t value = 0;
  std::memcpy(&value, place, sizeof(value));
  return value;
}

std::vector<std::vector<double>> ActionLog::last(int env, uint64_t end, uint64_t count) const {
  std::vector<std::vector<double>> found;
  count = std::min({count, end, rows_});
  for (uint64_t step = end - count; step < end; ++step) {
    const std::byte* place =
        data_.data() + step % rows_ * row_bytes_ + static_cast<size_t>(env) * dims_ * value_bytes_;
    std::vector<double>& action = found.emplace_back();
    for (size_t d = 0; d < dims_; ++d) action.push_back(value_at(place + d * value_bytes_));
  }
  return found;
}

}  // namespace flotilla
