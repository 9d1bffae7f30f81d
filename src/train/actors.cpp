#include "flotilla/train/actors.h"

#include <algorithm>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// A thread goes on with the same actor for so long: a job of the learner waits no longer, and it is
// much more than choosing an actor takes.
constexpr uint64_t kTurnNs = 300'000;

double seconds(uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

Schema AsyncOptions::schema() {
  const AsyncOptions d;
  Schema schema;
  schema
      .choice("schedule", "free", {"free", "fixed"},
              "of actors: with the latest policy, or with that of so many updates before")
      .integer("lag", d.lag, {0, 64}, "updates before, of the fixed schedule")
      .integer("ring", d.ring, {1, 65},
               "rollouts that actors can be ahead, the learner's included");
  return schema;
}

AsyncOptions AsyncOptions::from(const Config& config, const std::string& prefix) {
  AsyncOptions o;
  o.fixed = config.get_text(prefix + "schedule") == "fixed";
  o.lag = static_cast<int>(config.get_integer(prefix + "lag"));
  o.ring = o.fixed ? o.lag + 1 : static_cast<int>(config.get_integer(prefix + "ring"));
  return o;
}

Actors::Actors(VecEnv& vec, const Ring& ring, const Rollout& seat, const Policy& policy,
               ThreadPool& pool, const BatchNeeds& needs, const AsyncOptions& options,
               uint64_t seed)
    : vec_(vec),
      ring_(ring),
      seat_(seat),
      policy_(policy),
      pool_(pool),
      acting_(vec, needs, seed),
      options_(options),
      actors_(static_cast<size_t>(vec.groups())),
      places_(ring.size()),
      snapshots_(options.fixed ? static_cast<size_t>(options.lag) + 1 : 1),
      bell_(vec.step_bell() != nullptr ? *vec.step_bell() : own_bell_),
      clocks_(static_cast<size_t>(pool.threads())),
      counted_(clocks_.size()) {
  for (size_t i = 0; i < actors_.size(); ++i) actors_[i].group = static_cast<int>(i);
  for (Place& place : places_) place.versions.resize(actors_.size());
}

Actors::~Actors() { pool_.set_spare(nullptr, nullptr); }

void Actors::reset(uint64_t env_seed) { vec_.reset(env_seed, first_view()); }

uint64_t Actors::steps() const {
  return first_step_ + static_cast<uint64_t>(learnt_) * static_cast<uint64_t>(rollout(0).horizon());
}

// Nobody works: the policy may have been replaced.
void Actors::proceed() {
  if (learner_ != nullptr) {
    learner_->begin();
  } else {
    snapshot(version_) = policy_.snapshot();
  }
  running_ = true;
  for (Actor& actor : actors_) actor.since_ns = now_ns();
  pool_.set_spare([](void* context, int part) { return static_cast<Actors*>(context)->work(part); },
                  this, vec_.step_bell());
}

// Rollouts behind the last update are no work for a free schedule. A fixed one has them collected
// with the policies it says, which a resumed run does not have.
void Actors::end_after(int64_t wanted) {
  const bool all = options_.fixed || wanted > INT64_MAX - learnt_;
  const int64_t end = all ? INT64_MAX : learnt_ + wanted;
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    more = std::exchange(end_, end) < end;
  }
  if (more) pool_.wake();
}

Rollout& Actors::next(int64_t wanted) {
  const uint64_t start = now_ns();
  const Clock before = clocks_[0];
  const auto actors = static_cast<int>(actors_.size());
  if (!running_) proceed();
  end_after(wanted);
  while (true) {
    const uint32_t heard = bell_.heard();
    throw_failure();
    if (places_[place_of(learnt_)].complete.load(std::memory_order_acquire) == actors) break;
    if (!work(0)) wait(heard);
  }
  const uint64_t worked = clocks_[0].total_ns() - before.total_ns();
  wait_ns_ += std::max(now_ns() - start, worked) - worked;
  return rollout(learnt_);
}

void Actors::throw_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Actors::wait(uint32_t heard) {
  constexpr double kLookEvery = 0.005;  // at workers: the price of a death, not of a step
  const bool workers = &bell_ != &own_bell_;
  const Deadline deadline = workers ? Deadline::after(kLookEvery) : Deadline::never();
  if (!bell_.wait(heard, patience_, deadline)) vec_.look_after();
}

PolicyLag lag_of(std::span<const int64_t> versions, int64_t now) {
  PolicyLag lag;
  for (const int64_t version : versions) {
    lag.mean += static_cast<double>(now - version) / static_cast<double>(versions.size());
    lag.most = std::max(lag.most, now - version);
    const auto last = static_cast<int64_t>(PolicyLag::kShares) - 1;
    lag.shares[static_cast<size_t>(std::min(now - version, last))] +=
        1 / static_cast<double>(versions.size());
  }
  return lag;
}

