#include "flotilla/domains/coinrun/verify.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <random>

#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/monochrome.h"
#include "flotilla/domains/coinrun/recorded_line.h"
#include "flotilla/domains/coinrun/replay.h"

namespace flotilla::coinrun {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

void verify_entities(const RecordedLine& line, const State& state) {
  size_t fixtures = 0, enemies = 0;
  for (const Json& entity : line.fields().list("entities")) {
    if (!entity.is_array() || entity.size() != 5 || !entity[0].is_string()) {
      line.fields().refuse_field("entities");
    }
    const std::string& type = entity[0].text();
    Json numbers = Json::array();
    for (size_t i = 1; i < 5; ++i) numbers.push_back(entity[i]);
    std::string got_type = "nothing";
    std::vector<float> got;
    if (type == "enemy") {
      if (enemies < state.enemy_count) {
        const Enemy& enemy = state.enemies[enemies];
        got_type = type;
        got = {enemy.x, enemy.y(), enemy.vx, static_cast<float>(enemy.look)};
      }
      ++enemies;
    } else {
      if (fixtures < state.level.fixture_count) {
        const Fixture& fixture = state.level.fixtures[fixtures];
        got_type = fixture.kind == Fixture::Kind::kSaw ? "saw" : "crate";
        got = {fixture.x(), fixture.y(), 0, static_cast<float>(fixture.look)};
      }
      ++fixtures;
    }
    line.compare("entities", type, got_type, type == got_type);
    line.same_numbers("entities", numbers, got);
  }
  line.same_count("entities", fixtures + enemies, state.level.fixture_count + state.enemy_count);
}

void verify_grid(const RecordedLine& line, const Level& level) {
  std::string expected;
  for (const Json& row : line.fields().list("grid")) {
    if (!row.is_string() || row.text().size() != kSide) line.fields().refuse_field("grid");
    expected += row.text();
  }
  const std::string got = grid_text(level);
  line.compare("grid", expected, got, expected == got);
  line.same_text("crc_grid", crc_text(crc_of_grid(level)));
}

void verify_level(const RecordedLine& line, Verification& result) {
  State state;
  begin_episode(state, line.level_seed(), line.mode());
  const Level& level = state.level;
  line.same_numbers("goal",
                    {static_cast<float>(level.goal_column), static_cast<float>(level.goal_row)});
  line.same_numbers("agent", {state.x, state.y, kHalf, kAgentHalfHeight});
  line.same_number("agent_theme", level.agent_theme);
  line.same_number("wall_theme", level.wall_theme);
  line.same_number("background", level.background);
  line.same_number("background_x", level.background_x);
  verify_entities(line, state);
  verify_grid(line, level);
  ++result.levels;
}

void verify_episode(const RecordedLine& line, Verification& result) {
  std::vector<std::vector<float>> every_tenth;
  std::vector<float> last;
  size_t t = 0;
  const Replay played = replay(line.level_seed(), line.mode(), line.actions(), [&](const State& s) {
    last = {s.x, s.y};
    if (t++ % 10 == 0) every_tenth.push_back(last);
  });
  std::vector<std::vector<float>> rewards;
  for (const auto& [at, value] : played.rewards) {
    rewards.push_back({static_cast<float>(at), value});
  }
  line.same_count_of_actions(static_cast<size_t>(played.length));
  line.same_number("length", static_cast<float>(played.length));
  line.same_number("return", static_cast<float>(played.total));
  line.same_text("end", played.end);
  line.same_text("crc_rd", crc_text(played.crc_rd));
  line.same_text("crc_xy", crc_text(played.crc_xy));
  line.same_lists("rewards", rewards);
  line.same_lists("xy10", every_tenth);
  line.same_numbers("last", last);
  ++result.episodes;
}

// An episode of which every state is recorded, each on a line after the header.
class Trace {
 public:
  explicit Trace(const RecordedLine& header)
      : where_(header.where()),
        actions_(header.actions()),
        steps_(header.fields().count("steps")),
        generator_(begin_episode(state_, header.level_seed(), header.mode())) {
    if (steps_ > kMostSteps) header.fields().refuse_field("steps");
    header.same_count_of_actions(steps_);
    header.same_text("end", replay(header.level_seed(), header.mode(), actions_).end);
  }

