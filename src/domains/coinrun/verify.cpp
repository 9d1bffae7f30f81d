#include "flotilla/domains/coinrun/verify.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <random>

#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/json_fields.h"
#include "flotilla/domains/coinrun/coinrun_env.h"
#include "flotilla/domains/coinrun/level.h"
#include "flotilla/domains/coinrun/monochrome.h"
#include "flotilla/domains/coinrun/replay.h"

namespace flotilla::coinrun {
namespace {

constexpr size_t kLargestFile = size_t{1} << 30;

// The numbers of a list, each as a float of 32 bits.
std::vector<float> floats(const JsonFields& fields, const char* name, const Json& list) {
  std::vector<float> values;
  for (const Json& value : list) {
    if (!value.is_number()) fields.refuse_field(name);
    values.push_back(value.get<float>());
  }
  return values;
}

// One line of a recording.
class Line {
 public:
  Line(const Json& json, const std::string& where, Verification& result)
      : fields_(json, where), where_(where), result_(result), json_(json) {}

  const JsonFields& fields() const { return fields_; }
  bool has(const char* name) const { return json_.contains(name); }

  Mode mode() const {
    const std::string name = fields_.text("mode");
    if (name != "easy" && name != "hard") fields_.refuse_field("mode");
    return mode_named(name);
  }
  int32_t level_seed() const {
    const uint64_t seed = fields_.count("level_seed");
    if (seed > INT32_MAX) fields_.refuse_field("level_seed");
    return static_cast<int32_t>(seed);
  }
  std::vector<int> actions() const { return parse_actions(fields_.text("actions"), where_); }

  void same_text(const char* name, const std::string& got) const {
    compare(name, fields_.text(name), got, fields_.text(name) == got);
  }
  void same_number(const char* name, float got) const {
    const auto expected = static_cast<float>(fields_.number(name));
    compare(name, expected, got, expected == got);
  }
  void same_numbers(const char* name, const std::vector<float>& got) const {
    same_numbers(name, fields_.list(name), got);
  }
  void same_numbers(const char* name, const Json& list, const std::vector<float>& got) const {
    const std::vector<float> expected = floats(fields_, name, list);
    compare(name, Json(expected).dump(), Json(got).dump(), expected == got);
  }

  // Counts a fact, and notes it where it differs.
  template <class T>
  void compare(const char* name, const T& expected, const T& got, bool same) const {
    ++result_.facts;
    if (same || result_.mismatches++ > 0) return;
    result_.first_mismatch =
        fmt::format("{}, {}: expected {}, got {}", where_, name, expected, got);
  }

