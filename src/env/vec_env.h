// Many environments stepped as one batch, in place, by one of three back ends:
//   serial     in the calling thread
//   threads    in the calling thread and a fixed team of others
//   processes  in worker processes that share the batch; a crash of an env costs one row
//
//   ArenaLayout layout;
//   StepFields fields(layout, spec, num_envs, 1);
//   auto vec = make_vec_env(type, config, options, layout);
//   StepView view = fields.view(vec->arena(), 0);
//   vec->reset(seed, view);
//   vec->begin(0, actions, view);   // returns at once
//   vec->wait(0);                   // view now holds the step
//
// The arena belongs to the VecEnv and holds the caller's fields too; envs write straight into
// them. Views handed to begin() must lie in it and, with the actions, stay untouched until wait().
// With two groups, one half of the envs can step while the other half waits for actions.
//
// Autoreset, final observations and invalid rows: docs/autoreset.md. Failures: docs/failures.md.
//
// Thread safety: one caller at a time.
// Determinism: rows depend on (seed, config, actions), never on back end, threads or workers.
// Allocates: nothing per step, unless an env fails.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/arena.h"
#include "flotilla/core/config.h"
#include "flotilla/core/serial.h"
#include "flotilla/env/actions.h"
#include "flotilla/env/failure.h"
#include "flotilla/env/registry.h"
#include "flotilla/env/views.h"

namespace flotilla {

enum class Backend : uint8_t { kSerial, kThreads, kProcesses };
enum class StartMethod : uint8_t { kSpawn, kFork };

constexpr int kMaxEnvs = 1'000'000;
constexpr int kMaxGroups = 2;
constexpr const char* kDefaultCrashDir = "crashes";

struct VecOptions {
  Backend backend = Backend::kSerial;
  int num_envs = 1;
  int replicas = 1;  // envs in a row that have the same random numbers
  int groups = 1;
  int threads = 1;                                 // of Backend::kThreads
  int workers = 1;                                 // of Backend::kProcesses
  StartMethod start_method = StartMethod::kSpawn;  // fork shares the parent's memory image
  int time_limit = 0;                              // replaces the env's own when positive

  OnFailure on_failure = OnFailure::kStop;
  int restart_budget = 100;     // restarts over the life of the VecEnv
  double step_timeout_s = 60;   // without progress in one env
  double start_timeout_s = 60;  // for a worker to come up
  double stopped_grace_s = 1;   // a worker stopped by a signal is replaced after this long
  std::string crash_dir;        // where crash bundles go; empty: none are written

  // The keys of all this, as they are called on the command line and in YAML.
  static Schema schema();
  static VecOptions from(const Config& config);
  // Throws Error(kUsage) for combinations that cannot be run. make_vec_env() calls both.
  void validate() const;
  void validate_for(const EnvType& type) const;
};

// Chooses the actions of some envs: called with ranges of envs, by several threads at once, each
// with a part number of its own, below the number of threads.
struct Actor {
  void (*act)(void* context, int part, Span envs) = nullptr;
  void* context = nullptr;
};

// The envs of group `group` out of `groups`.
Span group_span(int num_envs, int groups, int group);
// Those of them that lane `lane` out of `lanes` works on.
Span lane_span(Span group, int lanes, int lane);

struct StageTime {
  double total_s = 0, waited_s = 0;  // of it, of the calling thread for others of the team
  StageTime operator-(const StageTime& before) const {
    return {total_s - before.total_s, waited_s - before.waited_s};
  }
};

class VecEnv {
 public:
  virtual ~VecEnv();
  VecEnv(const VecEnv&) = delete;
  VecEnv& operator=(const VecEnv&) = delete;

  const EnvSpec& spec() const { return kernel_->spec(); }
  const VecOptions& options() const { return options_; }
  int num_envs() const { return options_.num_envs; }
  int groups() const { return options_.groups; }
  Span group(int g) const { return group_span(options_.num_envs, options_.groups, g); }
  const Arena& arena() const { return *arena_; }

  // Starts all envs anew from `seed`, brings dropped ones back, and writes their first
  // observations. REQUIRES: no group is between begin() and wait().
  void reset(uint64_t seed, const StepView& out);

  // Begins one step of a group. Throws Error(kUsage) that names env and value for an action
  // outside the space.
  void begin(int group, ActionView actions, const StepView& out);

  // The same with actions that `actor` is yet to write. In the serial and threads back ends the
  // threads that step the envs call it, each for its own; in the others the caller does, here.
  // What it throws, and an action outside the space, may come out of wait(); then some of the
  // envs have stepped and the batch wants a reset().
  void begin(int group, ActionView actions, const StepView& out, Actor actor);

