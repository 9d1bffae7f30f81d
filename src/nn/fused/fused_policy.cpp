#include "flotilla/nn/fused/fused_policy.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>

#include "flotilla/core/error.h"
#include "flotilla/nn/fused/kernel_choice.h"
#include "flotilla/nn/fused/row_losses.h"
#include "flotilla/nn/fused/shards.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/optimiser_state.h"

namespace flotilla::fused {
namespace {

// So few rows of a wide network are learnt from as body/dense.h says.
constexpr size_t kFewRows = 512;
// Parameters that are summed, and that are changed, by one thread at a time.
constexpr size_t kChunk = 512, kDescendChunk = 16384;
// Work memory of the tiles of a thread that wait for the loss of sequences, in floats.
constexpr size_t kTogetherFloats = size_t{1} << 24;
// Beyond these limits a library of matrix products is as fast.
constexpr int kMaxWidth = 256, kMaxOutputs = 256, kMaxInputs = 4096, kMaxBoxDims = 64;
// Behind a torso the hidden layers are a smaller part of the work.
constexpr int kMaxWidthOfTorso = 1024;

// Of a shard's own gradient: of what is not collected from all rows.
size_t slot_floats(const Plan& plan) {
  return plan.collects && plan.has_torso() ? plan.torso_params : plan.params;
}

LossSums sum_of(std::span<const LossSums> some) {
  LossSums result;
  for (const LossSums& sums : some) {
    for (int i = 0; i < Objective::kSums; ++i) result.of[i] += sums.of[i];
  }
  return result;
}

// The policy as it was at one moment.
class FusedSnapshot final : public ActingPolicy {
 public:
  FusedSnapshot(const NetworkSpec& spec, const FusedNetwork& network,
                const ObsNormaliser& normaliser, uint64_t version)
      : ActingPolicy(spec), network_(network, obs_normaliser_) {
    obs_normaliser_ = normaliser;
    version_ = version;
  }

  Implementation implementation() const override { return network_.implementation(); }
  int parts() const override { return network_.parts(); }
  bool rows_are_independent() const override { return true; }
  void act(int part, const ActRows& rows, const Draw& draw) const override {
    network_.act(part, rows, draw);
  }
  void value(int part, const std::byte* obs, int count, float* out) const override {
    network_.value(part, obs, count, out);
  }

