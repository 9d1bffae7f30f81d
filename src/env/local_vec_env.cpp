#include "flotilla/env/local_vec_env.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "flotilla/core/clock.h"

namespace flotilla {
namespace {

constexpr int kStepsPerCut = 32;
// Envs a share is made of, and how many each must have on average to be worth cutting anew.
constexpr int kShareUnit = 16, kWorthCutting = 128;
// Envs that play alone are dealt in pieces of at most so many, for which a policy acts at once, and
// which are halved where a thread has nothing to do, but not below the least.
constexpr int kLeastPiece = 16, kMostPiece = 64;
// Of waiting, which costs some microseconds. Odd, so that each of several groups has its turn.
constexpr int kStepsPerMeasurement = 127;

}  // namespace

// Envs that changed hands while they played, by the number of the item that they are.
class LocalVecEnv::HandedOver {
 public:
  explicit HandedOver(int first) : first_(first) {}

  int add(const Playing& playing) {
    const std::lock_guard lock(mutex_);
    all_.push_back(playing);
    return first_ + static_cast<int>(all_.size()) - 1;
  }
  Playing operator[](int item) {
    const std::lock_guard lock(mutex_);
    return all_[static_cast<size_t>(item - first_)];
  }

 private:
  const int first_;
  std::mutex mutex_;
  std::vector<Playing> all_;
};

LocalVecEnv::LocalVecEnv(const EnvType& type, const Config& config, const VecOptions& options,
                         const ArenaLayout& layout)
    : SlotVecEnv(type, config, options),
      pool_(options.backend == Backend::kThreads ? options.threads : 1, options.pin) {
  allocate(layout, Arena::Backing::kPrivate, pool_.threads(), 1);
  std::vector<const Lane*> watched;
  for (int i = 0; i < lanes(); ++i) {
    for (int g = 0; g < groups(); ++g) watched.push_back(&lane(i, g));
  }
  for (int g = 0; g < groups(); ++g) {
    Job& job = jobs_[g];
    job.owner = this;
    job.request.group = g;
    job.shares.reserve(static_cast<size_t>(lanes()));
    cut(job);
  }
  watchdog_ =
      std::make_unique<Watchdog>(watched, env_name_, options.first_env, options.step_timeout_s);
  stage_ = loop_->make_stage(pool_);
}

void LocalVecEnv::set_episode_observer(EpisodeObserver observer) {
  check_idle("set_episode_observer");
  observer_ = std::move(observer);
}

void LocalVecEnv::start_request(const Request& request) {
  Job& job = jobs_[request.group];
  job.request = request;
  job.prepares = stage_ != nullptr && request.work == Work::kStep;
  if (has_threads_beyond_cores()) choose_hands(job);
  job.ticket = start_parts(job);
}

void LocalVecEnv::choose_hands(Job& job) {
  job.measured = job.request.work == Work::kStep && until_measured_-- == 0;
  if (job.measured) until_measured_ = kStepsPerMeasurement - 1;
  // What makes an env is not measured, and may well wait.
  const Hands hands = job.request.work == Work::kReset ? Hands::kAll : hands_;
  if (job.hands == hands) return;
  job.hands = hands;
  cut(job);
}

void LocalVecEnv::cut(Job& job) const {
  const int parts = pool_.threads(job.hands);
  job.shares.assign(static_cast<size_t>(parts), {});
  for (int i = 0; i < parts; ++i) {
    job.shares[static_cast<size_t>(i)].envs = lane_span(group(job.request.group), 0, parts, i);
  }
  job.steps = 0;
}

int LocalVecEnv::start_parts(Job& job) {
  return pool_.start(
      [](void* context, int part) {
        Job& job = *static_cast<Job*>(context);
        job.owner->run_part(job, part);
      },
      &job, job.hands);
}

void LocalVecEnv::finish_request(const Request& request) {
  Job& job = jobs_[request.group];
  pool_.finish(job.ticket);
  if (job.prepares) {
    const uint64_t start = now_ns(), waited = pool_.waited_ns();
    stage_->run(group(request.group), bank(0));
    stage_time_.total_s += seconds_since(start);
    stage_time_.waited_s += static_cast<double>(pool_.waited_ns() - waited) * 1e-9;
    job.prepares = false;
    job.request.actor = {};  // it has acted
    pool_.finish(start_parts(job));
  }
  if (job.measured) settle_waiting();
  const auto parts = static_cast<int>(job.shares.size());
  const bool worth_it = parts > 1 && group(request.group).size() >= kWorthCutting * parts;
  if (worth_it && ++job.steps == kStepsPerCut) cut_anew(job);
}

void LocalVecEnv::cut_anew(Job& job) const {
  // The least time of a step tells a core's speed; a mean would tell of interruptions too.
  const auto speed = [](const Share& share) {
    return share.envs.size() / static_cast<double>(std::max<uint64_t>(share.least_ns, 1));
  };
  double sum = 0;
  for (const Share& share : job.shares) sum += speed(share);
  const Span all = group(job.request.group);
  double passed = 0;
  int begin = all.begin;
  for (size_t i = 0; i < job.shares.size(); ++i) {
    Share& share = job.shares[i];
    passed += speed(share);
    const double fair = all.begin + all.size() * passed / sum;
    // Half of the way, in whole units, and nobody is left without work.
    const double half_way = (share.envs.end + fair) / 2;
    const auto parts_left = static_cast<int>(job.shares.size() - 1 - i);
    int end =
        all.begin + static_cast<int>(std::lround((half_way - all.begin) / kShareUnit)) * kShareUnit;
    end = std::clamp(end, begin + kShareUnit, all.end - parts_left * kShareUnit);
    share = {.envs = {begin, parts_left == 0 ? all.end : end}, .least_ns = UINT64_MAX};
    begin = share.envs.end;
  }
  job.steps = 0;
}

LoopCall LocalVecEnv::call_in(int part, int group) const {
  return {.in = bank(0),
          .out = bank(0),
          .actions = {},
          .view = {},
          .notes = notes(),
          .lane = &lane(part, group),
          .on_failure = options_.on_failure,
          .first_env = options_.first_env,
          .replicas = options_.replicas,
          .observer = observer_ ? &observer_ : nullptr};
}

void LocalVecEnv::play(Play& play) {
  check_idle("play");
  const int shares = std::min(pool_.threads(hands_), num_envs());
  const bool measured = has_threads_beyond_cores();
  const int align = num_envs() >= shares * kLeastPiece ? kLeastPiece : 1;
  const int largest = (num_envs() + shares - 1) / shares;
  const int pieces = (largest + kMostPiece - 1) / kMostPiece;  // of each share
  const auto piece = [&](int number) {
    const Span share = part_of({0, num_envs()}, number / pieces, shares, align);
    return part_of(share, number % pieces, pieces, align);
  };
  HandedOver handed_over(shares * pieces);
  const SlotVecEnv::Keep keep = [&](const Playing& next) {
    if (next.envs.size() < 2 * kLeastPiece || !pool_.wants_more()) return next.envs;
    const Span kept = part_of(next.envs, 0, 2, kLeastPiece);
    pool_.hand_over(handed_over.add({{kept.end, next.envs.end}, next.step}));
    return kept;
  };
  std::vector<Played> parts(static_cast<size_t>(lanes()));
  const auto play_item = [&](int part, int item) {
    const Playing playing = item < shares * pieces ? Playing{piece(item)} : handed_over[item];
    if (playing.envs.size() == 0) return;
    const Waiting::Moment begin = measured ? Waiting::Moment::now() : Waiting::Moment{};
    play_span(play, part, playing, call_in(part, 0), keep, parts[static_cast<size_t>(part)]);
    if (measured) waiting_.add_since(begin);
  };
  pool_.for_each(shares * pieces, play_item, pieces, hands_);
  if (measured) settle_waiting();
  settle(parts);
}

void LocalVecEnv::run_part(Job& job, int part) {
  const Request& request = job.request;
  Share& share = job.shares[static_cast<size_t>(part)];
  LoopCall call = call_in(part, request.group);
  call.actions = request.actions;
  call.view = request.view;
  call.seed = request.seed;
  const Span envs = share.envs;
  const uint64_t start = now_ns();
  if (request.work == Work::kReset) {
    loop_->reset(envs, call);
  } else {
    if (request.actor.act != nullptr) act(request, part, envs);
    const Waiting::Moment begin = job.measured ? Waiting::Moment::now() : Waiting::Moment{};
    if (job.prepares) {
      loop_->prepare(envs, call);
    } else {
      loop_->step(envs, call);
      share.least_ns = std::min(share.least_ns, now_ns() - start);
    }
    if (job.measured) waiting_.add_since(begin);
  }
}

}  // namespace flotilla
