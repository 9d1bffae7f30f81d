// The kernels themselves. Each kernel_*.cpp includes this once, inside a namespace of its CPU;
// nothing here may use the standard library (see plan.h). Each part builds on those before it.
#pragma once

// clang-format off
#include "flotilla/nn/simd/simd.h"
#include "flotilla/nn/simd/product.h"
#include "flotilla/nn/simd/packed_product.h"
#include "flotilla/nn/fused/body/layers.h"
#include "flotilla/nn/fused/body/convolve.h"
#include "flotilla/nn/fused/body/attend.h"
#include "flotilla/nn/fused/body/tile.h"
#include "flotilla/nn/fused/body/categorical.h"
#include "flotilla/nn/fused/body/gaussian.h"
#include "flotilla/nn/fused/body/act.h"
#include "flotilla/nn/fused/body/dense.h"
#include "flotilla/nn/fused/body/learn.h"
#include "flotilla/nn/fused/body/optimise.h"
// clang-format on

template <class Layers>
constexpr Kernels kernels_of(const char* name) {
  return {.name = name,
          .act = act<Layers>,
          .value = value<Layers>,
          .evaluate = evaluate<Layers>,
          .learn = learn<Layers>,
          .learn_together = learn_together<Layers>,
          .collect = collect<Layers>,
          .add_up = add_up,
          .reduce = reduce,
          .adam = adam,
          .rmsprop = rmsprop,
          .derive = derive<Layers>,
          .exp = exp_all};
}
