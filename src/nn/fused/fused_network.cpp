#include "flotilla/nn/fused/fused_network.h"

#include "flotilla/core/rng.h"

namespace flotilla::fused {
namespace {

// So many are copied sooner than threads meet.
constexpr size_t kFewParams = size_t{1} << 16;

}  // namespace

FusedNetwork::FusedNetwork(std::shared_ptr<const Layout> layout, const Kernels& kernels,
                           const ObsNormaliser& normaliser, int parts)
    : layout_(std::move(layout)),
      kernels_(kernels),
      normaliser_(normaliser),
      params_(plan().params),
      derived_(plan().derived) {
  make_work(parts);
}

FusedNetwork::FusedNetwork(const FusedNetwork& other, const ObsNormaliser& normaliser)
    : FusedNetwork(other.layout_, other.kernels_, normaliser,
                   static_cast<int>(other.work_.size())) {
  params_.copy_from(other.params_);
  derived_.copy_from(other.derived_);
}

Implementation FusedNetwork::implementation() const {
  const bool bf16 = layout_->spec().precision == Precision::kBf16;
  return {.kind = "fused", .name = std::string("fused ") + kernels_.name + (bf16 ? " bf16" : "")};
}

void FusedNetwork::act(int part, const ActRows& rows, const Draw& draw) const {
  require_host(rows.memory);
  const ActCall call{.count = rows.count,
                     .first_env = rows.first_env,
                     .obs = rows.obs,
                     .mask = rows.mask,
                     .action = rows.action,
                     .latent = rows.latent,
                     .logprob = rows.logprob,
                     .value = rows.value,
                     .seed = draw.seed,
                     .stream = stream_of(Purpose::kPolicy, draw.step),
                     .epsilon = draw.epsilon,
                     .greedy = draw.greedy};
  kernels_.act(view(), call, work(part));
}

void FusedNetwork::value(int part, const std::byte* obs, int count, float* out) const {
  kernels_.value(view(), obs, count, out, work(part));
}

Network FusedNetwork::view() const {
  return {&plan(), params_.data(), derived_.data(), normaliser_.mean(), normaliser_.scale()};
}

void FusedNetwork::make_work(int parts) {
  while (static_cast<int>(work_.size()) < parts) {
    work_.push_back(std::make_unique<Floats>(plan().work_floats));
  }
  if (tile_works_.size() < work_.size()) tile_works_.resize(work_.size());
}

float* const* FusedNetwork::tile_works(int thread, int tiles) {
  TileWorks& works = tile_works_[static_cast<size_t>(thread)];
  if (works.all.empty()) works.all.push_back(work(thread));
  while (static_cast<int>(works.all.size()) < tiles) {
    works.more.push_back(std::make_unique<Floats>(plan().work_floats));
    works.all.push_back(works.more.back()->data());
  }
  return works.all.data();
}

DenseRows FusedNetwork::dense_rows(int count) {
  const size_t floats = static_cast<size_t>(count) * plan().dense_floats;
  if (dense_rows_ == nullptr || dense_rows_->count() < floats) {
    dense_rows_ = std::make_unique<Floats>(floats);
  }
  return {.numbers = dense_rows_->data(), .capacity = count, .count = count};
}

void FusedNetwork::derive() {
  for (int piece = 0; piece < plan().derived_pieces(); ++piece) {
    kernels_.derive(plan(), piece, params_.data(), derived_.data());
  }
}

void FusedNetwork::derive(ThreadPool& pool) {
  if (plan().params < kFewParams) return derive();
  pool.for_each(plan().derived_pieces(), [&](int, int piece) {
    kernels_.derive(plan(), piece, params_.data(), derived_.data());
  });
}

}  // namespace flotilla::fused
