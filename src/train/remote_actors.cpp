#include "flotilla/train/remote_actors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/endpoint.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/core/version.h"
#include "flotilla/env/python_env.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla {
namespace {

constexpr std::chrono::milliseconds kGlanceEvery{100};

// Calls in a row, after which who listens is given up where no actor is connected.
constexpr int kMostUnanswered = 10;

const Error kRunEnded(ErrorCode::kInterrupted, "the run has ended");

// A rollout by itself, to read columns into before they are believed.
class ScratchRollout {
 public:
  ScratchRollout(const EnvSpec& spec, int num_envs, int horizon)
      : rollout_(layout_, spec, num_envs, horizon), arena_(layout_, Arena::Backing::kPrivate) {
    rollout_.attach(arena_);
  }
  Rollout& operator*() { return rollout_; }

 private:
  ArenaLayout layout_;
  Rollout rollout_;
  Arena arena_;
};

}  // namespace

RemoteActors::RemoteActors(const RunConfig& run, const Actors::Ring& ring, const Policy& policy,
                           double gamma, Listener& listener)
    : run_(run),
      ring_(ring),
      policy_(policy),
      gamma_(gamma),
      listener_(listener),
      slots_(run.vec.groups),
      width_(run.vec.num_envs / run.vec.groups),
      places_(ring.size()) {
  for (Place& place : places_) {
    place.versions.resize(static_cast<size_t>(slots_));
    place.returns.resize(static_cast<size_t>(run.vec.num_envs));
  }
}

RemoteActors::~RemoteActors() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  bell_.notify_all();
  if (looking_.joinable()) looking_.join();
  for (Connection& connection : connections_) {
    Collective* pair = nullptr;
    {
      const std::lock_guard lock(mutex_);
      pair = connection.pair.get();
    }
    // Ends what its thread waits for as well.
    if (pair != nullptr && !connection.over) {
      pair->fail(kRunEnded);
    }
  }
  for (Connection& connection : connections_) connection.thread.join();
}

std::shared_ptr<const Message> RemoteActors::encoded_policy(int64_t version) const {
  const PolicyOrigin origin{.env = run_.spec.name, .env_config = run_.env_config.to_yaml()};
  return std::make_shared<const Message>(
      encode({.version = version, .model = encode_policy(policy_, run_.spec, origin)}));
}

// Not before: the policy, and what was learnt, may still be loaded.
void RemoteActors::begin() {
  latest_ = encoded_policy(version_);
  given_ = learnt_ * slots_;
  looking_ = std::thread([this] { look_for_actors(); });
}

Rollout& RemoteActors::next() {
  const uint64_t start = now_ns();
  if (!looking_.joinable()) begin();
  std::optional<Activity> waiting;
  std::unique_lock lock(mutex_);
  while (places_[place_of(learnt_)].complete < slots_) {
    if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted while it waited");
    if (seats_.empty() && nobody_comes_) throw *nobody_comes_;
    if (!seats_.empty()) {
      waiting.reset();
    } else if (!waiting) {
      const std::string at = endpoint_from(run_.cluster.listen, "cluster.listen").text();
      const std::string& env = run_.type.name;
      log::info(fmt::format("no actor is connected; start one by: {} actor {}{}", program_name(),
                            at, is_python_env(env) ? " --env " + env : ""));
      waiting.emplace("waiting for actors at " + at);
    }
    bell_.wait_for(lock, kGlanceEvery);
  }
  wait_s_ += seconds_since(start);
  return *ring_[place_of(learnt_)];
}

void RemoteActors::learnt() {
  auto made = encoded_policy(version_ + 1);
  {
    const std::lock_guard lock(mutex_);
    places_[place_of(learnt_)].complete = 0;
    ++learnt_;
    ++version_;
    latest_ = std::move(made);
  }
  bell_.notify_all();
}

PolicyLag RemoteActors::lag() const {
  const std::lock_guard lock(mutex_);
  return lag_of(places_[place_of(learnt_)].versions, version_);
}

const std::vector<double>& RemoteActors::returns() const {
  return places_[place_of(learnt_)].returns;
}

int RemoteActors::connected() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(seats_.size());
}

int64_t RemoteActors::take_failures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failures_, 0);
}

double RemoteActors::take_wait_s() { return std::exchange(wait_s_, 0); }

void RemoteActors::save(Writer& writer) const {
  writer.u64("remote_rollouts", static_cast<uint64_t>(learnt_));
}

void RemoteActors::load(Reader& reader) {
  const uint64_t learnt = reader.u64("remote_rollouts");
  if (learnt > INT32_MAX) throw Error(ErrorCode::kData, "more rollouts than there can be");
  learnt_ = version_ = static_cast<int64_t>(learnt);
}

void RemoteActors::look_for_actors() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    clear_away_ended();
    try {
      const int arrived = std::min(listener_.arrived(), seen_ + kMost);
      note_answer();
      while (seen_ < arrived) take_in();
    } catch (const std::exception& error) {
      note_no_answer(as_error(error));
    }
    lock.lock();
    bell_.wait_for(lock, kGlanceEvery, [this] { return stopping_; });
  }
}

void RemoteActors::take_in() {
  Connection& connection = connections_.emplace_back();
  connection.number = seen_ + 1;
  try {
    connection.thread = std::thread([this, &connection] { serve(connection); });
  } catch (...) {
    connections_.pop_back();
    throw;
  }
  ++seen_;
}

void RemoteActors::note_answer() {
  if (std::exchange(unanswered_, 0) == 0) return;
  log::info("actors can join again");
  const std::lock_guard lock(mutex_);
  nobody_comes_.reset();
}

