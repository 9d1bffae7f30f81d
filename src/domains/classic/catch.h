// Catch: a ball falls one row per step, a paddle in the bottom row has to be under it. The smallest
// env with a uint8 image, an action of two dimensions and a metric.
//
// Action: {left, stay, right} x {one column, two columns}. The paddle stops at the border.
// Reward: +1 for a catch and -1 for a miss, on the step that brings the ball to the bottom row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "flotilla/domains/classic/choice.h"
#include "flotilla/env/env.h"

namespace flotilla::classic {

class Catch {
 public:
  struct State {
    uint8_t ball_row, ball_col, paddle_col;
  };

  static Schema schema() {
    Schema schema;
    schema.integer("rows", 10, {2, 128}, "height of the image; an episode takes rows - 1 steps")
        .integer("cols", 5, {1, 128}, "width of the image");
    return schema;
  }

  explicit Catch(const Config& config)
      : rows_(static_cast<int>(config.get_integer("rows"))),
        cols_(static_cast<int>(config.get_integer("cols"))) {
    spec_.name = "catch";
    spec_.obs = ObsSpace::uint8({rows_, cols_, 1});
    spec_.action = ActionSpace::multi_discrete({3, 2});
    spec_.metrics = {"caught"};
    spec_.reward_low = -1;
    spec_.reward_high = 1;
  }

  const EnvSpec& spec() const { return spec_; }

  void reset(State& s, Rng& g) const {
    s.ball_row = 0;
    s.ball_col = static_cast<uint8_t>(g.below(static_cast<uint32_t>(cols_)));
    s.paddle_col = static_cast<uint8_t>(cols_ / 2);
  }

  Outcome step(State& s, ActionRow action, Rng&) const {
    const int direction = action.discrete(0);
    const int speed = action.discrete(1);
    require_choice(direction, 3);
    require_choice(speed, 2);
    const int paddle = s.paddle_col + (direction - 1) * (speed + 1);
    s.paddle_col = static_cast<uint8_t>(std::clamp(paddle, 0, cols_ - 1));
    ++s.ball_row;

    Outcome outcome;
    outcome.terminated = s.ball_row == rows_ - 1;
    if (outcome.terminated) outcome.reward = caught(s) ? 1.0F : -1.0F;
    return outcome;
  }

  void observe(const State& s, ObsRow row) const {
    const auto image = row.u8();
    std::fill(image.begin(), image.end(), uint8_t{0});
    image[s.ball_row * cols_ + s.ball_col] = 255;
    image[(rows_ - 1) * cols_ + s.paddle_col] = 255;
  }

  bool valid(const State& s) const {
    return s.ball_row < rows_ - 1 && s.ball_col < cols_ && s.paddle_col < cols_;
  }

  void metrics(const State& s, MetricRow row) const { row[0] = caught(s) ? 1.0F : 0.0F; }

 private:
  bool caught(const State& s) const {
    return s.ball_row == rows_ - 1 && s.ball_col == s.paddle_col;
  }

  EnvSpec spec_;
  int rows_, cols_;
};

}  // namespace flotilla::classic
