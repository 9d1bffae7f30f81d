#include "flotilla/domains/coinrun/coinrun_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "flotilla/core/error.h"
#include "flotilla/domains/coinrun/dynamics.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/monochrome.h"

namespace flotilla::coinrun {
namespace {

bool is_flag(uint8_t byte) { return byte <= 1; }
bool is_within(float value, float low, float high) { return value >= low && value <= high; }

bool valid_level(const Level& level) {
  if (level.background >= kBackgrounds || level.agent_theme >= kAgentThemes ||
      level.wall_theme >= kWallThemes || level.goal_column >= kSide ||
      level.goal_row >= kBuiltRows || level.fixture_count > kMostFixtures ||
      !is_within(level.background_x, 0, 1) || !level.grid.valid()) {
    return false;
  }
  return std::ranges::all_of(level.fixtures, [](const Fixture& fixture) {
    return fixture.kind <= Fixture::Kind::kCrate && fixture.column < kSide && fixture.row < kSide &&
           fixture.look < kCrateLooks;
  });
}

bool valid_enemy(const Enemy& enemy) {
  const auto inside = [](float x) { return is_within(x, 0, kSide); };
  return inside(enemy.x) && std::fabs(enemy.vx) <= 1 && enemy.vy == 0 && enemy.row < kSide &&
         enemy.look < kEnemyLooks && std::ranges::all_of(enemy.trail, inside);
}

}  // namespace

Mode mode_named(const std::string& name) { return name == "easy" ? Mode::kEasy : Mode::kHard; }

Schema CoinRun::schema() {
  Schema schema;
  schema
      .choice("mode", "easy", {"easy", "hard"},
              "hard: more enemies, and every level looks another way")
      .integer("num_levels", 0, {0, kLevelSeeds},
               "levels that episodes are drawn from; 0: all there are")
      .integer("start_level", 0, {0, kLevelSeeds - 1},
               "seed of the first of them; without num_levels it does not count")
      .choice("levels", "train", {"train", "test"},
              "test: all levels but these num_levels, which training does not show")
      .choice("look", "full", {"full", "monochrome"},
              "of the picture: with sprites and background, or in plain colours");
  return schema;
}

CoinRun::CoinRun(const Config& config) : mode_(mode_named(config.get_text("mode"))) {
  held_out_ = config.get_text("levels") == "test";
  const int64_t start = config.get_integer("start_level"), count = config.get_integer("num_levels");
  if (count > 0) {
    if (start + count > kLevelSeeds) {
      throw Error(ErrorCode::kUsage,
                  fmt::format("num_levels: level seeds end at {}; from start_level {} expected at "
                              "most {}, got {}",
                              kLevelSeeds - 1, start, kLevelSeeds - start, count));
    }
    if (count == kLevelSeeds && held_out_) {
      throw Error(ErrorCode::kUsage, "levels=test: num_levels leaves none");
    }
    first_level_ = static_cast<uint32_t>(start);
    levels_ = static_cast<uint32_t>(count);
  }
  if (config.get_text("look") == "full") full_.emplace(mode_);
  spec_.name = "coinrun";
  spec_.obs = ObsSpace::uint8({kView, kView, 3});
  spec_.action = ActionSpace::discrete(kActions);
  spec_.time_limit = kMostSteps;
  spec_.metrics = {"level_complete", "level_seed", "length"};
  spec_.headline = "level_complete";
  spec_.reward_low = 0;
  spec_.reward_high = kReward;
}

void CoinRun::begin(State& s, int32_t level_seed) const { begin_episode(s, level_seed, mode_); }

void CoinRun::reset(State& s, Rng& g) const { begin(s, static_cast<int32_t>(draw_level(g))); }

uint32_t CoinRun::draw_level(Rng& g) const {
  if (levels_ == 0) return g.next_u32() % kLevelSeeds;
  if (!held_out_) return first_level_ + g.next_u32() % levels_;
  const uint32_t level = g.next_u32() % (kLevelSeeds - levels_);
  return level < first_level_ ? level : level + levels_;
}

Outcome CoinRun::step(State& s, ActionRow action, Rng&) const {
  if (s.steps >= kMostSteps) return {.truncated = true};  // someone set a longer time limit
  const StepResult result = coinrun::step(s, action.discrete());
  return {.reward = result.reached ? kReward : 0.0F,
          .terminated = result.ended(),
          .truncated = s.steps == kMostSteps};
}

void CoinRun::observe(const State& s, ObsRow row) const {
  const ViewSpan view(row.u8().data(), kViewBytes);
  if (full_) {
    full_->draw(s, view);
  } else {
    draw_monochrome(s, view);
  }
}

void CoinRun::metrics(const State& s, MetricRow m) const {
  m[0] = s.complete;
  m[1] = static_cast<float>(s.level.seed);
  m[2] = s.steps;
}

bool CoinRun::valid(const State& s) const {
  return valid_level(s.level) && is_within(s.x, 0, kSide) && is_within(s.y, 0, kSide) &&
         is_within(s.last_y, 0, kSide) && std::fabs(s.vx) <= 1 && std::fabs(s.vy) <= 2 &&
         s.steps < kMostSteps && std::abs(s.push) <= 1 && is_flag(s.on_crate) &&
         is_flag(s.supported) && is_flag(s.faces_left) && is_flag(s.complete) &&
         s.enemy_count <= kMostEnemies &&
         std::all_of(s.enemies.begin(), s.enemies.begin() + s.enemy_count, valid_enemy) &&
         (mode_ == Mode::kHard || !full_ || s.level.background == 0);
}

}  // namespace flotilla::coinrun
