// The state of Adam, as named tensors for a checkpoint.
#pragma once

#include "flotilla/nn/parameters.h"

namespace flotilla {

struct OptimiserState {
  Tensors m, v;  // first and second moments, by parameter
  uint64_t actor_steps = 0, critic_steps = 0;

  explicit OptimiserState(const NetworkSpec& spec)
      : m(make_parameters(spec)), v(make_parameters(spec)) {}

  // "m.NAME", "v.NAME", "step.actor" and "step.critic".
  Tensors join() const;
  // Throws Error(kData) that names what is missing or has another shape.
  void split(const Tensors& joined);
};

}  // namespace flotilla
