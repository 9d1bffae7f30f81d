#include "flotilla/domains/coinrun/dynamics.h"

#include <algorithm>
#include <cmath>

namespace flotilla::coinrun {
namespace {

constexpr float kTopSpeed = 0.5F, kJumpSpeed = 1.5F, kGravity = 0.2F;
constexpr float kGroundControl = 0.2F, kAirControl = 0.2F * 0.15F;
constexpr float kMargin = 0.001F;  // by which boxes are shrunk where they may touch
constexpr float kCorner = 0.98F;   // where a box is tested for cells
constexpr int kFewestParts = 4;    // of a move
constexpr int kDeepestPush = 5;

struct Mover {
  float x, y, vx, vy;
  float half_width, half_height;
  bool is_agent;
};

bool overlaps(const Mover& mover, float x, float y, float margin) {
  return std::fabs(mover.x - x) < mover.half_width + kHalf + margin &&
         std::fabs(mover.y - y) < mover.half_height + kHalf + margin;
}

class Step {
 public:
  Step(State& state, int action)
      : s_(state), agent_{state.x, state.y, state.vx, state.vy, kHalf, kAgentHalfHeight, true} {
    constexpr int kNothing = 4;
    const int move = action < 9 ? action : kNothing;  // the others do nothing in this game
    ax_ = move / 3 - 1;
    ay_ = move % 3 - 1;
  }

  StepResult run() {
    steer();
    for (int i = s_.enemy_count - 1; i >= 0; --i) move_enemy(s_.enemies[static_cast<size_t>(i)]);
    bool x_first = is_x_first(agent_);
    if (ax_ != 0) x_first = true;
    if (ay_ != 0) x_first = false;
    move(agent_, x_first);
    store();
    const bool hit = touches_hazard();
    StepResult result = touched_cells();
    result.died |= hit;
    s_.complete |= static_cast<uint8_t>(result.reached);
    return result;
  }

 private:
  void steer() {
    const bool supported = (s_.on_crate != 0 || has_wall_below()) && agent_.vy == 0;
    s_.on_crate = 0;
    s_.supported = static_cast<uint8_t>(supported);
    if (ay_ == 1 && !supported) ay_ = 0;
    const float control = supported ? kGroundControl : kAirControl;
    const float push = control * kTopSpeed;
    agent_.vx = (1 - control) * agent_.vx + push * static_cast<float>(ax_);
    if (std::fabs(agent_.vx) < push) agent_.vx = 0;
    if (ay_ > 0) {
      agent_.vy = kJumpSpeed;
    } else if (supported) {
      agent_.vy = static_cast<float>(agent_.vy + 0.2 * ay_);
    }
    const bool jumps = supported && ay_ > 0;
    if (!jumps) agent_.vy = std::clamp(agent_.vy - kGravity, -kJumpSpeed, kJumpSpeed);
  }

  // In double precision, then rounded, as the original does.
  bool has_wall_below() const {
    const double reach = double{agent_.half_width} - 0.01;
    const int row = floored(static_cast<float>(agent_.y - (double{agent_.half_height} + 0.01)));
    return is_wall(s_.level.at(floored(static_cast<float>(agent_.x - reach)), row)) ||
           is_wall(s_.level.at(floored(static_cast<float>(agent_.x + reach)), row));
  }

  bool is_x_first(const Mover& mover) const {
    const float along = std::fabs(mover.vx), up = std::fabs(mover.vy);
    if (along != up) return along > up;
    return (s_.level.odd_draws[s_.steps / 64U] >> (s_.steps % 64U) & 1U) == 0;
  }

  void move_enemy(Enemy& enemy) {
    enemy.trail[s_.steps % kTrail] = enemy.x;
    Mover mover{enemy.x, enemy.y(), enemy.vx, enemy.vy, kHalf, kHalf, false};
    move(mover, is_x_first(mover));
    enemy.x = mover.x;
    enemy.vx = mover.vx;
    enemy.vy = mover.vy;
  }

  // A move in parts; each component of the velocity keeps the share of its parts that were free.
  void move(Mover& m, bool x_first) {
    const float speed = std::sqrt(m.vx * m.vx + m.vy * m.vy);
    const int parts = std::max(kFewestParts, static_cast<int>(4 * speed));
    const float part = 1.0F / static_cast<float>(parts);
    int free_x = 0, free_y = 0;
    for (int i = 0; i < parts; ++i) {
      bool blocked_x = false, blocked_y = false;
      if (x_first) blocked_x = shift(m, m.vx * part, 0, 0);
      blocked_y = shift(m, 0, m.vy * part, 0);
      if (!x_first) blocked_x = shift(m, m.vx * part, 0, 0);
      free_x += static_cast<int>(!blocked_x);
      free_y += static_cast<int>(!blocked_y);
      if (blocked_x && blocked_y) break;
    }
    m.vx *= static_cast<float>(free_x) / static_cast<float>(parts);
    m.vy *= static_cast<float>(free_y) / static_cast<float>(parts);
  }

