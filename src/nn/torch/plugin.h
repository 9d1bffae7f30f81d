// The one function of the libtorch plugin, libflotilla_torch.so.
#pragma once

#include "flotilla/nn/make_policy.h"

namespace flotilla {

using MakeTorchPolicy = Policy*(const NetworkSpec&, const PolicyOptions&);
constexpr const char* kMakeTorchPolicy = "flotilla_make_torch_policy";

}  // namespace flotilla
