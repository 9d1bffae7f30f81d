// What stands in front of the hidden layers: actor and critic see what it makes of an observation.
//
// Of images, convolutions; pixels of one byte are scaled to 0..1.
//
// nature: Mnih et al., "Human-level control through deep reinforcement learning" (2015).
// impala: the residual network of Espeholt et al., "IMPALA" (2018), with 16, 32 and 32 channels: in
//         every stage a convolution, a pool of 3 x 3 that halves the picture, and two blocks of two
//         convolutions each.
//
// Of groups of things of a kind, attention: attention.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

enum class Torso : uint8_t { kNone, kNature, kImpala, kAttention };
constexpr const char* kTorsoNames[] = {"none", "nature", "impala", "attention"};

struct ImageShape {
  int rows = 0, columns = 0, channels = 0;
};

struct Convolution {
  std::string
      name;  // its tensors are NAME.weight, [outputs, inputs, kernel, kernel], and NAME.bias
  int inputs = 0, outputs = 0;
  int kernel = 0, stride = 1, padding = 0;
  ImageShape made;  // before a pool
};

struct TorsoSpec {
  std::vector<Convolution> convolutions;  // in the order in which they are carried out
  ImageShape made;                        // behind the last of them
  int features() const { return made.rows * made.columns * made.channels; }
};

// The least rows and columns of a picture.
int least_image(Torso torso);
// REQUIRES: a picture of at least that size.
TorsoSpec make_torso(Torso torso, const ImageShape& image);

}  // namespace flotilla
