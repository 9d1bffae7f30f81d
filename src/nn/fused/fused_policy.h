// The policy on the fused kernels: MLP actor-critics on the CPU.
//
// gradient() cuts a minibatch into shards whose number depends on its size and the network's alone,
// every shard adds up its gradient in a slot of its own, and the slots are summed in a fixed tree.
// Behind a torso, and of few rows of a wide network, gradients of hidden layers are taken from all
// rows in their order. The result is the same for any number of threads.
#pragma once

#include <memory>
#include <vector>

#include "flotilla/nn/fused/fused_network.h"

namespace flotilla::fused {

class FusedPolicy final : public Policy {
 public:
  // `kernels`: of the spec's precision.
  FusedPolicy(const NetworkSpec& spec, int parts, const Tensors& initial, const Kernels& kernels);

  Implementation implementation() const override { return network_.implementation(); }
  int parts() const override { return network_.parts(); }
  bool rows_are_independent() const override { return true; }
  void act(int part, const ActRows& rows, const Draw& draw) const override;
  void value(int part, const std::byte* obs, int count, float* out) const override;
  void evaluate(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                const RowTerms& out) override;
  LossSums gradient(ThreadPool& pool, const Samples& samples, std::span<const int32_t> chosen,
                    Nets nets, const Objective& objective) override;
  GradientView gradient_view() override;
  double apply(ThreadPool& pool, Nets nets, const GradientStep& step) override;
  std::span<float> parameter_view() override { return {network_.params(), gradient_.count()}; }
  void parameters_changed() override;
  std::unique_ptr<Policy> copy() const override;
  std::shared_ptr<const ActingPolicy> snapshot() const override;
  Tensors parameters() const override;
  void set_parameters(const Tensors& tensors) override;
  Tensors optimiser() const override;
  void set_optimiser(const Tensors& tensors) override;

 private:
  // A stretch of the parameters.
  struct Range {
    size_t begin = 0, end = 0;
  };

  Range range_of(Nets nets) const;
  void make_slots(int count);
  LossSums gradient_of_few(ThreadPool& pool, const LearnCall& call, const Objective& objective);
  LossSums gradient_of_torso(ThreadPool& pool, const LearnCall& call, const Objective& objective);
  void collect(ThreadPool& pool, const LearnCall& call);
  LossSums gradient_of_shards(ThreadPool& pool, const LearnCall& call, Range range,
                              const Objective& objective);
  void learn_some(const LearnCall& call, const Objective& objective, int thread, double* sums);
  void learn_rows(const LearnCall& call, const Objective& objective, float* work, double* sums);
  void learn_sequences(const LearnCall& call, const Objective& objective, int thread, double* sums);
  void learn_twice(const LearnCall& call, const Objective& objective, float* work, double* sums);
  void add_up(ThreadPool& pool, std::span<const float* const> slots, Range range);
  void measure_gradient(ThreadPool& pool, Range range);
  [[noreturn]] void refuse_gradient(Range range) const;
  // `scale`: of the gradient; `steps`: taken with these parameters, this one included.
  void descend(ThreadPool& pool, Nets nets, const GradientStep& step, double scale);
  void change_by(const GradientStep& step, Range some, uint64_t steps, double scale);

  FusedNetwork network_;
  std::vector<std::unique_ptr<Floats>> slots_;  // by shard
  std::vector<const float*> slot_data_;
  Floats gradient_, m_, v_;
  std::vector<double> squares_;  // of the gradient, by chunk
  double squared_norm_ = 0;      // of the gradient
  bool handed_out_ = false;      // it may have been changed since
  uint64_t actor_steps_ = 0, critic_steps_ = 0;
};

}  // namespace flotilla::fused
