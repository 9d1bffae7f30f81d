// A trained policy that acts, and nothing else: this header and inference.cpp, on the standard
// library alone. Copy the two files into a project, or link flotilla::inference.
//
//   flotilla::Inference policy("model.safetensors");
//   const std::array<float, 4> obs = {0.02F, 0, -0.01F, 0};
//   const int action = policy.predict(obs).discrete();
//
// The file may come from anywhere: no number in it is trusted. What cannot be read is a
// std::runtime_error, what does not fit the policy a std::invalid_argument, of one line each.
//
// Thread safety: an object belongs to one thread at a time. Copies share the weights: one for each
// thread.
// Determinism: the bits that the engine's Policy::act gives with the kernel of the same name. Of a
// copy that is compiled elsewhere the portable kernel needs -ffp-contract=off for that. A network
// trained with net.precision=bf16 is carried out as on a CPU without AMX.
// Allocates: when it is made and copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flotilla {

// What a policy chose: a choice of every dimension, or the coordinates of a point in a box.
class Action {
 public:
  Action() = default;
  explicit Action(std::vector<int32_t> choices) : choices_(std::move(choices)) {}
  explicit Action(std::vector<float> values) : values_(std::move(values)) {}

  // Throw std::out_of_range for a dimension that it does not have, or has of the other kind.
  int discrete(size_t dim = 0) const { return choices_.at(dim); }
  float box(size_t dim = 0) const { return values_.at(dim); }

  std::span<const int32_t> choices() const { return choices_; }
  std::span<const float> values() const { return values_; }
  // The numbers as they lie in memory, four bytes each.
  const void* data() const {
    if (choices_.empty()) return values_.data();
    return choices_.data();
  }

 private:
  friend class Inference;
  std::vector<int32_t> choices_;
  std::vector<float> values_;
};

struct PredictOptions {
  // Which choices are open, for every dimension one behind the other; needed where the policy was
  // trained with masks, allowed wherever there are choices.
  std::span<const uint8_t> action_masks = {};
  // The likeliest choice, the mean of a box. If not, actions are drawn as in training, by these two
  // numbers: count `step` up, or the same is drawn again.
  bool deterministic = true;
  uint64_t seed = 0, step = 0;
};

// Why these masks do not fit a policy with so many choices in every dimension; "" where they do.
std::string mask_refusal(std::span<const int> choices, bool masked,
                         std::span<const uint8_t> action_masks);

class Inference {
 public:
  // A policy file. `kernel`: one of kernels(); "": the first of them, which the engine takes, too.
  explicit Inference(const std::string& path, std::string_view kernel = "");
  // The same of a file that lies in memory; `origin` stands in errors.
  static Inference from_bytes(std::string_view bytes, const std::string& origin,
                              std::string_view kernel = "");

  // What this CPU can run, the fastest first: of avx512, avx2, neon and portable.
  static std::vector<std::string> kernels();
  std::string kernel() const;

  const std::string& env() const;        // name of the environment it was trained in
  size_t inputs() const;                 // numbers of an observation
  bool is_box() const;                   // actions are points in a box, not choices
  size_t dims() const;                   // of an action
  std::span<const int> choices() const;  // of each dimension; none of a box
  bool masked() const;                   // predict() needs action_masks

  // The action for one observation, as the environment shows it, before any normalising. It is
  // overwritten by the next call.
  const Action& predict(std::span<const float> obs, const PredictOptions& options = {});
  const Action& predict(std::span<const uint8_t> obs, const PredictOptions& options = {});

 private:
  struct Model;
  struct alignas(64) Line {
    float of[16] = {};
  };

  explicit Inference(std::shared_ptr<const Model> model);
  template <class T>
  const Action& act(std::span<const T> obs, const PredictOptions& options);
  void choose(const PredictOptions& options);
  void place(const PredictOptions& options);

  std::shared_ptr<const Model> model_;
  std::vector<Line> x_, h_[2], out_, aside_;  // work memory
  Action action_;
};

}  // namespace flotilla
