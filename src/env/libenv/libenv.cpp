#include "flotilla/env/libenv/libenv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/text.h"
#include "flotilla/env/libenv/game.h"
#include "flotilla/env/libenv/library.h"
#include "flotilla/env/libenv/options.h"
#include "flotilla/env/remote_loop.h"
#include "flotilla/env/worker.h"

namespace flotilla {
namespace {

using libenv::Game;
using libenv::Library;
using libenv::Settings;

constexpr size_t kChoicesKept = 64;

// The part of a slot behind its header: what get_state() gave, where the library has that, and the
// actions since then. Procgen takes three times as long for its state as for a step.
template <size_t kBytes>
struct LibenvState {
  static constexpr size_t kCapacity = kBytes;
  int32_t row = 0;
  uint32_t size = 0;
  uint8_t ended = 0;  // the episode that the engine is in; the library is in the next one
  uint32_t kept = 0;
  int32_t choices[kChoicesKept] = {};
  std::byte bytes[kBytes];

  bool valid() const { return size <= kBytes && kept <= kChoicesKept; }
};
template <>
struct LibenvState<0> {
  static constexpr size_t kCapacity = 0;
  int32_t row = 0;
  uint8_t ended = 0;
};

// All of a slot is copied in a step.
constexpr size_t kSmallState = size_t{64} << 10, kMiddleState = size_t{96} << 10;

// States grow and shrink with what is in a level: there is room for twice of what one takes.
size_t capacity_for(size_t state_bytes) {
  if (state_bytes == 0) return 0;
  for (const size_t capacity : {kSmallState, kMiddleState}) {
    if (2 * state_bytes <= capacity) return capacity;
  }
  return libenv::kMostStateBytes;
}

// What an env looks like, and how much its state takes.
struct Description {
  EnvSpec spec;
  size_t capacity = 0;

  static Description of(Game& game, bool keeps_states) {
    Description result{.spec = game.spec()};
    if (keeps_states) {
      result.capacity = capacity_for(game.save().size());
    }
    return result;
  }

  Json json() const {
    const bool bytes = spec.obs.type == ObsType::kUint8;
    const auto bound = [](float value) { return std::isfinite(value) ? Json(value) : Json(); };
    return {{"obs", bytes ? "uint8" : "float32"},
            {"shape", spec.obs.shape},
            {"low", bound(spec.obs.low[0])},
            {"high", bound(spec.obs.high[0])},
            {"choices", spec.action.choices},
            {"metrics", spec.metrics},
            {"capacity", capacity}};
  }

  static Description from(const Json& json) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const auto bound = [](const Json& value, float infinite) {
      return value.is_null() ? infinite : static_cast<float>(value.get<double>());
    };
    Description result;
    const auto shape = json["shape"].get<std::vector<int>>();
    result.spec.obs = json["obs"].text() == "uint8"
                          ? ObsSpace::uint8(shape)
                          : ObsSpace::float32(shape, bound(json["low"], -kInfinity),
                                              bound(json["high"], kInfinity));
    const auto choices = json["choices"].get<std::vector<int>>();
    result.spec.action = choices.size() == 1 ? ActionSpace::discrete(choices[0])
                                             : ActionSpace::multi_discrete(choices);
    result.spec.metrics = json["metrics"].get<std::vector<std::string>>();
    result.capacity = json["capacity"].get<uint64_t>();
    return result;
  }
};

// --- in a worker

constexpr const char* kLost = "it was lost with its worker";

// The envs of a worker. Each is a handle of its own, so that what it does depends on its own seed,
// and not on which others are in the same worker.
class Games {
 public:
  Games(const Config& config, const WorkerBatch& batch)
      : settings_(Settings::from(config)),
        library_(settings_.library),
        batch_(batch),
        seats_(static_cast<size_t>(batch.num_envs)) {
    Game first(library_, settings_.options_of(0, 0));
    description_ = Description::of(first, settings_.saves_states && library_.keeps_states());
  }

  const Description& description() const { return description_; }

  // Goes on with the episode that the library began by itself, where it has.
  void begin(int row, Rng& rng) {
    Seat& seat = at(row);
    const bool all_anew = rng.position() == 0;
    const auto seed = static_cast<int32_t>(rng.next_u64() % INT32_MAX);
    if (all_anew || !seat.at_beginning) make(row, seed);
    seat.at_beginning = false;
  }

  Outcome step(int row, ActionRow action) {
    Seat& seat = at(row);
    if (seat.game == nullptr) throw Error(ErrorCode::kEnvironment, kLost);
    const auto obs = seat.game->obs();
    seat.last.assign(obs.begin(), obs.end());
    try {
      seat.game->act(action);
    } catch (...) {
      seat = {};
      throw;
    }
    seat.at_beginning = seat.game->is_first();
    return {.reward = seat.game->reward(), .terminated = seat.game->is_first()};
  }

