// The kernels with products by multiply-adds, for all CPUs but those with tiles. Included in place
// of kernel_body.h.
#pragma once

// clang-format off
#include "flotilla/nn/simd/simd.h"
#include "flotilla/nn/simd/product.h"
#include "flotilla/nn/simd/panels.h"
// clang-format on

typedef Panels Products;
constexpr int kWideRows = 8 * kBlockRows;

#include "flotilla/domains/dvrp/oracle/kernel_body.h"