 private:
  FusedNetwork network_;
};

}  // namespace

FusedPolicy::FusedPolicy(const NetworkSpec& spec, int parts, const Tensors& initial,
                         const Kernels& kernels)
    : Policy(spec),
      network_(std::make_shared<const Layout>(spec), kernels, obs_normaliser_, parts),
      gradient_(network_.plan().params),
      m_(network_.plan().params),
      v_(network_.plan().params),
      squares_(network_.plan().params / kChunk + 2) {
  set_parameters(initial);
}

void FusedPolicy::act(int part, const ActRows& rows, const Draw& draw) const {
  network_.act(part, rows, draw);
}

void FusedPolicy::value(int part, const std::byte* obs, int count, float* out) const {
  network_.value(part, obs, count, out);
}

std::shared_ptr<const ActingPolicy> FusedPolicy::snapshot() const {
  return std::make_shared<FusedSnapshot>(spec_, network_, obs_normaliser_, version_);
}

void FusedPolicy::make_slots(int count) {
  while (static_cast<int>(slots_.size()) < count) {
    slots_.push_back(std::make_unique<Floats>(slot_floats(network_.plan())));
    slot_data_.push_back(slots_.back()->data());
  }
}

FusedPolicy::Range FusedPolicy::range_of(Nets nets) const {
  const Plan& plan = network_.plan();
  return {nets == Nets::kCritic ? plan.actor_params : 0,
          nets == Nets::kActor ? plan.actor_params : plan.params};
}

void FusedPolicy::evaluate(ThreadPool& pool, const Samples& samples,
                           std::span<const int32_t> chosen, const RowTerms& out) {
  require_host(samples.memory);
  network_.make_work(pool.threads());
  const auto tiles = static_cast<int>((chosen.size() + kTile - 1) / kTile);
  const auto from = [](float* numbers, size_t first) {
    return numbers == nullptr ? nullptr : numbers + first;
  };
  pool.for_each(tiles, [&](int thread, int tile) {
    const size_t first = static_cast<size_t>(tile) * kTile;
    const auto rows = chosen.subspan(first, std::min<size_t>(kTile, chosen.size() - first));
    network_.kernels().evaluate(network_.view(),
                                {.rows = chosen_rows(samples, rows),
                                 .logprob = from(out.logprob, first),
                                 .entropy = from(out.entropy, first),
                                 .value = from(out.value, first)},
                                network_.work(thread));
  });
}

void FusedPolicy::learn_rows(const LearnCall& call, const Objective& objective, float* work,
                             double* sums) {
  AskedLoss loss{&objective, sums};
  LearnCall with_loss = call;
  with_loss.loss = ask;
  with_loss.context = &loss;
  network_.kernels().learn(network_.view(), with_loss, work);
}

// What the loss of one row is depends on rows that come later. Where the memory for what many rows
// leave behind is there, they wait for it; otherwise they are looked at twice.
void FusedPolicy::learn_sequences(const LearnCall& call, const Objective& objective, int thread,
                                  double* sums) {
  const int tile = network_.plan().tile, length = objective.sequence();
  const size_t tiles_at_most = kTogetherFloats / network_.plan().work_floats;
  const int whole = std::lcm(length, network_.plan().dense_unit);
  const int at_once = static_cast<int>(tiles_at_most) * tile / whole * whole;
  if (at_once == 0) return learn_twice(call, objective, network_.work(thread), sums);
  AskedLoss loss{&objective, sums};
  for (int first = 0; first < call.rows.count; first += at_once) {
    LearnCall some = some_of(call, first, std::min(at_once, call.rows.count - first));
    some.loss = ask;
    some.context = &loss;
    RowNumbers numbers(some.rows.count);
    const int tiles = (some.rows.count + tile - 1) / tile;
    network_.kernels().learn_together(network_.view(), some,
                                      numbers.room(network_.tile_works(thread, tiles)));
  }
}

void FusedPolicy::learn_twice(const LearnCall& call, const Objective& objective, float* work,
                              double* sums) {
  RowNumbers numbers(call.rows.count);
  network_.kernels().evaluate(network_.view(), numbers.terms(call.rows), work);
  KnownLoss known{call.rows.sample, numbers.loss_rows(call.rows.sample)};
  objective.differentiate(rows_of(known.rows), sums);
  LearnCall with_loss = call;
  with_loss.loss = recall;
  with_loss.context = &known;
  network_.kernels().learn(network_.view(), with_loss, work);
}

// Tiles are as large as leaves one to every thread.
LossSums FusedPolicy::gradient_of_few(ThreadPool& pool, const LearnCall& call,
                                      const Objective& objective) {
  const Plan& plan = network_.plan();
  const int rows = call.rows.count, threads = pool.threads();
  const int some =
      std::clamp(padded((rows + threads - 1) / threads, kLossRows), kLossRows, plan.tile);
  const int tiles = (rows + some - 1) / some;
  std::array<LossSums, kFewRows / kLossRows> sums{};
  GroupLoss loss{&objective, call.rows.sample, sums.data()};
  LearnCall all = call;
  all.begins = true;
  all.dense = network_.dense_rows(rows);
  network_.make_work(threads);
  pool.for_each(tiles, [&](int thread, int t) {
    LearnCall tile = some_of(all, t * some, std::min(some, rows - t * some));
    tile.loss = ask_groups;
    tile.context = &loss;
    network_.kernels().learn(network_.view(), tile, network_.work(thread));
  });
  collect(pool, all);
  return sum_of(sums);
}

void FusedPolicy::collect(ThreadPool& pool, const LearnCall& call) {
  pool.for_each(network_.plan().dense_pieces(),
                [&](int, int piece) { network_.kernels().collect(network_.view(), call, piece); });
}

// Rounds of rows: in each, shards go through the network and back and add up gradients of the
// torso in their slots, then those of the other layers are collected.
LossSums FusedPolicy::gradient_of_torso(ThreadPool& pool, const LearnCall& call,
                                        const Objective& objective) {
  const size_t slot = network_.plan().torso_params;
  const int unit = network_.plan().dense_unit;
  const bool bf16 = spec_.precision == Precision::kBf16;
  const size_t shard_rows = bf16 ? kBf16TorsoShardRows : kTorsoShardRows;
  const int length = objective.sequence(), sequences = call.rows.count / length;
  const auto rows = static_cast<size_t>(call.rows.count);
  const int rounds = std::min(static_cast<int>((rows + kRoundRows - 1) / kRoundRows), sequences);
  const int most = (sequences + rounds - 1) / rounds;  // of a round
  const int count =
      std::min(shard_count(static_cast<size_t>(most * length), shard_rows, slot), most);
  network_.make_work(pool.threads());
  make_slots(count);
  std::array<LossSums, kMaxShards> sums{};
  for (int round = 0; round < rounds; ++round) {
    const Span mine = part_of({0, sequences}, round, rounds);
    const std::vector<PlacedShard> shards = place_shards(mine.size(), length, count, unit);
    LearnCall some = some_of(call, mine.begin * length, mine.size() * length);
    some.begins = round == 0;
    some.dense = network_.dense_rows(shards.back().places.end);
    pool.for_each(count, [&](int thread, int s) {
      const auto& [own, places] = shards[static_cast<size_t>(s)];
      LearnCall shard = some_of(some, own.begin, own.size());
      shard.dense.first = places.begin;
      shard.dense.count = places.size();
      shard.gradient = slots_[static_cast<size_t>(s)]->data();
      if (round == 0) std::memset(shard.gradient, 0, slot * sizeof(float));
      if (own.size() > 0) learn_some(shard, objective, thread, sums[static_cast<size_t>(s)].of);
    });
    collect(pool, some);
  }
  add_up(pool, std::span(slot_data_).first(static_cast<size_t>(count)), {0, slot});
  return sum_of(std::span(sums).first(static_cast<size_t>(count)));
}

// All of a shard's rows, or a piece of them.
void FusedPolicy::learn_some(const LearnCall& call, const Objective& objective, int thread,
                             double* sums) {
  if (objective.sequence() > 1) return learn_sequences(call, objective, thread, sums);
  learn_rows(call, objective, network_.work(thread), sums);
}

LossSums FusedPolicy::gradient_of_shards(ThreadPool& pool, const LearnCall& call, Range range,
                                         const Objective& objective) {
  const Plan& plan = network_.plan();
  const int length = objective.sequence(), sequences = call.rows.count / length;
  const auto rows = static_cast<size_t>(call.rows.count);
  const int count = std::min(shard_count(rows, kShardRows, plan.params), sequences);
  const Shards shards{count, length > 1 ? 1 : piece_count(rows, count, pool.threads(), plan)};
  const bool can_begin = length == 1;
  const size_t added = can_begin ? plan.torso_params : range.end;  // up to here
  network_.make_work(pool.threads());
  make_slots(count);
  std::array<LossSums, kMaxShards> sums{};
  std::array<std::atomic<int>, kMaxShards> done{};       // pieces
  std::array<std::atomic<int>, kMaxBundles> finished{};  // shards

  const auto learn = [&](int thread, int s, int piece) {
    const Turn turn(done[static_cast<size_t>(s)], piece);
    const Span mine = part_of({0, sequences}, s, count);
    const Span some =
        part_of({mine.begin * length, mine.end * length}, piece, shards.pieces, plan.tile);
    LearnCall part = call;
    part.rows = some_of(call.rows, some.begin, some.size());
    part.gradient = slots_[static_cast<size_t>(s)]->data();
    part.begins = can_begin && piece == 0;
    if (range.begin < added) {
      std::memset(part.gradient + range.begin, 0, (added - range.begin) * sizeof(float));
    }
    learn_some(part, objective, thread, sums[static_cast<size_t>(s)].of);
  };
  const auto add_up_bundle = [&](int bundle) {
    const float* const* first = slot_data_.data() + bundle * kBundle;
    network_.kernels().add_up(first, shards.bundle_size(bundle), range.begin, range.end,
                              slots_[static_cast<size_t>(bundle * kBundle)]->data());
  };
  const auto work = [&](int thread, int item) {
    const int s = shards.shard(item), piece = shards.piece(item), bundle = s / kBundle;
    if (s >= count) return;
    learn(thread, s, piece);
    if (!shards.are_bundled() || piece + 1 < shards.pieces) return;
    const int ended = finished[static_cast<size_t>(bundle)].fetch_add(1) + 1;
    if (ended == shards.bundle_size(bundle)) add_up_bundle(bundle);
  };
  pool.for_each(shards.items(), work, shards.neighbours());

  std::array<const float*, kMaxBundles> slots;  // with sums of bundles, or of shards
  size_t slot_count = 0;
  for (int s = 0; s < count; s += shards.are_bundled() ? kBundle : 1) {
    slots[slot_count++] = slot_data_[static_cast<size_t>(s)];
  }
  add_up(pool, std::span(slots).first(slot_count), range);
  return sum_of(std::span(sums).first(static_cast<size_t>(count)));
}

LossSums FusedPolicy::gradient(ThreadPool& pool, const Samples& samples,
                               std::span<const int32_t> chosen, Nets nets,
                               const Objective& objective) {
  require_host(samples.memory);
  require_apart(nets);
  require_whole(chosen, objective);
  const Range range = range_of(nets);
  const LearnCall call{.rows = chosen_rows(samples, chosen),
                       .actor = nets != Nets::kCritic,
                       .critic = nets != Nets::kActor,
                       .gradient = gradient_.data()};
  const Plan& plan = network_.plan();
  const bool few = chosen.size() <= kFewRows && objective.sequence() == 1;
  if (!plan.collects || !(plan.has_torso() || few)) {
    return gradient_of_shards(pool, call, range, objective);
  }
  const LossSums sums = plan.has_torso() ? gradient_of_torso(pool, call, objective)
                                         : gradient_of_few(pool, call, objective);
  measure_gradient(pool, range);
  return sums;
}

// The sum of the slots becomes the gradient.
void FusedPolicy::add_up(ThreadPool& pool, std::span<const float* const> slots, Range range) {
  const auto chunks = static_cast<int>((range.end - range.begin + kChunk - 1) / kChunk);
  pool.for_each(chunks, [&](int, int c) {
    const size_t from = range.begin + static_cast<size_t>(c) * kChunk;
    squares_[static_cast<size_t>(c)] =
        network_.kernels().reduce(slots.data(), static_cast<int>(slots.size()), from,
                                  std::min(from + kChunk, range.end), gradient_.data());
  });
  squared_norm_ = 0;
  for (int c = 0; c < chunks; ++c) squared_norm_ += squares_[static_cast<size_t>(c)];
  handed_out_ = false;
}

void FusedPolicy::measure_gradient(ThreadPool& pool, Range range) {
  const std::array<const float*, 1> itself = {gradient_.data()};
  add_up(pool, itself, range);
}

GradientView FusedPolicy::gradient_view() {
  handed_out_ = true;
  return {.data = gradient_.data(), .count = gradient_.count(), .memory = Memory::kHost};
}

double FusedPolicy::apply(ThreadPool& pool, Nets nets, const GradientStep& step) {
  const Range range = range_of(nets);
  if (handed_out_) measure_gradient(pool, range);
  const double norm = std::sqrt(squared_norm_);
  if (!std::isfinite(norm)) refuse_gradient(range);
  const bool clip = step.max_grad_norm > 0 && norm > step.max_grad_norm;
  const double scale = clip ? step.max_grad_norm / (norm + 1e-6) : 1;
  descend(pool, nets, step, scale);
  network_.derive(pool);
  ++version_;
  return norm;
}

void FusedPolicy::refuse_gradient(Range range) const {
  for (size_t i = range.begin; i < range.end; ++i) {
    if (std::isfinite(gradient_.data()[i])) continue;
    throw Error(ErrorCode::kNumeric,
                "the gradient of " + network_.layout().name_at(i) + " is not finite");
  }
  throw Error(ErrorCode::kNumeric, "the gradient is too large to be squared");
}

void FusedPolicy::descend(ThreadPool& pool, Nets nets, const GradientStep& step, double scale) {
  const Range all = range_of(nets);
  const size_t middle = std::clamp(network_.plan().actor_params, all.begin, all.end);
  const Range actor{all.begin, middle}, critic{middle, all.end};
  if (nets != Nets::kCritic) ++actor_steps_;
  if (nets != Nets::kActor) ++critic_steps_;
  const auto chunks = [](Range range) {
    return static_cast<int>((range.end - range.begin + kDescendChunk - 1) / kDescendChunk);
  };
  const int of_actor = chunks(actor), count = of_actor + chunks(critic);
  const auto change = [&](int, int c) {
    const bool is_actors = c < of_actor;
    const Range range = is_actors ? actor : critic;
    const auto number = static_cast<size_t>(is_actors ? c : c - of_actor);
    const size_t begin = range.begin + number * kDescendChunk;
    change_by(step, {begin, std::min(begin + kDescendChunk, range.end)},
              is_actors ? actor_steps_ : critic_steps_, scale);
  };
  if (count > 2) return pool.for_each(count, change);
  for (int c = 0; c < count; ++c) change(0, c);
}

void FusedPolicy::change_by(const GradientStep& step, Range some, uint64_t steps, double scale) {
  const Kernels& kernels = network_.kernels();
  if (const auto* adam = std::get_if<Adam>(&step.rule)) {
    const auto t = static_cast<double>(steps);
    kernels.adam({.params = network_.params(),
                  .gradient = gradient_.data(),
                  .m = m_.data(),
                  .v = v_.data(),
                  .begin = some.begin,
                  .end = some.end,
                  .scale = static_cast<float>(scale),
                  .beta1 = static_cast<float>(adam->beta1),
                  .beta2 = static_cast<float>(adam->beta2),
                  .epsilon = static_cast<float>(adam->epsilon),
                  .rest1 = static_cast<float>(1 - adam->beta1),
                  .rest2 = static_cast<float>(1 - adam->beta2),
                  .rate = static_cast<float>(step.lr / (1 - std::pow(adam->beta1, t))),
                  .v_correction = static_cast<float>(1 / (1 - std::pow(adam->beta2, t)))});
    return;
  }
  const RmsProp& rule = std::get<RmsProp>(step.rule);
  kernels.rmsprop({.params = network_.params(),
                   .gradient = gradient_.data(),
                   .v = v_.data(),
                   .begin = some.begin,
                   .end = some.end,
                   .scale = static_cast<float>(scale),
                   .decay = static_cast<float>(rule.decay),
                   .rest = static_cast<float>(1 - rule.decay),
                   .epsilon = static_cast<float>(rule.epsilon),
                   .rate = static_cast<float>(step.lr)});
}

Tensors FusedPolicy::parameters() const {
  Tensors tensors = make_parameters(spec_);
  network_.layout().unpack(network_.params(), tensors);
  return tensors;
}

void FusedPolicy::set_parameters(const Tensors& tensors) {
  require_same_shapes(make_parameters(spec_), tensors);
  network_.layout().pack(tensors, network_.params());
  parameters_changed();
}

void FusedPolicy::parameters_changed() {
  network_.derive();
  ++version_;
}

std::unique_ptr<Policy> FusedPolicy::copy() const {
  auto made = std::make_unique<FusedPolicy>(spec_, 1, parameters(), network_.kernels());
  made->obs_normaliser_ = obs_normaliser_;
  return made;
}

Tensors FusedPolicy::optimiser() const {
  OptimiserState state(spec_);
  network_.layout().unpack(m_.data(), state.m);
  network_.layout().unpack(v_.data(), state.v);
  state.actor_steps = actor_steps_;
  state.critic_steps = critic_steps_;
  return state.join();
}

void FusedPolicy::set_optimiser(const Tensors& tensors) {
  OptimiserState state(spec_);
  state.split(tensors);
  network_.layout().pack(state.m, m_.data());
  network_.layout().pack(state.v, v_.data());
  actor_steps_ = state.actor_steps;
  critic_steps_ = state.critic_steps;
}

}  // namespace flotilla::fused

