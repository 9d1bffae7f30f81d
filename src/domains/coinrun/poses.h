// What things look like at a moment: poses and trails, the same in every look.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include "flotilla/domains/coinrun/state.h"

namespace flotilla::coinrun {

enum class Pose : uint8_t { kStanding, kWalking1, kWalking2 };

inline bool second_frame(const State& s) { return s.steps / 5 % 2 == 1; }
inline bool second_saw(const State& s) { return s.steps % 2 == 1; }

// In the air it is the first walking one.
inline Pose agent_pose(const State& s) {
  const bool supported = s.supported != 0;
  if (supported && s.push == 0 && std::fabs(s.vx) < 0.01F) return Pose::kStanding;
  return supported && second_frame(s) ? Pose::kWalking2 : Pose::kWalking1;
}

constexpr int kTrailAges = kTrail + 1;  // where the enemy is counts, too

struct TrailSize {
  float half_width = 0.3F, half_height = 0.2F;
};
constexpr std::array<TrailSize, kTrailAges> kTrailSizes = [] {
  std::array<TrailSize, kTrailAges> sizes{};
  for (size_t age = 1; age < sizes.size(); ++age) {
    sizes[age] = {sizes[age - 1].half_width * 1.05F, sizes[age - 1].half_height * 1.05F};
  }
  return sizes;
}();

// Where a trail of an enemy at `y` has risen to, in steps: sums are rounded.
inline float trail_y(float y, int age) {
  y -= 0.25F;
  for (int step = 0; step < age; ++step) y += 0.01F;
  return y;
}

// Calls put(age, x, enemy) for every trail in the order of drawing: the oldest first, of several
// enemies the one created last.
template <class Put>
void for_trails(const State& s, const Put& put) {
  if (s.steps == 0) return;
  for (int age = s.steps > kTrail ? kTrail : s.steps - 1; age >= 0; --age) {
    const size_t place = static_cast<size_t>(s.steps - age) % kTrail;
    for (size_t i = s.enemy_count; i-- > 0;) {
      const Enemy& enemy = s.enemies[i];
      put(age, age == 0 ? enemy.x : enemy.trail[place], enemy);
    }
  }
}

}  // namespace flotilla::coinrun