  // The library shows no last observation of an episode: the one before it stands for it.
  void observe(int row, bool ended, ObsRow out) {
    const Seat& seat = at(row);
    const std::span<const std::byte> obs =
        ended ? std::span<const std::byte>(seat.last) : seat.game->obs();
    std::memcpy(out.u8().data(), obs.data(), description_.spec.obs.row_bytes());
    if (description_.spec.obs.type == ObsType::kFloat32) require_finite(out.f32());
  }

  void metrics(int row, MetricRow out) { at(row).game->write_metrics(out); }

  bool has(int row) { return at(row).game != nullptr; }
  std::span<const std::byte> save(int row) { return at(row).game->save(); }
  // False: the library did not do the same again.
  bool load(int row, std::span<const std::byte> state, std::span<const int32_t> choices) {
    make(row, 0);
    Seat& seat = at(row);
    seat.game->load(state);
    seat.at_beginning = false;
    const std::vector<int>& counts = description_.spec.action.choices;
    for (size_t i = 0; i + counts.size() <= choices.size(); i += counts.size()) {
      const auto action = choices.subspan(i, counts.size());
      if (!std::ranges::equal(action, counts, [](int32_t choice, int count) {
            return choice >= 0 && choice < count;
          })) {
        seat = {};
        return false;
      }
      step(row, ActionRow(action.data()));
      if (!seat.at_beginning) continue;
      seat = {};
      return false;
    }
    return true;
  }

 private:
  struct Seat {
    std::unique_ptr<Game> game;
    bool at_beginning = false;    // of an episode that the engine has not begun yet
    std::vector<std::byte> last;  // the observation before the latest step
  };

  Seat& at(int row) { return seats_[static_cast<size_t>(row)]; }

  void make(int row, int32_t seed) {
    Seat& seat = at(row);
    seat = {};
    const int number = (batch_.first_env + row) / batch_.replicas;
    seat.game = std::make_unique<Game>(library_, settings_.options_of(number, seed));
    const EnvSpec& found = seat.game->spec();
    const EnvSpec& known = description_.spec;
    if (found.obs.row_bytes() != known.obs.row_bytes() || found.metrics != known.metrics ||
        found.action.choices != known.action.choices) {
      seat = {};
      throw Error(ErrorCode::kEnvironment, "its spaces are not those of the first env");
    }
  }

  static void require_finite(std::span<const float> row) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (std::isfinite(row[i])) continue;
      throw Error(ErrorCode::kEnvironment,
                  fmt::format("the observation is {} at element {}", row[i], i));
    }
  }

  const Settings settings_;
  const Library library_;
  const WorkerBatch batch_;
  Description description_;
  std::vector<Seat> seats_;
};

// The face that the loop knows: what it has of an env is its row, and what the library says of its
// state where it does.
template <bool kMetered, size_t kBytes>
class LibenvEnv {
 public:
  using State = LibenvState<kBytes>;

  explicit LibenvEnv(std::shared_ptr<Games> games) : games_(std::move(games)) {}

  const EnvSpec& spec() const { return games_->description().spec; }
  void place(State& state, int row) const { state.row = row; }

  void reset(State& state, Rng& rng) const {
    games_->begin(state.row, rng);
    keep(state);
  }

  Outcome step(State& state, ActionRow action, Rng&) const {
    if constexpr (kBytes > 0) {
      // This worker replaces one that was killed.
      if (!games_->has(state.row) && !restore(state)) throw Error(ErrorCode::kEnvironment, kLost);
    }
    const Outcome outcome = games_->step(state.row, action);
    state.ended = outcome.terminated ? 1 : 0;
    if (!outcome.terminated) follow(state, action);
    return outcome;
  }

  bool restore(State& state) const {
    if constexpr (kBytes > 0) {
      return games_->load(state.row, std::span(state.bytes).first(state.size),
                          std::span(state.choices).first(state.kept));
    }
    return false;
  }

  void observe(const State& state, ObsRow out) const {
    games_->observe(state.row, state.ended != 0, out);
  }
  void metrics(const State& state, MetricRow out) const requires kMetered {
    games_->metrics(state.row, out);
  }