PolicyLag Actors::lag() const { return lag_of(places_[place_of(learnt_)].versions, version_); }

void Actors::learnt() {
  auto made = learner_ == nullptr ? policy_.snapshot() : nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<Waiting>& before = waiting_;
    before.clear();
    for (const Actor& actor : actors_) before.push_back(waits(actor));
    places_[place_of(learnt_)].complete.store(0, std::memory_order_relaxed);
    ++learnt_;
    ++version_;
    std::swap(snapshot(version_), made);
    const uint64_t now = now_ns();
    for (size_t i = 0; i < actors_.size(); ++i) {
      if (before[i] == Waiting::kNot || waits(actors_[i]) != Waiting::kNot) continue;
      double& waited = before[i] == Waiting::kForSlot ? times_.slot_s : times_.weights_s;
      waited += seconds(now - std::exchange(actors_[i].since_ns, now));
    }
  }
  pool_.wake();
}

Actors::Waiting Actors::waits(const Actor& actor) const {
  if (actor.taken || actor.begun) return Waiting::kNot;
  const bool late = options_.fixed && actor.rollout - options_.lag > version_;
  if (late) return Waiting::kForWeights;
  const bool full = actor.rollout >= learnt_ + static_cast<int64_t>(ring_.size());
  return full ? Waiting::kForSlot : Waiting::kNot;
}

bool Actors::may_go_on(const Actor& actor) const {
  if (actor.taken || failure_) return false;
  if (actor.stepping) return vec_.ready(actor.group);
  if (actor.begun) return true;
  return actor.rollout < end_ && waits(actor) == Waiting::kNot;
}

// The one that is furthest behind.
Actors::Actor* Actors::take() {
  const uint64_t start = now_ns();
  const std::lock_guard lock(mutex_);
  Actor* chosen = nullptr;
  for (Actor& actor : actors_) {
    if (!may_go_on(actor)) continue;
    const bool behind = chosen == nullptr || std::pair(actor.rollout, actor.step) <
                                                 std::pair(chosen->rollout, chosen->step);
    if (behind) chosen = &actor;
  }
  if (chosen == nullptr) return nullptr;
  chosen->taken = true;
  double& waited = chosen->stepping ? times_.step_s : times_.thread_s;
  if (chosen->since_ns > 0) waited += seconds(now_ns() - chosen->since_ns);
  if (!chosen->begun) {
    begin_rollout(*chosen);
    times_.hand_over_s = std::max(times_.hand_over_s, seconds(now_ns() - start));
  }
  return chosen;
}

void Actors::put_back(Actor& actor, int part) {
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    actor.taken = false;
    actor.since_ns = now_ns();
    const Clock now = clocks_[static_cast<size_t>(part)];
    const Clock before = std::exchange(counted_[static_cast<size_t>(part)], now);
    times_.act_s += seconds(now.act_ns - before.act_ns);
    times_.step_s += seconds(now.step_ns - before.step_ns);
    times_.learn_s += seconds(now.learn_ns - before.learn_ns);
    // This thread takes one; are there others?
    more = std::ranges::count_if(actors_, [&](const Actor& a) { return may_go_on(a); }) > 1;
    if (pausing_) bell_.ring();  // the learner waits for all to be put back
  }
  if (more) pool_.wake();
}

bool Actors::work(int part) {
  Actor* actor = take();
  if (actor == nullptr) return false;
  try {
    const uint64_t end = now_ns() + kTurnNs;
    if (learner_ != nullptr) actor->policy = &learner_->current(part);
    // One that learns keeps the thread for a whole rollout: its policy is that thread's.
    while (step(*actor, part) && actor->step != 0) {
      if (learner_ == nullptr && now_ns() >= end) break;
    }
  } catch (...) {
    fail(std::current_exception());
  }
  put_back(*actor, part);
  return true;
}

void Actors::fail(std::exception_ptr failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
  }
  bell_.ring();
}

// The mutex is held.
void Actors::begin_rollout(Actor& actor) {
  const int64_t version =
      options_.fixed ? std::max<int64_t>(0, actor.rollout - options_.lag) : version_;
  actor.begun = true;
  actor.snapshot = snapshot(version);
  actor.policy = actor.snapshot.get();
  places_[place_of(actor.rollout)].versions[static_cast<size_t>(actor.group)] = version;
}

void Actors::act(Actor& actor, int part) {
  const Span envs = vec_.group(actor.group);
  Rollout& own = rollout(actor.rollout);
  if (actor.step == 0) {
    own.carry_over(actor.seated ? seat_ : rollout(actor.rollout - 1), envs);
    actor.seated = false;
    own.cuts(actor.group).clear();
  }
  const uint64_t first_step =
      first_step_ + static_cast<uint64_t>(actor.rollout) * static_cast<uint64_t>(own.horizon());
  acting_.act(*actor.policy, policy_part(part), own, envs, actor.step, first_step, 0);
}

