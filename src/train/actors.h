// Actors: parts of the envs that act and step ahead of the learner, each with a snapshot of the
// policy. Rollouts lie in a ring. An actor writes its envs' columns of one rollout after the other,
// and waits where the learner is not yet done with the next one; a rollout is complete when every
// actor has written its columns. Nothing is copied or sent, nor dropped but by save().
//
// Threads have no role: those of the pool go on with some actor whenever they have no job, and so
// does the learner's while it waits for a rollout. So as many threads compute as the pool has, and
// none waits while there is anything to do.
//
// Schedules. Free: a rollout is begun with the latest snapshot, whichever that is. Fixed: rollout
// u is collected with the policy after max(0, u - lag) updates; then parameters do not depend on
// threads, actors or timing.
//
// Thread safety: one caller, the learner's thread, which is also the one that gives the pool jobs.
// Allocates: nothing per step but for what ended episodes leave.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "flotilla/core/bell.h"
#include "flotilla/core/serial.h"
#include "flotilla/core/thread_pool.h"
#include "flotilla/nn/policy.h"
#include "flotilla/train/acting.h"
#include "flotilla/train/rollout.h"

namespace flotilla {

struct AsyncOptions {
  bool fixed = false;
  int lag = 1;   // of the fixed schedule
  int ring = 2;  // rollouts

  static Schema schema();
  static AsyncOptions from(const Config& config, const std::string& prefix);
};

// Updates that were made between a rollout's actions and its own update; by actor.
struct PolicyLag {
  static constexpr size_t kShares = 5;

  double mean = 0;
  int64_t most = 0;
  std::array<double, kShares> shares{};  // of the actors, by lag; the last: that or more
};

// Of columns that were played with these versions of the policy, when `now` is learnt.
PolicyLag lag_of(std::span<const int64_t> versions, int64_t now);

// What all actors did with their time, in seconds.
struct ActorTimes {
  double act_s = 0, step_s = 0, learn_s = 0;
  double slot_s = 0;       // waited for a rollout of the ring that the learner is done with
  double weights_s = 0;    // waited for the policy that a fixed schedule says
  double thread_s = 0;     // waited for a thread
  double hand_over_s = 0;  // the longest that one took to get its policy
};

class Actors {
 public:
  using Ring = std::vector<std::unique_ptr<Rollout>>;

  // All of them outlive it. `seat`: a rollout of one step, where envs show how they begin.
  // REQUIRES: a VecEnv whose groups may step at once.
  Actors(VecEnv& vec, const Ring& ring, const Rollout& seat, const Policy& policy, ThreadPool& pool,
         const BatchNeeds& needs, const AsyncOptions& options, uint64_t seed);
  // Actors learn by themselves from now on, each when it is done with its columns of a rollout, and
  // the learner gets it to look at. Before next(); `learner` outlives it.
  void learn_by(ActorLearner* learner) { learner_ = learner; }
  ~Actors();
  Actors(const Actors&) = delete;
  Actors& operator=(const Actors&) = delete;

  // Resets the envs.
  void reset(uint64_t env_seed);
  // Steps of each env that the learner is done with, those of an earlier phase included: what is
  // drawn depends on their number.
  uint64_t steps() const;
  void set_first_step(uint64_t steps) { first_step_ = steps; }
  // The next rollout, once it is complete. At most `wanted` will be asked for, this one included:
  // of a free schedule no others are begun. Throws what an actor threw.
  Rollout& next(int64_t wanted);
  // The learner is done with it: hands out the policy as it is now, and the rollout's place.
  void learnt();
  // Of the rollout that next() returned.
  PolicyLag lag() const;

  // Brings all actors to the end of the same rollout and stops them there, until next().
  void pause();
  // Of paused actors. What waits for the learner is saved where the schedule is fixed, or where
  // actors have learnt from it themselves; else others are collected after load(), for a free
  // schedule is not repeatable anyway. load() comes before that of the envs, which writes to
  // first_view(): what is still to be learnt from stays as it is, also where new episodes begin.
  void save(Writer& writer) const;
  void load(Reader& reader);
  StepView first_view() const { return seat_.view(0); }