 private:
  void keep(State& state) const {
    if constexpr (kBytes > 0) {
      const std::span<const std::byte> bytes = games_->save(state.row);
      if (bytes.size() > kBytes) {
        throw Error(ErrorCode::kEnvironment, fmt::format("its state takes {} bytes, there is room "
                                                         "for {} (save_state=false does without)",
                                                         bytes.size(), kBytes));
      }
      std::memcpy(state.bytes, bytes.data(), bytes.size());
      const auto size = static_cast<uint32_t>(bytes.size());
      if (size < state.size) std::memset(state.bytes + size, 0, state.size - size);
      state.size = size;
      state.kept = 0;
      std::memset(state.choices, 0, sizeof(state.choices));
    }
  }

  void follow(State& state, ActionRow action) const {
    if constexpr (kBytes > 0) {
      const size_t dims = spec().action.choices.size();
      if (state.kept + dims > kChoicesKept) return keep(state);
      std::memcpy(state.choices + state.kept, action.data(), dims * sizeof(int32_t));
      state.kept += static_cast<uint32_t>(dims);
    }
  }

  std::shared_ptr<Games> games_;
};

// Calls body with the capacity as a constant.
template <class Body>
std::unique_ptr<EnvLoop> with_capacity(size_t capacity, const Body& body) {
  using std::integral_constant;
  if (capacity == 0) return body(integral_constant<size_t, 0>());
  if (capacity == kSmallState) return body(integral_constant<size_t, kSmallState>());
  if (capacity == kMiddleState) return body(integral_constant<size_t, kMiddleState>());
  return body(integral_constant<size_t, libenv::kMostStateBytes>());
}

std::unique_ptr<EnvLoop> make_worker_loop(const Config& config, const WorkerBatch& batch) {
  const auto games = std::make_shared<Games>(config, batch);
  const Description& description = games->description();
  const int frames = frame_stack_of(config);
  return with_capacity(description.capacity, [&](auto capacity) -> std::unique_ptr<EnvLoop> {
    if (description.spec.metrics.empty()) {
      using Loop = LoopOf<LibenvEnv<false, decltype(capacity)::value>>;
      return std::make_unique<Loop>(kLibenv, games, batch.time_limit, frames);
    }
    using Loop = LoopOf<LibenvEnv<true, decltype(capacity)::value>>;
    return std::make_unique<Loop>(kLibenv, games, batch.time_limit, frames);
  });
}

Json describe(const Config& config) {
  const Settings settings = Settings::from(config);
  const Library library(settings.library);
  Game game(library, settings.options_of(0, 0));
  return Description::of(game, settings.saves_states && library.keeps_states()).json();
}

// --- in the process that trains

std::string title(const Config& config) {
  return fmt::format("{} {}", kLibenv, config.get_text("library"));
}

// A file of somebody else must not choose the code that runs here.
void require_permission(const Config& config, const std::string& library) {
  if (!config.is_loaded("library") || config.is_overridden("library")) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("library: {} is code that a file names: to run it, name it on the "
                          "command line as well: library={}",
                          in_quotes(library), library));
}

// What workers said so far, by the settings.
class Descriptions {
 public:
  const Description& of(const Config& config) {
    const std::string library = Settings::from(config).library;
    require_permission(config, library);
    const std::string settings = config.to_yaml();
    const auto known = known_.find(settings);
    return known != known_.end() ? known->second
                                 : known_.emplace(settings, ask(library, settings)).first->second;
  }

 private:
  static Description ask(const std::string& library, const std::string& settings) {
    const std::string where = "library " + in_quotes(library) + ": ";
    return Description::from(ask_for_description(kLibenv, settings, where));
  }

  std::map<std::string, Description> known_;
};

std::unique_ptr<EnvLoop> make_remote_loop(Descriptions& descriptions, const Config& config,
                                          int time_limit) {
  const Description& description = descriptions.of(config);
  EnvSpec spec = description.spec;
  spec.name = kLibenv;
  spec.time_limit = time_limit;
  return with_capacity(description.capacity, [&](auto capacity) -> std::unique_ptr<EnvLoop> {
    using Loop = RemoteLoop<LibenvState<decltype(capacity)::value>>;
    return std::make_unique<Loop>(spec, frame_stack_of(config));
  });
}

}  // namespace

EnvType libenv_type() {
  const auto descriptions = std::make_shared<Descriptions>();
  return {.name = kLibenv,
          .summary = "the games of a shared library with the C interface libenv, such as procgen",
          .schema = with_frame_stack(Settings::schema()),
          .make_loop =
              [descriptions](const Config& config, int time_limit) {
                return make_remote_loop(*descriptions, config, time_limit);
              },
          .worker_command = [](const Config&) { return std::vector<std::string>(); },
          .make_worker_loop = make_worker_loop,
          .describe = describe,
          .title = title,
          .needs_settings = true};
}

}  // namespace flotilla