bool Actors::step(Actor& actor, int part) {
  Rollout& own = rollout(actor.rollout);
  Clock& clock = clocks_[static_cast<size_t>(part)];
  uint64_t start = now_ns();
  if (!actor.stepping) {
    act(actor, part);
    const uint64_t acted = now_ns();
    clock.act_ns += acted - start;
    start = acted;
    vec_.begin(actor.group, {own.actions(actor.step)}, own.view(actor.step));
    actor.stepping = true;
    if (!vec_.ready(actor.group)) return false;
  }
  actor.stepping = false;
  vec_.wait(actor.group);
  own.harvest(actor.step, vec_.group(actor.group), actor.group);
  clock.step_ns += now_ns() - start;
  if (++actor.step == own.horizon()) end_rollout(actor, part);
  return true;
}

void Actors::end_rollout(Actor& actor, int part) {
  Rollout& own = rollout(actor.rollout);
  const Span envs = vec_.group(actor.group);
  const BatchNeeds& needs = acting_.needs();
  if (needs.values) acting_.value_last(*actor.policy, policy_part(part), own, envs);
  if (needs.cut_values) {
    acting_.value_cuts(*actor.policy, policy_part(part), own, actor.group, actor.values);
  }
  if (learner_ != nullptr) {
    const uint64_t start = now_ns();
    learner_->learn(part, own.batch(needs, own.reward, 0), envs);
    clocks_[static_cast<size_t>(part)].learn_ns += now_ns() - start;
  }
  const std::lock_guard lock(mutex_);
  Place& place = places_[place_of(actor.rollout)];
  ++actor.rollout;
  actor.step = 0;
  actor.begun = false;
  const int complete = place.complete.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (complete == static_cast<int>(actors_.size())) bell_.ring();
}

bool Actors::all_at_end() {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(actors_, [this](const Actor& actor) {
    return !actor.taken && !actor.begun && actor.rollout >= end_;
  });
}

void Actors::pause() {
  if (!running_) return;
  {
    const std::lock_guard lock(mutex_);
    pausing_ = true;
    end_ = options_.fixed ? learnt_ + static_cast<int64_t>(ring_.size()) : 0;
    for (const Actor& actor : actors_) {
      end_ = std::max(end_, actor.rollout + (actor.begun ? 1 : 0));
    }
  }
  while (true) {
    const uint32_t heard = bell_.heard();
    throw_failure();
    if (all_at_end()) break;
    if (!work(0)) wait(heard);
  }
  pool_.set_spare(nullptr, nullptr);
  running_ = pausing_ = false;
  if (learner_ != nullptr) learner_->end();
}

void Actors::save(Writer& writer) const {
  const bool kept = options_.fixed || learner_ != nullptr;
  const int64_t learnt = kept ? learnt_ : end_;
  writer.u64("first_step", first_step_);
  writer.u64("learnt", static_cast<uint64_t>(learnt));
  writer.u64("collected", static_cast<uint64_t>(end_));
  for (int64_t number = learnt; number < end_; ++number) {
    const Place& place = places_[place_of(number)];
    writer.u64("version", static_cast<uint64_t>(std::ranges::min(place.versions)));
    rollout(number).save(writer);
  }
}

void Actors::load(Reader& reader) {
  pause();
  const uint64_t first_step = reader.u64("first_step");
  const uint64_t learnt = reader.u64("learnt"), collected = reader.u64("collected");
  if (learnt > INT64_MAX / 2 || collected < learnt || collected > learnt + ring_.size()) {
    throw Error(ErrorCode::kData, "rollouts that this ring cannot hold");
  }
  first_step_ = first_step;
  learnt_ = version_ = static_cast<int64_t>(learnt);
  end_ = static_cast<int64_t>(collected);
  for (Place& place : places_) place.complete = 0;
  for (int64_t number = learnt_; number < end_; ++number) {
    Place& place = places_[place_of(number)];
    const uint64_t version = reader.u64("version");
    if (version > learnt) throw Error(ErrorCode::kData, "a rollout of a policy yet to come");
    std::ranges::fill(place.versions, static_cast<int64_t>(version));
    rollout(number).load(reader);
    place.complete = static_cast<int>(actors_.size());
  }
  for (Actor& actor : actors_) {
    actor.since_ns = 0;
    actor.rollout = end_;
    actor.step = 0;
    actor.seated = true;
  }
}

Actors::Times Actors::take_times() {
  const Clock now = clocks_[0], before = std::exchange(taken_, now);
  return {.act_s = seconds(now.act_ns - before.act_ns),
          .step_s = seconds(now.step_ns - before.step_ns),
          .wait_s = seconds(std::exchange(wait_ns_, 0)),
          .learn_s = seconds(now.learn_ns - before.learn_ns)};
}

ActorTimes Actors::take_actor_times() {
  const std::lock_guard lock(mutex_);
  return std::exchange(times_, {});
}

}  // namespace flotilla
