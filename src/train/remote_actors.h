// The learner's side of remote actors: processes, mostly on other machines, that play whole
// rollouts of some envs with a snapshot of the policy and send their columns.
//
// A rollout of the learner has places for the columns of `slots` actors; whoever sends some gets
// the next free place, so a slow actor holds up no other, and their number may change. One that is
// lost, or sends what cannot be, costs the columns it was at, and its env numbers are given to the
// next. Where the ring is full, an actor waits for its answer.
//
// Thread safety: one caller, the learner's thread. Each actor has a thread of its own here, and one
// more looks for those who come.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "flotilla/core/collective.h"
#include "flotilla/core/error.h"
#include "flotilla/train/actor_messages.h"
#include "flotilla/train/actors.h"
#include "flotilla/train/run_config.h"

namespace flotilla {

class RemoteActors {
 public:
  static constexpr int kMost = 1024;  // at once

  // All of them outlive it. `gamma`: of the returns by which rewards are scaled.
  RemoteActors(const RunConfig& run, const Actors::Ring& ring, const Policy& policy, double gamma,
               Listener& listener);
  // Tells the actors that it is the end.
  ~RemoteActors();
  RemoteActors(const RemoteActors&) = delete;
  RemoteActors& operator=(const RemoteActors&) = delete;

  // The next rollout, once it is complete, with a line that says how to start an actor while there
  // is none. Throws Error(kInterrupted) where the process is asked to stop before that, and what
  // the listener fails by where no actor is there and none can come.
  Rollout& next();
  // The learner is done with it: hands out the policy as it is now, and the rollout's place.
  void learnt();
  // Of the rollout that next() returned.
  PolicyLag lag() const;
  const std::vector<double>& returns() const;  // of its columns, before the first step

  int connected() const;
  int64_t take_failures();  // of envs, since the last call
  double take_wait_s();     // of the learner for rollouts, likewise

  // What rollouts the learner has had; those that wait for it are not kept.
  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  struct Connection {
    int number = 0;
    std::unique_ptr<Collective> pair = {};  // under the mutex until it is there
    std::string host = {};
    int seat = -1;
    std::atomic<bool> over{false};  // the actor has gone, before the run has ended
    std::thread thread = {};
  };
  // Of a rollout in the ring.
  struct Place {
    std::vector<int64_t> versions;  // that the columns were played with, by slot
    std::vector<double> returns;    // by env
    int complete = 0;               // slots
  };

  size_t place_of(int64_t rollout) const { return static_cast<size_t>(rollout) % ring_.size(); }
  void begin();
  void look_for_actors();
  void take_in();
  void note_answer();
  void note_no_answer(const Error& error);
  void clear_away_ended();
  void serve(Connection& connection);
  bool welcome(Connection& connection);
  // False: it is the end of the run.
  bool converse(Connection& connection);
  void take_seat(Connection& connection);
  std::string refusal(const ActorHello& hello, const Connection& connection) const;
  // Waits for a place. False: it is the end.
  bool put(const Rollout& columns, const ActorReport& report);
  // The policy as it is, once there is one; null: it is the end.
  std::shared_ptr<const Message> latest();
  std::shared_ptr<const Message> encoded_policy(int64_t version) const;

  const RunConfig& run_;
  const Actors::Ring& ring_;
  const Policy& policy_;
  const double gamma_;
  Listener& listener_;
  const int slots_, width_;  // of a rollout, envs of each

  mutable std::mutex mutex_;
  std::condition_variable bell_;
  bool stopping_ = false;
  std::vector<Place> places_;
  int64_t learnt_ = 0;   // rollouts that the learner is done with
  int64_t version_ = 0;  // updates that were handed out
  int64_t given_ = 0;    // slots, from the start of the run
  std::shared_ptr<const Message> latest_;
  std::set<int> seats_;  // that actors have
  int64_t failures_ = 0;
  std::optional<Error> nobody_comes_;  // the listener does not answer any more

  double wait_s_ = 0;  // the learner's own
  std::list<Connection> connections_;
  int seen_ = 0, unanswered_ = 0;  // the looking thread's
  std::thread looking_;
};

}  // namespace flotilla