  // Seconds of the calling thread since the last call.
  struct Times {
    double act_s = 0, step_s = 0, wait_s = 0, learn_s = 0;
  };
  Times take_times();
  // Of all actors since the last call, but for what a thread is in.
  ActorTimes take_actor_times();

 private:
  struct Actor {
    int group = 0;
    int64_t rollout = 0;    // that it is in, counted from the start of the run
    int step = 0;           // of it
    bool begun = false;     // that rollout
    bool taken = false;     // a thread goes on with it
    bool stepping = false;  // a worker process does
    bool seated = true;     // its next observations are those of the seat
    uint64_t since_ns = 0;  // without a thread
    std::shared_ptr<const ActingPolicy> snapshot;
    const ActingPolicy* policy = nullptr;  // that snapshot, or the one of the thread that learns
    std::vector<float> values;
  };
  // Of a rollout in the ring.
  struct Place {
    std::vector<int64_t> versions;  // that each actor acted with
    std::atomic<int> complete{0};   // columns of actors
  };
  struct alignas(64) Clock {
    uint64_t act_ns = 0, step_ns = 0, learn_ns = 0;
    uint64_t total_ns() const { return act_ns + step_ns + learn_ns; }
  };
  enum class Waiting : uint8_t { kNot, kForSlot, kForWeights };

  size_t place_of(int64_t rollout) const { return static_cast<size_t>(rollout) % ring_.size(); }
  Rollout& rollout(int64_t number) const { return *ring_[place_of(number)]; }
  Waiting waits(const Actor& actor) const;
  bool may_go_on(const Actor& actor) const;
  Actor* take();
  void put_back(Actor& actor, int part);
  // Goes on with some actor for a short while. False: none can go on.
  bool work(int part);
  // Waits until an actor has become able to, or a rollout may be complete. `heard`: of the bell,
  // before that was looked at.
  void wait(uint32_t heard);
  void throw_failure();
  bool all_at_end();
  void begin_rollout(Actor& actor);
  // False: a worker process is at it.
  bool step(Actor& actor, int part);
  void act(Actor& actor, int part);
  void end_rollout(Actor& actor, int part);
  // A thread's own policy has one part.
  int policy_part(int part) const { return learner_ == nullptr ? part : 0; }
  void fail(std::exception_ptr failure);
  void proceed();
  void end_after(int64_t wanted);
  std::shared_ptr<const ActingPolicy>& snapshot(int64_t version) {
    return snapshots_[static_cast<size_t>(version) % snapshots_.size()];
  }

  VecEnv& vec_;
  const Ring& ring_;
  const Rollout& seat_;
  const Policy& policy_;
  ThreadPool& pool_;
  const Acting acting_;
  const AsyncOptions options_;
  ActorLearner* learner_ = nullptr;
  uint64_t first_step_ = 0;  // of each env, that rollout 0 begins with

  // All that actors are chosen by; held for moments.
  mutable std::mutex mutex_;
  std::vector<Actor> actors_;
  std::vector<Place> places_;
  int64_t learnt_ = 0;   // rollouts that the learner is done with
  int64_t version_ = 0;  // updates that were handed out
  int64_t end_ = 0;      // no actor begins this rollout
  bool pausing_ = false;
  std::exception_ptr failure_;  // the first
  bool running_ = false;        // known to the learner's thread alone
  std::vector<std::shared_ptr<const ActingPolicy>> snapshots_;  // the latest, by version

  Bell own_bell_;
  Bell& bell_;  // rung for the learner, by workers where there are some
  Patience patience_;
  uint64_t wait_ns_ = 0;
  std::vector<Clock> clocks_;     // by thread
  std::vector<Clock> counted_;    // of them in times_
  Clock taken_;                   // of the first, by take_times()
  ActorTimes times_;              // under the mutex
  std::vector<Waiting> waiting_;  // room of learnt()
};

}  // namespace flotilla
