// Sees the last state of every episode, before the env begins the next one: for judgements that
// need more of an episode than its return and its metrics.
#pragma once

#include <functional>
#include <utility>

#include "flotilla/env/env.h"

namespace flotilla {

// Called with the env's row in the batch and its State, by the thread that steps that env: at the
// same time for several envs, never for one. What it throws counts as a failure of the env.
using EpisodeObserver = std::function<void(int env, const void* state)>;

// The same for a function that takes the State of env class E: `see(env, state)`.
template <Env E, class F>
EpisodeObserver episode_observer(F see) {
  return [see = std::move(see)](int env, const void* state) {
    see(env, *static_cast<const typename E::State*>(state));
  };
}

}  // namespace flotilla
