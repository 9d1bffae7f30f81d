// Which kernel carries out a network.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "flotilla/nn/policy.h"

namespace flotilla {

struct PolicyOptions;
// A policy of a user's own for a network. It honours of the options what it can.
using PolicyFactory =
    std::function<std::unique_ptr<Policy>(const NetworkSpec& spec, const PolicyOptions& options)>;

struct PolicyOptions {
  std::string kind = "auto";   // auto | fused | torch
  std::string device = "cpu";  // cpu | cuda; cuda is torch's
  int parts = 1;               // threads that may act at once
  uint64_t seed = 0;           // of the initial parameters
  PolicyFactory factory = {};  // makes the policy instead, whatever `kind` says
};

// auto: fused where it applies, else torch. Throws Error(kUsage) that says why when the kind asked
// for cannot do it, or how to get what is missing.
std::unique_ptr<Policy> make_policy(const NetworkSpec& spec, const PolicyOptions& options);

// Why the fused kernels cannot carry out this network; "" when they can.
std::string fused_refusal(const NetworkSpec& spec);
std::unique_ptr<Policy> make_fused_policy(const NetworkSpec& spec, int parts, uint64_t seed);

// Opens the libtorch plugin on first use. Throws Error(kUsage) that says how to get it.
std::unique_ptr<Policy> make_torch_policy(const NetworkSpec& spec, const PolicyOptions& options);

}  // namespace flotilla
