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

Actors::Actors(VecEnv& vec, const Ring& ring, const Policy& policy, ThreadPool& pool,
               const BatchNeeds& needs, const AsyncOptions& options, uint64_t seed)
    : vec_(vec),
      ring_(ring),
      policy_(policy),
      pool_(pool),
      acting_(vec, needs, seed),
      options_(options),
      actors_(static_cast<size_t>(vec.groups())),
      places_(ring.size()),
      snapshots_(options.fixed ? static_cast<size_t>(options.lag) + 1 : 1),
      clocks_(static_cast<size_t>(pool.threads())) {
  for (size_t i = 0; i < actors_.size(); ++i) actors_[i].group = static_cast<int>(i);
  for (Place& place : places_) place.versions.resize(actors_.size());
}

Actors::~Actors() { pool_.set_spare(nullptr, nullptr); }

void Actors::reset(uint64_t env_seed) { vec_.reset(env_seed, ring_.front()->first_view()); }

uint64_t Actors::steps() const {
  return first_step_ + static_cast<uint64_t>(learnt_) * static_cast<uint64_t>(rollout(0).horizon());
}

// Nobody works: the policy may have been replaced.
void Actors::proceed() {
  snapshot(version_) = policy_.snapshot();
  end_ = INT64_MAX;
  running_ = true;
  pool_.set_spare([](void* context, int part) { return static_cast<Actors*>(context)->work(part); },
                  this);
}

Rollout& Actors::next() {
  const uint64_t start = now_ns();
  const Clock before = clocks_[0];
  const auto actors = static_cast<int>(actors_.size());
  if (!running_) proceed();
  while (true) {
    const uint32_t heard = bell_.heard();
    {
      const std::lock_guard lock(mutex_);
      if (failure_) std::rethrow_exception(failure_);
    }
    if (places_[place_of(learnt_)].complete.load(std::memory_order_acquire) == actors) break;
    if (!work(0)) bell_.wait(heard, patience_, Deadline::never());
  }
  const uint64_t worked = clocks_[0].act_ns - before.act_ns + clocks_[0].step_ns - before.step_ns;
  wait_ns_ += std::max(now_ns() - start, worked) - worked;
  return rollout(learnt_);
}

PolicyLag Actors::lag() const {
  PolicyLag lag;
  for (const int64_t version : places_[place_of(learnt_)].versions) {
    lag.mean += static_cast<double>(version_ - version) / static_cast<double>(actors_.size());
    lag.most = std::max(lag.most, version_ - version);
  }
  return lag;
}

void Actors::learnt() {
  auto made = policy_.snapshot();
  {
    const std::lock_guard lock(mutex_);
    places_[place_of(learnt_)].complete.store(0, std::memory_order_relaxed);
    ++learnt_;
    ++version_;
    std::swap(snapshot(version_), made);
  }
  pool_.wake();
}

bool Actors::may_go_on(const Actor& actor) const {
  if (actor.taken || failure_) return false;
  if (actor.step > 0) return true;
  if (actor.rollout >= end_ || actor.rollout >= learnt_ + static_cast<int64_t>(ring_.size())) {
    return false;
  }
  return !options_.fixed || actor.rollout - options_.lag <= version_;
}

// The one that is furthest behind.
Actors::Actor* Actors::take() {
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
  if (chosen->step == 0) begin_rollout(*chosen);
  return chosen;
}

void Actors::put_back(Actor& actor) {
  bool more = false;
  {
    const std::lock_guard lock(mutex_);
    actor.taken = false;
    // This thread takes one; are there others?
    more = std::ranges::count_if(actors_, [&](const Actor& a) { return may_go_on(a); }) > 1;
  }
  if (more) pool_.wake();
}

bool Actors::work(int part) {
  Actor* actor = take();
  if (actor == nullptr) return false;
  try {
    const uint64_t end = now_ns() + kTurnNs;
    do {
      step(*actor, part);
    } while (actor->step != 0 && now_ns() < end);
  } catch (...) {
    fail(std::current_exception());
  }
  put_back(*actor);
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
  actor.policy = snapshot(version);
  places_[place_of(actor.rollout)].versions[static_cast<size_t>(actor.group)] = version;
}

void Actors::step(Actor& actor, int part) {
  const Span envs = vec_.group(actor.group);
  Rollout& own = rollout(actor.rollout);
  Clock& clock = clocks_[static_cast<size_t>(part)];
  const uint64_t start = now_ns();
  if (actor.step == 0) {
    if (!actor.seated) own.carry_over(rollout(actor.rollout - 1), envs);
    actor.seated = false;
    own.cuts(actor.group).clear();
  }
  const uint64_t first_step =
      first_step_ + static_cast<uint64_t>(actor.rollout) * static_cast<uint64_t>(own.horizon());
  acting_.act(*actor.policy, part, own, envs, actor.step, first_step, 0);
  const uint64_t acted = now_ns();
  clock.act_ns += acted - start;
  vec_.begin(actor.group, {own.actions(actor.step)}, own.view(actor.step));
  vec_.wait(actor.group);
  own.harvest(actor.step, envs, actor.group);
  clock.step_ns += now_ns() - acted;
  if (++actor.step == own.horizon()) end_rollout(actor, part);
}

void Actors::end_rollout(Actor& actor, int part) {
  Rollout& own = rollout(actor.rollout);
  const BatchNeeds& needs = acting_.needs();
  if (needs.values) acting_.value_last(*actor.policy, part, own, vec_.group(actor.group));
  if (needs.cut_values) {
    acting_.value_cuts(*actor.policy, part, own, actor.group, actor.values);
  }
  const std::lock_guard lock(mutex_);
  Place& place = places_[place_of(actor.rollout)];
  ++actor.rollout;
  actor.step = 0;
  const int complete = place.complete.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (complete == static_cast<int>(actors_.size())) bell_.ring();
}

void Actors::pause() {
  if (!running_) return;
  pool_.set_spare(nullptr, nullptr);
  running_ = false;
  int64_t end = 0;
  if (options_.fixed) {
    end = learnt_ + static_cast<int64_t>(ring_.size());
  } else {
    for (const Actor& actor : actors_) {
      end = std::max(end, actor.rollout + (actor.step > 0 ? 1 : 0));
    }
  }
  end_ = end;
  pool_.run([this](int part) {
    while (work(part)) {
    }
  });
  if (failure_) std::rethrow_exception(failure_);
}

void Actors::save(Writer& writer) const {
  writer.u64("first_step", first_step_);
  writer.u64("learnt", static_cast<uint64_t>(learnt_));
  writer.u64("collected", static_cast<uint64_t>(end_));
  for (int64_t number = learnt_; number < end_; ++number) {
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
    actor.rollout = end_;
    actor.step = 0;
    actor.seated = end_ == learnt_;
  }
}

// The last rollout that was collected has what comes behind it.
StepView Actors::load_view() const {
  if (end_ == learnt_) return rollout(end_).first_view();
  const Rollout& last = rollout(end_ - 1);
  return last.view(last.horizon() - 1);
}

Actors::Times Actors::take_times() {
  const Times times{.act_s = static_cast<double>(clocks_[0].act_ns) * 1e-9,
                    .step_s = static_cast<double>(clocks_[0].step_ns) * 1e-9,
                    .wait_s = static_cast<double>(wait_ns_) * 1e-9};
  clocks_[0] = {};
  wait_ns_ = 0;
  return times;
}

}  // namespace flotilla
