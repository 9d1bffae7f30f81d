#include "flotilla/env/replay.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "flotilla/core/text.h"
#include "flotilla/env/actions.h"
#include "flotilla/env/vec_options.h"
#include "flotilla/env/views.h"
#include "flotilla/env/watchdog.h"

namespace flotilla {
namespace {

constexpr double kReplayHangSeconds = 10;

void require(bool condition, const std::string& what) {
  if (!condition) throw Error(ErrorCode::kData, "crash bundle: " + what);
}

// Numbers from a file, as the four-byte values of the batch.
void put_action(const ActionSpace& space, const std::vector<double>& action, std::byte* row) {
  require(action.size() == space.dims(), "an action has another number of dimensions");
  for (size_t d = 0; d < action.size(); ++d) {
    std::byte* at = row + d * sizeof(int32_t);
    if (space.is_box()) {
      const bool is_inside =
          action[d] >= double{space.low[d]} && action[d] <= double{space.high[d]};
      require(is_inside, fmt::format("action {} is outside {}", action[d], space.describe()));
      const auto value = static_cast<float>(action[d]);
      std::memcpy(at, &value, sizeof(value));
    } else {
      const bool is_choice =
          action[d] >= 0 && action[d] < space.choices[d] && action[d] == std::floor(action[d]);
      require(is_choice, fmt::format("action {} is outside {}", action[d], space.describe()));
      const auto value = static_cast<int32_t>(action[d]);
      std::memcpy(at, &value, sizeof(value));
    }
  }
}

Config config_of(const EnvType& type, const CrashBundle& bundle) {
  Config config(type.schema);
  try {
    config.load_yaml_text(bundle.config_yaml, "its config");
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, std::string("crash bundle: ") + error.what());
  }
  return config;
}

}  // namespace

ReplayResult replay(const EnvType& type, const CrashBundle& bundle) {
  require(bundle.env_name == type.name,
          fmt::format("it is of {}, not of '{}'", in_quotes(bundle.env_name), type.name));
  require(bundle.env >= 0 && bundle.env < kMaxEnvNumber, "the env index is out of range");
  require(bundle.steps_lost == 0,
          fmt::format("the first {} actions of the episode were not kept", bundle.steps_lost));
  require(!type.worker_command, "the environments of '" + type.name + "' are in workers alone");
  const Config config = config_of(type, bundle);
  const auto loop = type.make_loop(config, bundle.time_limit);
  const EnvSpec& spec = loop->spec();
  require(spec.sha256() == bundle.spec_sha256, "the environment's spec has changed since");

  ArenaLayout layout;
  const StepFields fields(layout, spec, 1, 1);
  const auto slots = layout.add<std::byte>("slots", 1, loop->slot_bytes());
  const auto notes = layout.add<FailureNote>("notes", 1, 1);
  const Arena arena(layout, Arena::Backing::kPrivate);
  ThreadPool alone(1);
  const auto stage = loop->make_stage(alone);
  Lane lane;
  const Watchdog watchdog({&lane}, type.name, bundle.env, kReplayHangSeconds);
  std::byte* actions = fields.actions(arena, 0);
  const LoopCall call{.in = arena.view(slots).row(0),
                      .out = arena.view(slots).row(0),
                      .actions = {actions},
                      .view = fields.view(arena, 0),
                      .notes = arena.view(notes).row(0),
                      .lane = &lane,
                      .on_failure = OnFailure::kStop,
                      .seed = bundle.seed,
                      .position = bundle.episode_start,
                      .first_env = bundle.env};  // it names the stream of random numbers
  const Span one{0, 1};
  const FailureNote& note = call.notes[0];
  loop->reset(one, call);
  ReplayResult result;
  for (const std::vector<double>& action : bundle.actions) {
    if (note.count > 0) break;
    put_action(spec.action, action, actions);
    if (stage != nullptr) {
      loop->prepare(one, call);
      stage->run(one, call.out);
    }
    loop->step(one, call);
    if (note.count == 0) ++result.steps;
  }
  result.failed = note.count > 0;
  result.cause = note.what;
  return result;
}

}  // namespace flotilla
