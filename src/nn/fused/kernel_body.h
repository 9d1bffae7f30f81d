// The kernels themselves. Each kernel_*.cpp includes this once, inside a namespace of its CPU and
// after simd.h; nothing here may use the standard library (see plan.h). Each part builds on those
// before it.
#pragma once

// clang-format off
#include "flotilla/nn/fused/body/products.h"
#include "flotilla/nn/fused/body/tile.h"
#include "flotilla/nn/fused/body/categorical.h"
#include "flotilla/nn/fused/body/gaussian.h"
#include "flotilla/nn/fused/body/act.h"
#include "flotilla/nn/fused/body/learn.h"
#include "flotilla/nn/fused/body/optimise.h"
// clang-format on
