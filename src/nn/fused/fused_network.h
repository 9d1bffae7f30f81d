// A network on the fused kernels: its parameters in the kernels' layout, and what acts with them.
// The policy that learns has one, and so has every snapshot of it.
#pragma once

#include <memory>
#include <vector>

#include "flotilla/nn/fused/floats.h"
#include "flotilla/nn/fused/kernel.h"
#include "flotilla/nn/fused/layout.h"
#include "flotilla/nn/policy.h"

namespace flotilla::fused {

class FusedNetwork {
 public:
  // For `parts` that act at once. `normaliser` must outlive it.
  FusedNetwork(std::shared_ptr<const Layout> layout, const Kernels& kernels,
               const ObsNormaliser& normaliser, int parts);
  // A copy that reads another normaliser.
  FusedNetwork(const FusedNetwork& other, const ObsNormaliser& normaliser);
  FusedNetwork(const FusedNetwork&) = delete;
  FusedNetwork& operator=(const FusedNetwork&) = delete;

  const Layout& layout() const { return *layout_; }
  const Plan& plan() const { return layout_->plan(); }
  const Kernels& kernels() const { return kernels_; }
  Implementation implementation() const;
  int parts() const { return static_cast<int>(work_.size()); }

  void act(int part, const ActRows& rows, const Draw& draw) const;
  void value(int part, const std::byte* obs, int count, float* out) const;

  // As the kernels take it.
  Network view() const;
  float* work(int part) const { return work_[static_cast<size_t>(part)]->data(); }
  void make_work(int parts);
  // Of so many tiles at once, for a thread that learns: the first is work(). REQUIRES: make_work().
  float* const* tile_works(int thread, int tiles);
  // For what so many rows leave, see DenseRows.
  DenseRows dense_rows(int count);

  float* params() { return params_.data(); }
  const float* params() const { return params_.data(); }
  // Brings up to date what is made from the parameters.
  void derive();
  void derive(ThreadPool& pool);

 private:
  std::shared_ptr<const Layout> layout_;
  const Kernels& kernels_;
  const ObsNormaliser& normaliser_;
  Floats params_, derived_;
  struct TileWorks {
    std::vector<std::unique_ptr<Floats>> more;  // than work()
    std::vector<float*> all;
  };
  std::vector<std::unique_ptr<Floats>> work_;  // by part, and by thread that learns
  std::vector<TileWorks> tile_works_;          // by thread
  std::unique_ptr<Floats> dense_rows_;
};

}  // namespace flotilla::fused
