#include "flotilla/env/frame_stack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <utility>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// The bounds of a stack: those of each part, once for every frame.
std::vector<float> repeated(const std::vector<float>& bounds, size_t part, int frames) {
  std::vector<float> all;
  all.reserve(bounds.size() * static_cast<size_t>(frames));
  for (auto at = bounds.begin(); at != bounds.end(); at += static_cast<std::ptrdiff_t>(part)) {
    for (int i = 0; i < frames; ++i) {
      all.insert(all.end(), at, at + static_cast<std::ptrdiff_t>(part));
    }
  }
  return all;
}

// Pixel after pixel, so that the row is written from its beginning to its end. A size that the
// compiler knows makes each copy a move or two.
template <size_t kPart>
void interleave(const std::byte* const* from, size_t frames, size_t parts, std::byte* row) {
  for (size_t p = 0; p < parts; ++p) {
    for (size_t f = 0; f < frames; ++f, row += kPart) std::memcpy(row, from[f] + p * kPart, kPart);
  }
}

void interleave(const std::byte* const* from, size_t frames, size_t parts, size_t part_bytes,
                std::byte* row) {
  for (size_t p = 0; p < parts; ++p) {
    for (size_t f = 0; f < frames; ++f, row += part_bytes) {
      std::memcpy(row, from[f] + p * part_bytes, part_bytes);
    }
  }
}

}  // namespace

Schema with_frame_stack(Schema schema) {
  schema.integer(kFrameStackKey, 1, {1, kMostFrames},
                 "latest observations that are shown as one: channels of images, vectors in a row");
  return schema;
}

int frame_stack_of(const Config& config) {
  if (config.schema().find(kFrameStackKey) == nullptr) return 1;
  return static_cast<int>(config.get_integer(kFrameStackKey));
}

FrameStack::FrameStack(EnvSpec& spec, int frames) : frames_(frames) {
  if (frames == 1) return;
  spec.validate();
  ObsSpace& obs = spec.obs;
  if (obs.shape.size() != 1 && obs.shape.size() != 3) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: expected 1, not {}: observations of '{}' are ({}), neither a "
                            "vector nor an image of rows, columns and channels",
                            kFrameStackKey, frames, spec.name, fmt::join(obs.shape, ", ")));
  }
  const auto part = static_cast<size_t>(obs.shape.back());
  frame_bytes_ = obs.row_bytes();
  part_bytes_ = part * (frame_bytes_ / obs.elements());
  obs.shape.back() *= frames;
  obs.low = repeated(obs.low, part, frames);
  obs.high = repeated(obs.high, part, frames);
}

void FrameStack::write(std::byte* kept, uint32_t step, std::byte* row) const {
  const auto frames = static_cast<size_t>(frames_);
  if (step == 0) {
    for (size_t f = 1; f < frames; ++f) std::memcpy(kept + f * frame_bytes_, kept, frame_bytes_);
  }
  std::array<const std::byte*, kMostFrames> from;
  for (size_t f = 0; f < frames; ++f) from[f] = place(kept, step + 1 + static_cast<uint32_t>(f));
  const size_t parts = frame_bytes_ / part_bytes_;
  switch (part_bytes_) {
    case 1:
      return interleave<1>(from.data(), frames, parts, row);
    case 3:
      return interleave<3>(from.data(), frames, parts, row);
    case 4:
      return interleave<4>(from.data(), frames, parts, row);
    default:
      return interleave(from.data(), frames, parts, part_bytes_, row);
  }
}

FrameWindow::FrameWindow(EnvSpec spec, int frames)
    : elements_(spec.obs.elements()), stack_(spec, frames), kept_(stack_.bytes()) {
  row_.resize(spec.obs.row_bytes());
}

}  // namespace flotilla
