// A policy as an ONNX model, for programs that run such models: the network with its normaliser in
// front and the likeliest action behind it, all rows of a batch at once.
//
//   inputs   obs      float32 [batch, numbers]; images [batch, rows, columns, channels] in the type
//                     that the environment shows
//            mask     bool [batch, choices], where the policy has masks: what is open
//   outputs  action   int64 [batch] of a Discrete space, [batch, dimensions] of a MultiDiscrete
//   one,
//                     float32 [batch, dimensions] of a box
//            logits   float32 [batch, choices], -1e30 where closed; of a box instead
//            mean     float32 [batch, dimensions], before it is squashed or clipped, and
//            std      float32 [dimensions]
//            value    float32 [batch]
#pragma once

#include <string>

#include "flotilla/nn/policy_file.h"

namespace flotilla {

// The bytes of the model. Throws Error(kData) for a file that holds no such policy.
std::string encode_onnx(const PolicyFile& file);

}  // namespace flotilla
