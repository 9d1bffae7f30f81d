#include "flotilla/nn/policy.h"

namespace flotilla {

Policy::Policy(const NetworkSpec& spec)
    : spec_(spec), obs_normaliser_(static_cast<size_t>(spec.inputs)) {}

}  // namespace flotilla
