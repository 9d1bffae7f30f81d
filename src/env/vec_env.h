// Many environments stepped as one batch, in place. This is the face alone, which anyone can
// provide; make_vec_env() gives one of the three back ends for native environments:
//   serial     in the calling thread
//   threads    in the calling thread and a fixed team of others
//   processes  in worker processes that share the batch; a crash of an env costs one row
//   actors     each group in the thread that waits for it, several groups at once
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
// Envs have numbers: those of a batch are first_env(), first_env() + 1 and so on, and random
// numbers depend on the number, not on the batch an env is in. Rows, spans and observers count from
// 0.
//
// Autoreset, final observations and invalid rows: docs/autoreset.md. Failures: docs/failures.md.
//
// Thread safety: one caller at a time; of the actors back end, one for each group.
// Determinism: rows depend on (seed, config, actions), never on back end, threads or workers.
// Allocates: nothing per step, unless an env fails.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/core/arena.h"
#include "flotilla/core/bell.h"
#include "flotilla/core/config.h"
#include "flotilla/core/serial.h"
#include "flotilla/env/actions.h"
#include "flotilla/env/episode_observer.h"
#include "flotilla/env/failure.h"
#include "flotilla/env/memory.h"
#include "flotilla/env/vec_options.h"
#include "flotilla/env/views.h"

namespace flotilla {

// Chooses the actions of some envs: called with ranges of envs, by several threads at once, each
// with a part number of its own, below the number of threads.
struct Actor {
  void (*act)(void* context, int part, Span envs) = nullptr;
  void* context = nullptr;
};

// Steps that envs make without a meeting of all after each: see VecEnv::play(). Called by several
// threads at once, each with a part number of its own; for one env, in the order of steps from 0.
class Play {
 public:
  virtual ~Play() = default;

  virtual ActionView actions(int step) const = 0;
  virtual StepView view(int step) const = 0;
  // Writes the actions of these envs.
  virtual void act(int part, int step, Span envs) = 0;
  // They have made the step. Whether they make another one.
  virtual bool stepped(int part, int step, Span envs) = 0;
};

struct StageTime {
  double total_s = 0, waited_s = 0;  // of it, of the calling thread for others of the team
  StageTime operator-(const StageTime& before) const {
    return {total_s - before.total_s, waited_s - before.waited_s};
  }
};

class VecEnv {
 public:
  VecEnv() = default;
  virtual ~VecEnv() = default;
  VecEnv(const VecEnv&) = delete;
  VecEnv& operator=(const VecEnv&) = delete;

  virtual const EnvSpec& spec() const = 0;
  virtual int num_envs() const = 0;
  virtual int first_env() const { return 0; }
  virtual int groups() const = 0;           // 1 to kMaxGroups
  virtual Span group(int index) const = 0;  // its envs
  virtual const Arena& arena() const = 0;

  // Starts all envs anew from `seed`, brings dropped ones back, and writes their first
  // observations. REQUIRES: no group is between begin() and wait().
  virtual void reset(uint64_t seed, const StepView& out) = 0;

  // Begins one step of a group. Throws Error(kUsage) that names env and value for an action
  // outside the space.
  void begin(int group, ActionView actions, const StepView& out) {
    begin(group, actions, out, Actor{});
  }

  // The same with actions that `actor` is yet to write, unless it is empty. A back end whose own
  // threads step the envs may let them call it, each for its own; otherwise it is called here.
  // What it throws, and an action outside the space, may come out of wait(); then some of the
  // envs have stepped and the batch wants a reset().
  virtual void begin(int group, ActionView actions, const StepView& out, Actor actor) = 0;

  // Completes it. Throws EnvFailure when an env failed and the policy is to stop, or the restart
  // budget is used up.
  virtual void wait(int group) = 0;

  // Lets the envs make steps until `play` has enough of each: envs that one thread plays do not
  // wait for those of another. Rows are those of begin() and wait(). What fails is settled at the
  // end, in the order of steps and envs, as if all had met after every step. Throws as begin() and
  // wait() do. REQUIRES: plays(), no group is between begin() and wait(), and all have made as many
  // steps.
  virtual bool plays() const { return false; }
  virtual void play(Play& play);

  // Whether wait() would return at once. Where others step a group, their bell rings when it has
  // become ready; who waits for it calls look_after() now and then, which throws as wait() does.
  // Without a bell wait() makes the step.
  virtual bool ready(int /*group*/) const { return true; }
  virtual Bell* step_bell() { return nullptr; }
  virtual void look_after() {}

  // The states of these envs. A state saved by one back end loads into any other with the same
  // env, config, number of envs and first_env(): of envs that several batches share, each saves
  // its own, and loads it from that or from what join() has made of all of them. load() also writes
  // the current observations. REQUIRES: no group is between begin() and wait().
  virtual void save(Writer& writer) const = 0;
  virtual void load(Reader& reader, const StepView& out) = 0;
  // Writes what one batch of all these envs would have saved, from what each has, in the order of
  // envs. Throws Error(kUsage) where a batch cannot share its envs.
  virtual void join(std::span<const std::vector<std::byte>> saved, Writer& writer) const;

  // False: the envs are more than that, and begin new episodes with load().
  virtual bool keeps_states() const { return true; }

  // Writes the current observations, masks and advice again. REQUIRES: the same.
  virtual void observe(const StepView& out) const = 0;
  // What the envs learn together; null where they do not. save() and load() include it.
  virtual EnvMemory* memory() const { return nullptr; }

  // Who sees the episodes that end from the next reset() on; empty: nobody. Throws Error(kUsage)
  // where the states are out of reach, as those of worker processes are.
  virtual void set_episode_observer(EpisodeObserver observer);

  // Where crash bundles go from now on, instead of where the options say.
  virtual void set_crash_dir(const CrashFolder&) {}

  // Failures since the last call; those that ended in an exception are among them.
  virtual std::vector<FailureReport> take_failures() { return {}; }
  virtual int restarts() const { return 0; }

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
};

// `layout` holds the caller's fields; the VecEnv adds its own and allocates.
std::unique_ptr<VecEnv> make_vec_env(const EnvType& type, const Config& config,
                                     const VecOptions& options, const ArenaLayout& layout);

}  // namespace flotilla
