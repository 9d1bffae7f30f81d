// The policy on the fused kernels: MLP actor-critics on the CPU.
//
// learn() cuts a minibatch into shards whose number depends on its size alone, every shard adds
// up its gradient in a slot of its own, and the slots are summed in a fixed tree: the result is the
// same for any number of threads.
#pragma once

#include <string>
#include <vector>

#include "flotilla/core/arena.h"
#include "flotilla/nn/fused/kernel.h"
#include "flotilla/nn/fused/layout.h"
#include "flotilla/nn/policy.h"

namespace flotilla::fused {

class FusedPolicy final : public Policy {
 public:
  FusedPolicy(const NetworkSpec& spec, int parts, const Tensors& initial, const Kernels& kernels);

  std::string kernel() const override { return std::string("fused ") + kernels_.name; }
  void act(int part, const ActRows& rows, const Draw& draw) const override;
  void value(int part, const std::byte* obs, int count, float* out) const override;
  LearnResult learn(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                    Part part, const Objective& objective, const AdamStep& step) override;
  Tensors parameters() const override;
  void set_parameters(const Tensors& tensors) override;
  Tensors optimiser() const override;
  void set_optimiser(const Tensors& tensors) override;

 private:
  // Memory on whole cache lines.
  class Floats {
   public:
    explicit Floats(size_t count);
    float* data() const { return arena_.view(field_).row(0); }

   private:
    ArenaLayout layout_;
    FieldId<float> field_;
    Arena arena_;
  };

  Network network() const;
  float* work(int part) const { return work_[static_cast<size_t>(part)]->data(); }
  void make_work(int count);
  void make_slots(int count);
  double sum_bundles(ThreadPool& pool, int shards, size_t begin, size_t end);
  void descend(ThreadPool& pool, const AdamStep& step, size_t begin, size_t end, uint64_t steps,
               double scale);
  [[noreturn]] void refuse_gradient(size_t begin, size_t end) const;

  Layout layout_;
  const Kernels& kernels_;
  std::vector<std::unique_ptr<Floats>> work_;   // by part, and by thread of learn()
  std::vector<std::unique_ptr<Floats>> slots_;  // by shard
  std::vector<const float*> slot_data_;
  Floats params_, derived_, gradient_, m_, v_;
  std::vector<double> squares_;  // of the gradient, by chunk
  uint64_t actor_steps_ = 0, critic_steps_ = 0;
};

}  // namespace flotilla::fused
