// A VecEnv of native environments whose states lie in slots (env/env_loop.h): what the serial, the
// threads, the processes and the actors back end have in common. It checks what it is given, keeps
// the latest actions for crash bundles, turns failures into reports, and saves and loads the slots;
// who steps which of them is the back end's.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "flotilla/core/arena.h"
#include "flotilla/env/actions.h"
#include "flotilla/env/env_loop.h"
#include "flotilla/env/vec_env.h"

namespace flotilla {

// The envs of group `group` out of `groups`.
Span group_span(int num_envs, int groups, int group);
// Those of group number `index` that lane `lane` out of `lanes` works on. Groups that have fewer
// envs than there are lanes lie in different ones, so that their steps take no turns.
Span lane_span(Span group, int index, int lanes, int lane);

// The same where a group is one lane's.
Span whole_span(Span group, int index, int lanes, int lane);

enum class Work : uint8_t { kReset, kStep, kRestore };

class SlotVecEnv : public VecEnv {
 public:
  using VecEnv::begin;

  const EnvSpec& spec() const override { return loop_->spec(); }
  int num_envs() const override { return options_.num_envs; }
  int first_env() const override { return options_.first_env; }
  int groups() const override { return options_.groups; }
  Span group(int index) const override {
    return group_span(options_.num_envs, options_.groups, index);
  }
  const Arena& arena() const override { return *arena_; }

  void reset(uint64_t seed, const StepView& out) override;
  void begin(int group, ActionView actions, const StepView& out, Actor actor) override;
  void wait(int group) override;
  void save(Writer& writer) const override;
  void load(Reader& reader, const StepView& out) override;
  void join(std::span<const std::vector<std::byte>> saved, Writer& writer) const override;
  void observe(const StepView& out) const override;
  bool keeps_states() const override { return loop_->keeps_states(); }
  EnvMemory* memory() const override { return loop_->memory(); }

  void set_crash_dir(const CrashFolder& folder) override { crash_dir_ = folder; }
  std::vector<FailureReport> take_failures() override;
  int restarts() const override { return restarts_; }

 protected:
  SlotVecEnv(const EnvType& type, const Config& config, const VecOptions& options);

  struct Request {
    Work work = Work::kStep;
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
  void check_idle(const char* operation) const;
  // The step of a group that is in flight, and no longer is. Throws Error(kUsage) where there is
  // none.
  const Request& end_step(int group);
  // Reports what failed in a group. Throws as wait() does.
  void take_notes(const Request& request);

  // Throws as wait() does, for failures behind so many.
  void throw_if_over(size_t first_failure) const;
  size_t failure_count() const { return failures_.size(); }

  // What led to a failure, as it is known when it happens.
  struct Lead {
    std::string action = "-";                  // that failed
    std::vector<std::vector<double>> actions;  // of the episode, this one included; the latest
  };
  // Of an env that has begun `steps` steps since reset, the last of them with these actions.
  Lead lead_of(int env, const FailureNote& note, ActionView actions, uint64_t steps) const;
  // Of the request that is in flight.
  Lead lead_of(int env, const FailureNote& note) const;

  // Takes a failure into account: logs it, writes its bundle, counts a restart. `env`: its row, or
  // -1 where a worker died in none.
  void report(int env, const FailureNote& note, const std::string& cause, bool repeated) {
    report(env, note, cause, repeated, lead_of(env, note));
  }
  void report(int env, const FailureNote& note, const std::string& cause, bool repeated, Lead lead);

  // What happened to the envs of one thread while they played.
  struct Played {
    struct Failed {
      int step = 0, env = 0;
      FailureNote note;
      Lead lead;
    };
    std::vector<Failed> failed;
    // What the actor threw first, in the order of steps and envs, and where; null: nothing.
    std::exception_ptr thrown;
    std::pair<int, int> thrown_at;
    int steps = 0;  // of those envs that made most
  };
  // Envs that play from some step on, those before it being made.
  struct Playing {
    Span envs;
    int step = 0;
  };
  // Asked after each step of some envs: which of them this thread goes on with.
  using Keep = std::function<Span(const Playing& next)>;
  // Plays these envs in the lane of `part` until there is enough of them.
  void play_span(Play& play, int part, const Playing& from, const LoopCall& call, const Keep& keep,
                 Played& played);
  // Accounts for what happened in all parts. Throws as play() does.
  void settle(std::vector<Played>& parts);
  // Throws EnvFailure when the failure reported last was one too many.
  void require_restart_budget() const;
  [[noreturn]] void throw_last_failure(const std::string& consequence) const;

  const std::string env_name_;
  const std::string title_;  // for messages
  const std::string config_yaml_;
  const VecOptions options_;
  const std::unique_ptr<EnvLoop> loop_;
  std::unique_ptr<Arena> arena_;
  FieldId<std::byte> banks_;
  FieldId<Lane> lanes_;
  FieldId<FailureNote> notes_;

 private:
  // What saved states begin with.
  struct SavedHead {
    uint64_t envs = 0, slot_bytes = 0, seed = 0;
  };
  void save_head(Writer& writer, int envs) const;
  SavedHead read_head(Reader& reader) const;
  // Throws Error(kData).
  void expect_same(bool same, const std::string& what) const;
  // The stream of random numbers of a row, which its replicas share.
  int stream_of_row(int env) const { return (first_env() + env) / options_.replicas; }
  void check_view(const StepView& view) const;
  void check_actions_place(ActionView actions) const;
  void note_failures(Span envs, int step, const LoopCall& call, size_t first_failure,
                     Played& played) const;
  bool ends_by(std::span<const Played::Failed> failed) const;
  void report_thrown(int env, const FailureNote& note, Lead lead);
  void start_and_complete(const Request& request);
  void complete(const Request& request);
  void collect_notes(const Request& request);
  void write_bundle(FailureReport& failure, const FailureNote& note, int env,
                    std::vector<std::vector<double>> actions);

  int lane_count_ = 1;
  uint64_t seed_ = 0;
  bool is_reset_ = false;
  Request in_flight_[kMaxGroups];
  bool busy_[kMaxGroups] = {};
  uint64_t steps_[kMaxGroups] = {};  // begun since reset
  ActionLog action_log_;
  CrashFolder crash_dir_;
  std::vector<FailureReport> failures_;
  bool out_of_service_ = false;  // an env could not be brought back though the policy wants it
  int dropped_ = 0;              // envs out of service under OnFailure::kDrop
  int restarts_ = 0;
  int bundles_ = 0;
};

}  // namespace flotilla
