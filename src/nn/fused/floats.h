// Memory for floats on whole cache lines.
#pragma once

#include <algorithm>
#include <cstring>

#include "flotilla/core/arena.h"

namespace flotilla::fused {

class Floats {
 public:
  explicit Floats(size_t count)
      : count_(count),
        field_(layout_.add<float>("floats", 1, std::max<size_t>(count, 1))),
        arena_(layout_, Arena::Backing::kPrivate) {}

  float* data() const { return arena_.view(field_).row(0); }
  size_t count() const { return count_; }
  void copy_from(const Floats& other) { std::memcpy(data(), other.data(), count_ * sizeof(float)); }

 private:
  const size_t count_;
  ArenaLayout layout_;
  FieldId<float> field_;
  Arena arena_;
};

}  // namespace flotilla::fused