  void verify(const RecordedLine& line, Verification& result) {
    if (line.fields().count("t") != lines_) line.fields().refuse_field("t");
    if (lines_ > steps_) {
      line.fields().refuse(fmt::format("expected another header, this trace has {} steps", steps_));
    }
    if (lines_++ > 0) {
      if (ended_) return line.compare<std::string_view>("t", "a step", "none after the end", false);
      if (step(line)) return;
      ++result.traced_steps;
    }
    verify_state(line);
  }

  // A recording that breaks off has nothing that differs.
  void expect_whole() const {
    if (lines_ == steps_ + 1) return;
    throw Error(ErrorCode::kData,
                fmt::format("{}: expected t from 0 to {} on {} lines after this header, got {}",
                            where_, steps_, steps_ + 1, lines_));
  }

 private:
  // Whether it was the last one, after which the library has no state.
  bool step(const RecordedLine& line) {
    const uint64_t action = line.fields().count("a");
    if (action >= kActions) line.fields().refuse_field("a");
    const auto taken = static_cast<int>(action);
    if (state_.steps < actions_.size()) {
      const int announced = actions_[state_.steps];
      line.compare("a", announced, taken, announced == taken);
    }
    const StepResult result = coinrun::step(state_, taken);
    ended_ = result.ended() || state_.steps == kMostSteps;
    line.same_number("r", result.reached ? kReward : 0.0F);
    line.same_number("d", ended_ ? 1.0F : 0.0F);
    const uint32_t draw = generator_() % 1'000'000;
    if (line.has("s")) line.same_number("s", static_cast<float>(draw));
    return line.fields().number("d") == 1 && !line.has("x");
  }

  void verify_state(const RecordedLine& line) const {
    line.same_number("x", state_.x);
    line.same_number("y", state_.y);
    line.same_number("vx", state_.vx);
    line.same_number("vy", state_.vy);
    line.same_number("last_y", state_.last_y);
    line.same_number("support", state_.supported);
    line.same_number("on_crate", state_.on_crate);
    std::vector<std::vector<float>> enemies;
    for (size_t i = 0; i < state_.enemy_count; ++i) {
      const Enemy& enemy = state_.enemies[i];
      enemies.push_back({enemy.x, enemy.y(), enemy.vx, enemy.vy});
    }
    line.same_lists("enemies", enemies);
  }

  const std::string where_;  // the header
  const std::vector<int> actions_;
  const uint64_t steps_;
  State state_;
  std::mt19937 generator_;
  uint64_t lines_ = 0;  // after the header
  bool ended_ = false;
};

// Recordings that are meant to be small leave it out.
void verify_draw(const RecordedLine& line, const State& state) {
  if (!line.has("draw")) return;
  std::vector<std::vector<float>> things;
  for (const Thing& thing : things_over_cells(state)) {
    things.push_back({static_cast<float>(thing.kind), static_cast<float>(thing.theme), thing.x,
                      thing.y, thing.half_width, thing.half_height});
  }
  line.same_lists("draw", things);
}

void verify_pixels(const RecordedLine& line, const State& state, std::string_view expected) {
  std::array<uint8_t, kViewBytes> view;
  draw_monochrome(state, view);
  size_t wrong = 0;
  for (size_t i = 0; i < view.size(); i += 3) {
    wrong += expected.compare(i, 3, reinterpret_cast<const char*>(view.data()) + i, 3) != 0 ? 1 : 0;
  }
  line.compare<size_t>("pixels that differ", 0, wrong, wrong == 0);
}

void verify_frame(const RecordedLine& line, std::string_view pixels, Verification& result) {
  State state;
  begin_episode(state, line.level_seed(), line.mode());
  bool ended = false;
  for (const int action : line.actions()) {
    if (ended) break;
    ended = step(state, action).ended() || state.steps == kMostSteps;
  }
  line.same_count_of_actions(state.steps);
  line.same_number("t", state.steps);
  line.same_number("x", state.x);
  line.same_number("y", state.y);
  line.same_number("vx", state.vx);
  line.same_number("vy", state.vy);
  line.same_number("support", state.supported);
  line.same_number("wall_theme", state.level.wall_theme);
  verify_draw(line, state);
  verify_pixels(line, state, pixels);
  ++result.frames;
}

std::string without_suffix(std::string text, std::string_view suffix) {
  if (text.ends_with(suffix)) text.resize(text.size() - suffix.size());
  return text;
}

class Folder {
 public:
  explicit Folder(const std::string& path) : directory_(path) {}