 private:
  JsonFields fields_;
  const std::string& where_;
  Verification& result_;
  const Json& json_;
};

void verify_entities(const Line& line, const State& state) {
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
  const size_t expected = fixtures + enemies, got = state.level.fixture_count + state.enemy_count;
  line.compare("entities", expected, got, expected == got);
}

void verify_grid(const Line& line, const Level& level) {
  std::string expected;
  for (const Json& row : line.fields().list("grid")) {
    if (!row.is_string()) line.fields().refuse_field("grid");
    expected += row.text();
  }
  const std::string got = grid_text(level);
  line.compare("grid", expected, got, expected == got);
  line.same_text("crc_grid", crc_text(crc_of_grid(level)));
}

void verify_level(const Line& line, Verification& result) {
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

void verify_episode(const Line& line, Verification& result) {
  std::vector<std::vector<float>> places;  // before each action
  const Replay played = replay(line.level_seed(), line.mode(), line.actions(), [&](const State& s) {
    places.push_back({s.x, s.y});
  });
  line.same_number("length", static_cast<float>(played.length));
  line.same_number("return", static_cast<float>(played.total));
  line.same_text("end", played.end);
  line.same_text("crc_rd", crc_text(played.crc_rd));
  line.same_text("crc_xy", crc_text(played.crc_xy));
  size_t reward = 0;
  for (const Json& expected : line.fields().list("rewards")) {
    const bool there = reward < played.rewards.size();
    const auto& [t, value] = there ? played.rewards[reward++] : std::pair<int, float>();
    line.same_numbers("rewards", expected, {static_cast<float>(t), value});
  }
  size_t t = 0;
  for (const Json& expected : line.fields().list("xy10")) {
    line.same_numbers("xy10", expected, t < places.size() ? places[t] : std::vector<float>());
    t += 10;
  }
  if (!places.empty()) line.same_numbers("last", places.back());
  ++result.episodes;
}

// An episode of which every state is recorded.
class Trace {
 public:
  explicit Trace(const Line& header)
      : generator_(begin_episode(state_, header.level_seed(), header.mode())) {}

  void verify(const Line& line, Verification& result) {
    if (line.fields().count("t") != state_.steps + (state_.steps > 0 || begun_ ? 1U : 0U)) {
      line.fields().refuse_field("t");
    }
    if (begun_) {
      if (step(line)) return;
      ++result.traced_steps;
    }
    begun_ = true;
    verify_state(line);
  }

 private:
  // Whether it was the last one.
  bool step(const Line& line) {
    const uint64_t action = line.fields().count("a");
    if (action >= kActions || ended_) line.fields().refuse_field("a");
    const StepResult result = coinrun::step(state_, static_cast<int>(action));
    ended_ = result.ended() || state_.steps == kMostSteps;
    line.same_number("r", result.reached ? kReward : 0.0F);
    line.same_number("d", ended_ ? 1.0F : 0.0F);
    const uint32_t draw = generator_() % 1'000'000;
    if (line.has("s")) line.same_number("s", static_cast<float>(draw));
    return !line.has("x");
  }

  void verify_state(const Line& line) const {
    line.same_number("x", state_.x);
    line.same_number("y", state_.y);
    line.same_number("vx", state_.vx);
    line.same_number("vy", state_.vy);
    line.same_number("last_y", state_.last_y);
    line.same_number("support", state_.supported);
    line.same_number("on_crate", state_.on_crate);
    const Json& enemies = line.fields().list("enemies");
    line.compare<size_t>("enemies", enemies.size(), state_.enemy_count,
                         enemies.size() == state_.enemy_count);
    for (size_t i = 0; i < std::min<size_t>(enemies.size(), state_.enemy_count); ++i) {
      const Enemy& enemy = state_.enemies[i];
      line.same_numbers("enemies", enemies[i], {enemy.x, enemy.y(), enemy.vx, enemy.vy});
    }
  }

  State state_;
  std::mt19937 generator_;
  bool begun_ = false, ended_ = false;
};

void verify_frame(const Line& line, std::string_view expected, Verification& result) {
  State state;
  begin_episode(state, line.level_seed(), line.mode());
  for (const int action : line.actions()) {
    if (state.steps < kMostSteps) step(state, action);
  }
  line.same_number("t", state.steps);
  line.same_number("x", state.x);
  line.same_number("y", state.y);
  line.same_number("vx", state.vx);
  line.same_number("vy", state.vy);
  std::array<uint8_t, kViewBytes> view;
  draw_monochrome(state, view);
  size_t wrong = 0;
  for (size_t i = 0; i < view.size(); i += 3) {
    wrong += expected.compare(i, 3, reinterpret_cast<const char*>(view.data()) + i, 3) != 0 ? 1 : 0;
  }
  line.compare<size_t>("pixels that differ", 0, wrong, wrong == 0);
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
      for_lines(name, [&](const Line& line, size_t) { verify_level(line, result_); });
    } else if (plain.starts_with("episodes")) {
      for_lines(name, [&](const Line& line, size_t) { verify_episode(line, result_); });
    } else if (plain.starts_with("traces")) {
      verify_traces(name);
    } else if (plain.starts_with("frames")) {
      verify_frames(name, without_suffix(plain, ".jsonl") + ".rgb");
    } else {
      return false;
    }
    return true;
  }

  template <class Body>
  void for_lines(const std::string& name, const Body& body) {
    const std::string text = read(name);
    size_t number = 0;
    for (size_t from = 0; from < text.size(); ++number) {
      const size_t end = std::min(text.find('\n', from), text.size());
      const std::string where = fmt::format("{}, line {}", directory_.path(name), number + 1);
      const auto json = Json::try_parse(std::string_view(text).substr(from, end - from));
      if (!json) throw Error(ErrorCode::kData, where + ": expected a JSON object");
      body(Line(*json, where, result_), number);
      from = end + 1;
    }
  }

  void verify_traces(const std::string& name) {
    std::optional<Trace> trace;
    for_lines(name, [&](const Line& line, size_t) {
      if (!line.has("t")) {
        trace.emplace(line);
      } else if (trace) {
        trace->verify(line, result_);
      } else {
        line.fields().refuse("expected the header of an episode first");
      }
    });
  }

  void verify_frames(const std::string& name, const std::string& pixels) {
    const std::string packed = pixels + ".gz";
    const std::string bytes = read(directory_.holds(pixels) ? pixels : packed);
    for_lines(name, [&](const Line& line, size_t number) {
      if (bytes.size() < (number + 1) * kViewBytes) {
        line.fields().refuse("there is no such frame in " + pixels);
      }
      verify_frame(line, std::string_view(bytes).substr(number * kViewBytes, kViewBytes), result_);
    });
  }

  Directory directory_;
  Verification result_;
};

}  // namespace

Verification verify(const std::string& folder) { return Folder(folder).verify(); }

}  // namespace flotilla::coinrun
