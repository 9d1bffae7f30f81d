// The slow twin of every policy kernel: the same network, distributions, draws, gradients and Adam
// in double precision, one row and one number at a time. Kernels are compared with it; it is
// itself compared with finite differences.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "flotilla/nn/policy.h"
#include "support/learn.h"

namespace flotilla::test {

class SlowPolicy {
 public:
  using Vector = std::vector<double>;
  using Named = std::map<std::string, Vector>;

  // One observation with its mask (or null); and, where something was done there, what.
  struct Row {
    const std::byte* obs = nullptr;
    const uint8_t* mask = nullptr;
    const std::byte* latent = nullptr;
    double epsilon = 0;
  };
  // What an Objective sees of a row, or the derivatives of the loss with respect to that.
  struct Seen {
    double logprob = 0, entropy = 0, value = 0;
  };

  SlowPolicy(const NetworkSpec& spec, const Tensors& tensors);

  void set_normaliser(const ObsNormaliser& normaliser);

  // The rows of a rollout.
  Row row(const Samples& samples, int32_t number) const;

  // ---- forward ----------------------------------------------------------------------------------

  Vector actor_outputs(const std::byte* obs) const { return forward("actor", obs).back(); }
  double value(const std::byte* obs) const { return forward("critic", obs).back()[0]; }

  // How far the sums that relu sees stay from its kink, where rounding decides over the slope.
  double kink_distance(const std::byte* obs) const;

  // Of every choice of every dimension, epsilon's share included. REQUIRES: a discrete kind.
  Vector probabilities(const Row& row) const;

  Seen see(const Row& row) const;

  // ---- draws ------------------------------------------------------------------------------------

  // The `index`-th number in [0, 1) that belongs to a step.
  static double uniform(uint64_t seed, uint64_t step, uint64_t index);

  // The last open choice before which no more than u of the probability lies.
  static int32_t choose(std::span<const double> probabilities, double u);

  // A standard normal number for one dimension of one env: Box and Muller (1958).
  static double normal(uint64_t seed, uint64_t step, uint64_t env_and_dim);

  // What the env gets for the sample of a box.
  double box_action(double sample, size_t dim) const;

  // ---- backward ---------------------------------------------------------------------------------

  // Adds the gradient of d.logprob * logprob + d.entropy * entropy + d.value * value.
  void add_gradient(const Row& row, const Seen& d, Nets nets, Named& gradient) const;

  // The whole gradient over the rows `chosen`, and what the objective adds up.
  Named gradient(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                 const Objective& objective, double* sums) const;

  // Clips and steps as Policy::apply() does.
  LearnResult learn(const Samples& samples, std::span<const int32_t> chosen, Nets nets,
                    const Objective& objective, const GradientStep& step);

  static bool is_critics(const std::string& name) { return name.starts_with("critic"); }
  static bool trains(Nets nets, const std::string& name);

  Named parameters, first_moments, second_moments;
  int actor_steps = 0, critic_steps = 0;

 private:
  struct Softmax {
    Vector p, log_p;  // of a closed choice: 0 and 0
    std::vector<bool> open;
    size_t open_count = 0;
  };

  size_t inputs() const { return static_cast<size_t>(spec_.inputs); }
  size_t choices(size_t dim) const { return static_cast<size_t>(spec_.action.choices[dim]); }

  static size_t chosen(const Row& row, size_t dim);
  static double sample(const Row& row, size_t dim);

  Vector input(const std::byte* obs) const;

  // Layers from the observation to a head; those of a trunk serve both heads.
  std::vector<std::string> path(const std::string& head) const;

  double activate(double x) const;
  // From what activate() returned.
  double activation_slope(double y) const;

  // What a layer gives before its activation.
  Vector sums(const std::string& name, const Vector& x) const;

  // The input, and what every layer gives.
  std::vector<Vector> forward(const std::string& head, const std::byte* obs) const;

  // `d`: the loss by the outputs of the head.
  void backward(const std::string& head, const std::vector<Vector>& trace, Vector d,
                Named& gradient) const;

  Softmax softmax(const Vector& logits, const uint8_t* mask, size_t first, size_t count) const;

  static double mixed(const Softmax& s, size_t choice, double epsilon);

  static double entropy(const Softmax& s);

  void see_box(const Vector& means, const Row& row, Seen& seen) const;

  // The loss by the outputs of the actor; adds that by log_std to `gradient`.
  Vector actor_slopes(const Vector& outputs, const Row& row, const Seen& d, Named& gradient) const;

  static Seen ask(const Objective& objective, int32_t number, const Seen& seen, Nets nets,
                  double* sums);

  // Kingma and Ba, "Adam: a method for stochastic optimization" (2015), algorithm 1.
  void adam(const std::string& name, const Vector& slopes, double scale, double lr,
            const Adam& rule);

  // Tieleman and Hinton, "RMSProp" (2012).
  void rmsprop(const std::string& name, const Vector& slopes, double scale, double lr,
               const RmsProp& rule);

  const NetworkSpec spec_;
  Vector mean_, scale_;
};

}  // namespace flotilla::test