  Verification verify() {
    bool found = false;
    for (const std::string& name : directory_.names()) {
      const std::string plain = without_suffix(name, ".gz");
      if (!plain.ends_with(".jsonl")) continue;
      found |= verify_file(name, plain);
    }
    if (!found) {
      throw Error(ErrorCode::kData,
                  directory_.path() +
                      ": holds no recordings (expected levels*, episodes*, traces* "
                      "or frames*, .jsonl or .jsonl.gz)");
    }
    return result_;
  }

 private:
  std::string read(const std::string& name) const {
    std::string bytes = directory_.read(name, kLargestFile);
    return name.ends_with(".gz") ? gunzipped(bytes, directory_.path(name), kLargestFile) : bytes;
  }

  bool verify_file(const std::string& name, const std::string& plain) {
    if (plain.starts_with("levels")) {
      for_lines(name, [&](const RecordedLine& line, size_t) { verify_level(line, result_); });
    } else if (plain.starts_with("episodes")) {
      for_lines(name, [&](const RecordedLine& line, size_t) { verify_episode(line, result_); });
    } else if (plain.starts_with("traces")) {
      verify_traces(name);
    } else if (plain.starts_with("frames")) {
      verify_frames(name, without_suffix(plain, ".jsonl") + ".rgb");
    } else {
      return false;
    }
    return true;
  }

  // How many there were.
  template <class Body>
  size_t for_lines(const std::string& name, const Body& body) {
    const std::string text = read(name);
    size_t number = 0;
    for (size_t from = 0; from < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', from), text.size());
      const std::string where = fmt::format("{}, line {}", directory_.path(name), number + 1);
      const auto json = Json::try_parse(std::string_view(text).substr(from, end - from));
      if (!json) throw Error(ErrorCode::kData, where + ": expected a JSON object");
      body(RecordedLine(*json, where, result_), number);
      from = end + 1;
    }
    if (number == 0) {
      throw Error(ErrorCode::kData,
                  directory_.path(name) + ": expected a JSON object on each line, is empty");
    }
    return number;
  }

  void verify_traces(const std::string& name) {
    std::optional<Trace> trace;
    for_lines(name, [&](const RecordedLine& line, size_t) {
      if (!line.has("t")) {
        if (trace) trace->expect_whole();
        trace.emplace(line);
      } else if (trace) {
        trace->verify(line, result_);
      } else {
        line.fields().refuse("expected the header of an episode first");
      }
    });
    trace->expect_whole();
  }

  void verify_frames(const std::string& name, const std::string& pixels) {
    const std::string file = directory_.holds(pixels) ? pixels : pixels + ".gz";
    const std::string bytes = read(file);
    const size_t frames = for_lines(name, [&](const RecordedLine& line, size_t number) {
      if (bytes.size() < (number + 1) * kViewBytes) {
        line.fields().refuse("there is no such frame in " + file);
      }
      const auto frame = std::string_view(bytes).substr(number * kViewBytes, kViewBytes);
      verify_frame(line, frame, result_);
    });
    if (bytes.size() != frames * kViewBytes) {
      throw Error(
          ErrorCode::kData,
          fmt::format("{}: expected {} bytes, {} for each line of {}, got {}",
                      directory_.path(file), frames * kViewBytes, kViewBytes, name, bytes.size()));
    }
  }

  Directory directory_;
  Verification result_;
};

}  // namespace

Verification verify(const std::string& folder) { return Folder(folder).verify(); }

}  // namespace flotilla::coinrun