// What keeps a listener from answering may pass.
void RemoteActors::note_no_answer(const Error& error) {
  if (++unanswered_ == 1) log::warn("no actor can join for now", {{"why", error.what()}});
  if (unanswered_ < kMostUnanswered) return;
  {
    const std::lock_guard lock(mutex_);
    nobody_comes_ = error;
  }
  bell_.notify_all();
}

void RemoteActors::clear_away_ended() {
  for (auto each = connections_.begin(); each != connections_.end();) {
    if (!each->over) {
      ++each;
      continue;
    }
    each->thread.join();
    each = connections_.erase(each);
  }
}

void RemoteActors::serve(Connection& connection) {
  const auto named = [&connection](std::string why) {
    return log::Fields{{"actor", std::to_string(connection.number)},
                       {"host", connection.host},
                       {"why", std::move(why)}};
  };
  try {
    auto pair = listener_.meet(connection.number);
    {
      const std::lock_guard lock(mutex_);
      connection.pair = std::move(pair);
    }
    if (latest() == nullptr) return connection.pair->fail(kRunEnded);
    if (welcome(connection)) {
      bell_.notify_all();
      if (!converse(connection)) return;
    }
  } catch (const std::exception& error) {
    if (latest() == nullptr) return;
    log::warn("an actor is lost", named(error.what()));
    // Where it is still there, it hears what was wrong.
    if (connection.pair != nullptr) connection.pair->fail(as_error(error));
  }
  {
    const std::lock_guard lock(mutex_);
    seats_.erase(connection.seat);
  }
  connection.over = true;
}

std::string RemoteActors::refusal(const ActorHello& hello, const Connection& connection) const {
  if (hello.version != kVersionLine) {
    return fmt::format("the learner is {}, this actor is {}: they have to be the same",
                       kVersionLine, hello.version);
  }
  return connection.seat < 0 ? fmt::format("the learner has {} actors already", kMost) : "";
}

// The smallest number that is free.
void RemoteActors::take_seat(Connection& connection) {
  const std::lock_guard lock(mutex_);
  int seat = 0;
  while (seats_.contains(seat)) ++seat;
  if (seat >= kMost) return;
  seats_.insert(seat);
  connection.seat = seat;
}

bool RemoteActors::welcome(Connection& connection) {
  Collective& pair = *connection.pair;
  const ActorHello hello = read_hello(broadcast_bytes(pair, {}, 1, kLargestHello));
  connection.host = printable(hello.host);
  if (hello.version == kVersionLine) take_seat(connection);
  ActorWelcome answer{.refusal = refusal(hello, connection)};
  if (answer.refusal.empty()) {
    const std::lock_guard lock(mutex_);
    const auto stream = stream_of(Purpose::kRemote, static_cast<uint64_t>(connection.number));
    answer.config = run_.config.to_yaml();
    answer.first_env = connection.seat * width_;
    answer.num_envs = width_;
    // Another one for whoever gets the same envs, and when the run goes on another day.
    answer.seed = Rng(run_.seed, stream, 4 * static_cast<uint64_t>(learnt_)).next_u64();
    answer.gamma = gamma_;
  }
  broadcast_bytes(pair, encode(answer));
  const std::string envs = fmt::format("{} to {}", answer.first_env, answer.first_env + width_ - 1);
  if (answer.refusal.empty()) {
    log::info(
        "an actor has joined",
        {{"actor", std::to_string(connection.number)}, {"host", connection.host}, {"envs", envs}});
    return true;
  }
  log::warn("an actor is refused", {{"actor", std::to_string(connection.number)},
                                    {"host", connection.host},
                                    {"why", printable(answer.refusal)}});
  pair.end();
  return false;
}

bool RemoteActors::converse(Connection& connection) {
  Collective& pair = *connection.pair;
  ScratchRollout columns(run_.spec, width_, run_.n_steps);
  const uint64_t most = largest_report(*columns, run_.spec);
  while (true) {
    const ActorReport report = read_report(broadcast_bytes(pair, {}, 1, most), *columns);
    if (report.state == ActorState::kLeaving) {
      log::info("an actor has left",
                {{"actor", std::to_string(connection.number)}, {"host", connection.host}});
      pair.end();
      return true;
    }
    if (report.state == ActorState::kColumns && !put(*columns, report)) return false;
    const auto policy = latest();
    if (policy == nullptr) return false;
    broadcast_bytes(pair, *policy);
  }
}

bool RemoteActors::put(const Rollout& columns, const ActorReport& report) {
  int64_t slot = 0;
  {
    std::unique_lock lock(mutex_);
    if (report.version > version_) {
      throw Error(ErrorCode::kData, "columns of a policy yet to come");
    }
    const auto ahead = static_cast<int64_t>(ring_.size());
    bell_.wait(lock, [&] { return stopping_ || given_ < (learnt_ + ahead) * slots_; });
    if (stopping_) return false;
    slot = given_++;
  }
  const int part = static_cast<int>(slot % slots_);
  const Span envs{part * width_, (part + 1) * width_};
  const size_t place = place_of(slot / slots_);
  ring_[place]->take_columns(columns, envs, part);
  {
    const std::lock_guard lock(mutex_);
    std::ranges::copy(report.returns, places_[place].returns.begin() + envs.begin);
    places_[place].versions[static_cast<size_t>(part)] = report.version;
    ++places_[place].complete;
    failures_ += report.failures;
  }
  bell_.notify_all();
  return true;
}

std::shared_ptr<const Message> RemoteActors::latest() {
  const std::lock_guard lock(mutex_);
  return stopping_ ? nullptr : latest_;
}

}  // namespace flotilla