  // Moves along one axis and says whether something was in the way. A move of length 0 counts as
  // vertical.
  bool shift(Mover& m, float dx, float dy, int depth) {
    const bool horizontal = dx != 0;
    float x = m.x + dx, y = m.y + dy;
    const Contact contact = contact_at(m, x, y);
    if (contact.reflects) {
      if (horizontal) {
        m.vx = -m.vx;
        x += 2 * overshoot(x, m.half_width, dx < 0);
      } else {
        m.vy = -m.vy;
        y += 2 * overshoot(y, m.half_height, dy < 0);
      }
    } else if (contact.blocks) {
      if (horizontal) {
        x = snapped(x, m.half_width, dx > 0);
      } else {
        y = snapped(y, m.half_height, dy > 0);
      }
    }
    m.x = x;
    m.y = y;
    const bool on_crate = !horizontal && blocked_by_crates(m, depth);
    return contact.blocks || on_crate;
  }

  struct Contact {
    bool blocks = false, reflects = false;
  };

  Contact contact_at(const Mover& m, float x, float y) const {
    const float dx = m.half_width * kCorner, dy = m.half_height * kCorner;
    const int left = floored(x - dx), right = floored(x + dx);
    const int low = floored(y - dy), high = floored(y + dy);
    Contact contact;
    for (const Cell cell : {s_.level.at(left, low), s_.level.at(left, high),
                            s_.level.at(right, low), s_.level.at(right, high)}) {
      contact.blocks |= cell == Cell::kWallBody || (cell == Cell::kWallTop && m.is_agent);
      contact.reflects |= !m.is_agent && (is_wall(cell) || cell == Cell::kBarrier);
    }
    return contact;
  }

  // From the far side of the mover back to the edge of the cell that it entered.
  static float overshoot(float place, float half, bool backward) {
    return backward ? std::ceil(place - half) - (place - half)
                    : std::floor(place + half) - (place + half);
  }
  static float snapped(float place, float half, bool forward) {
    return forward ? std::floor(place + half) - half : std::ceil(place - half) + half;
  }

  // Crates hold the agent only when it comes down on them and does not press down. Other movers in
  // a crate are asked the same about the agent; that is the original's rule.
  bool blocked_by_crates(Mover& m, int depth) {
    bool blocked = false;
    for (size_t i = s_.level.fixture_count; i-- > 0;) {  // the last one created first
      if (agent_.vy >= 0 || ay_ < 0) break;
      const Fixture& crate = s_.level.fixtures[i];
      if (crate.kind != Fixture::Kind::kCrate) continue;
      if (!overlaps(m, crate.x(), crate.y(), -kMargin)) continue;
      if (s_.last_y < crate.y() + kHalf + kAgentHalfHeight) continue;
      s_.on_crate = 1;
      blocked = true;
      if (depth < kDeepestPush) push_out(m, crate.y(), depth);
    }
    return blocked;
  }

  void push_out(Mover& m, float crate_y, int depth) {
    const float distance = m.y - crate_y;
    const float clear = kHalf + m.half_height;
    const float way = distance > 0 ? clear : distance < 0 ? -clear : 0;
    shift(m, 0, way - distance, depth + 1);
    m.vy = 0;
  }

  void store() {
    s_.x = agent_.x;
    s_.y = agent_.y;
    s_.vx = agent_.vx;
    s_.vy = agent_.vy;
    s_.last_y = agent_.y;
    s_.push = static_cast<int8_t>(ax_);
    if (ax_ != 0) s_.faces_left = static_cast<uint8_t>(ax_ < 0);
    ++s_.steps;
  }

  bool touches_hazard() const {
    for (size_t i = 0; i < s_.level.fixture_count; ++i) {
      const Fixture& saw = s_.level.fixtures[i];
      if (saw.kind == Fixture::Kind::kSaw && overlaps(agent_, saw.x(), saw.y(), 0)) return true;
    }
    for (size_t i = 0; i < s_.enemy_count; ++i) {
      if (overlaps(agent_, s_.enemies[i].x, s_.enemies[i].y(), 0)) return true;
    }
    return false;
  }

  StepResult touched_cells() const {
    const float dx = agent_.half_width - kMargin, dy = agent_.half_height - kMargin;
    const int right = floored(agent_.x + dx), high = floored(agent_.y + dy);
    StepResult result;
    for (int column = floored(agent_.x - dx); column <= right; ++column) {
      for (int row = floored(agent_.y - dy); row <= high; ++row) {
        const Cell cell = s_.level.at(column, row);
        result.reached |= cell == Cell::kGoal;
        result.died |= is_lava(cell);
      }
    }
    return result;
  }

  State& s_;
  Mover agent_;
  int ax_ = 0, ay_ = 0;
};

}  // namespace

StepResult step(State& state, int action) { return Step(state, action).run(); }

}  // namespace flotilla::coinrun
