// Frame stack: an env that shows its last observations, oldest first, as one. Images of rows,
// columns and channels have the channels of all frames in each pixel, vectors follow one another.
// At the beginning of an episode its first frame stands for those that are not there yet.
//
// The frames of an env lie behind its state, in its slot (env/env_loop.h): they are saved, restored
// and moved between processes with it. Frame t of an episode has place t modulo their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/env.h"
#include "flotilla/env/spec.h"

namespace flotilla {

constexpr int kMostFrames = 64;
// The key that every env has besides its own.
constexpr const char* kFrameStackKey = "frame_stack";

Schema with_frame_stack(Schema schema);
int frame_stack_of(const Config& config);  // 1 where it has no such key

class FrameStack {
 public:
  FrameStack() = default;  // one frame: nothing is kept
  // Puts the stack in the place of the observation of `spec`. Throws Error(kUsage) where it is
  // neither a vector nor an image.
  FrameStack(EnvSpec& spec, int frames);

  int frames() const { return frames_; }
  // The memory that it needs for each env.
  size_t bytes() const { return frames_ == 1 ? 0 : static_cast<size_t>(frames_) * frame_bytes_; }
  // Where the frame of this step of the episode belongs.
  std::byte* place(std::byte* kept, uint32_t step) const {
    return kept + step % static_cast<uint32_t>(frames_) * frame_bytes_;
  }
  // Writes all frames, that of `step` being the newest and in its place.
  void write(std::byte* kept, uint32_t step, std::byte* row) const;

 private:
  int frames_ = 1;
  size_t frame_bytes_ = 0;
  size_t part_bytes_ = 0;  // of a frame that lie together in the stack: a pixel, or all of it
};

// What one env shows, for those who step it by themselves and not by a loop.
class FrameWindow {
 public:
  FrameWindow(EnvSpec spec, int frames);

  // The observation after step `step` of an episode, counted from 0, its beginning; valid until
  // the next call. `observe` writes the env's own into an ObsRow. REQUIRES: no step is left out.
  template <class Observe>
  std::span<const std::byte> look(uint32_t step, const Observe& observe) {
    if (stack_.frames() == 1) {
      observe(ObsRow(row_.data(), elements_));
    } else {
      observe(ObsRow(stack_.place(kept_.data(), step), elements_));
      stack_.write(kept_.data(), step, row_.data());
    }
    return row_;
  }

 private:
  size_t elements_;  // of a frame
  FrameStack stack_;
  std::vector<std::byte> kept_, row_;
};

}  // namespace flotilla
