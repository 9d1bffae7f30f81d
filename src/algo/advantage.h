// Advantages and value targets of a rollout.
#pragma once

#include <cstdint>
#include <span>

#include "flotilla/algo/moments.h"
#include "flotilla/algo/trajectory.h"
#include "flotilla/core/thread_pool.h"

namespace flotilla {

// Generalised advantage estimation: Schulman et al., "High-dimensional continuous control using
// generalized advantage estimation" (2016). target = advantage + value.
//
// An episode that terminated is worth nothing more; one that was truncated is worth V of its last
// observation; one still running at the end of the rollout V of the next observation. A step
// that failed is invalid: the step before it bootstraps from V of the observation the failed step
// was made from, and nothing is carried across. Invalid rows get advantage 0 and target = value.
//
// Works on the envs in `envs`, so that threads can share the work.
void estimate_advantages(const Trajectory& trajectory, Span envs, double gamma, double lambda,
                         float* advantage, float* target);

// Discounted sums of rewards, cut at the ends of episodes and at invalid rows, without bootstrap.
void monte_carlo_returns(const Trajectory& trajectory, Span envs, double gamma, float* returns);

// Of the numbers of these rows.
Moments moments_of(const float* x, std::span<const int32_t> rows);

// (x - mean) / (deviation + epsilon) over the valid rows, with the sample deviation (n - 1): their
// own, or that of more rows. Invalid rows become 0.
void normalise(float* x, const uint8_t* valid, size_t rows, double epsilon);
void normalise(float* x, const uint8_t* valid, size_t rows, const Moments& moments, double epsilon);

}  // namespace flotilla