namespace flotilla {

std::string fused_refusal(const NetworkSpec& spec) {
  using namespace fused;
  const auto beyond = [](const char* what, size_t value, int limit) {
    return value > static_cast<size_t>(limit) ? std::string(what) + " " + std::to_string(value) +
                                                    " is over its limit of " + std::to_string(limit)
                                              : std::string();
  };
  const bool torso = spec.torso != Torso::kNone;
  if (torso && spec.hidden.empty()) return "it has a torso without hidden layers";
  std::string why = beyond(torso ? "number of features" : "observation size",
                           static_cast<size_t>(spec.features()), kMaxInputs);
  if (why.empty())
    why = beyond("number of outputs", static_cast<size_t>(spec.outputs()), kMaxOutputs);
  if (why.empty()) why = beyond("action size", spec.action.dims(), kMaxBoxDims);
  for (const int width : spec.hidden) {
    const int most = torso ? kMaxWidthOfTorso : kMaxWidth;
    if (why.empty()) why = beyond("hidden width", static_cast<size_t>(width), most);
  }
  return why;
}

std::unique_ptr<Policy> make_fused_policy(const NetworkSpec& spec, int parts, uint64_t seed) {
  return std::make_unique<fused::FusedPolicy>(spec, parts, initial_parameters(spec, seed),
                                              fused::kernels(spec.precision));
}

}  // namespace flotilla