  // Completes it. Throws EnvFailure when an env failed and the policy is to stop, or the restart
  // budget is used up.
  void wait(int group);

  // The states of all envs. A state saved by one back end loads into any other with the same
  // env, config and number of envs. load() also writes the current observations.
  // REQUIRES: no group is between begin() and wait().
  void save(Writer& writer) const;
  void load(Reader& reader, const StepView& out);

  // Writes the current observations and masks again. REQUIRES: the same.
  void observe(const StepView& out) const;
  // What the envs learn together; null where they do not. save() and load() include it.
  EnvMemory* memory() const { return kernel_->memory(); }

  // Where crash bundles go from now on, instead of where the options say.
  void set_crash_dir(const std::string& path) { crash_dir_ = path; }

  // Failures since the last call; those that ended in an exception are among them.
  std::vector<FailureReport> take_failures();
  int restarts() const { return restarts_; }

  // The threads that step the envs, free for the caller's own work while no env needs them; null
  // where the caller is alone.
  virtual ThreadPool* team() { return nullptr; }

  // Spent so far in the common stage of batched envs.
  virtual StageTime stage_time() const { return {}; }
  // What carries it out; empty: nothing that matters.
  virtual std::string stage_name() const { return {}; }
  // CPU time of this process and the workers.
  virtual double cpu_seconds() const;
  virtual std::vector<pid_t> worker_pids() const { return {}; }

 protected:
  VecEnv(const EnvType& type, const Config& config, const VecOptions& options);

  struct Request {
    enum class Op : uint8_t { kReset, kStep } op = Op::kStep;
    int group = 0;
    uint64_t seed = 0;
    ActionView actions;
    StepView view;
    Actor actor;        // still to be called
    uint64_t step = 0;  // of the group, since reset
  };

  // Adds the engine's fields to the layout and makes the arena. Every back end's constructor
  // calls it once. `lanes`: threads or workers; `banks`: copies of the slots.
  void allocate(ArenaLayout layout, Arena::Backing backing, int lanes, int banks);

  // Whether the back end's own threads call the actor.
  virtual bool acts_in_parts() const { return false; }
  // Calls the actor for these envs, checks what it chose and keeps it for crash bundles.
  void act(const Request& request, int part, Span envs);

  virtual void start_request(const Request& request) = 0;
  virtual void finish_request(const Request& request) = 0;
  // The slots of a group as they are between requests.
  virtual std::byte* current_bank(int group) const = 0;

  std::byte* bank(int index) const { return arena_->view(banks_).row(static_cast<size_t>(index)); }
  Lane& lane(int index, int group) const;
  FailureNote* notes() const { return arena_->view(notes_).row(0); }
  SlotHeader& slot_header(std::byte* bank, int env) const;
  int lanes() const { return lane_count_; }
  int group_of(int env) const;

  // Takes a failure into account: logs it, writes its bundle, counts a restart.
  void report(int env, const FailureNote& note, const std::string& cause, bool repeated);
  // Throws EnvFailure when the failure reported last was one too many.
  void require_restart_budget() const;
  [[noreturn]] void throw_last_failure(const std::string& consequence) const;

  const std::string env_name_;
  const std::string config_yaml_;
  const VecOptions options_;
  const std::unique_ptr<EnvKernel> kernel_;
  std::unique_ptr<Arena> arena_;
  FieldId<std::byte> banks_;
  FieldId<Lane> lanes_;
  FieldId<FailureNote> notes_;

 private:
  void check_idle(const char* operation) const;
  void check_view(const StepView& view) const;
  void check_actions_place(ActionView actions) const;
  void complete(const Request& request);
  void collect_notes(const Request& request);
  void throw_if_over(size_t first_failure) const;
  void write_bundle(FailureReport& failure, const FailureNote& note, int group);

  int lane_count_ = 1;
  uint64_t seed_ = 0;
  bool is_reset_ = false;
  Request in_flight_[kMaxGroups];
  bool busy_[kMaxGroups] = {};
  uint64_t steps_[kMaxGroups] = {};  // begun since reset
  ActionLog action_log_;
  std::string crash_dir_;
  std::vector<FailureReport> failures_;
  bool out_of_service_ = false;  // an env could not be brought back though the policy wants it
  int dropped_ = 0;              // envs out of service under OnFailure::kDrop
  int restarts_ = 0;
  int bundles_ = 0;
};

// `layout` holds the caller's fields; the VecEnv adds its own and allocates.
std::unique_ptr<VecEnv> make_vec_env(const EnvType& type, const Config& config,
                                     const VecOptions& options, const ArenaLayout& layout);

}  // namespace flotilla
