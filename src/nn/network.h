// What a policy's network looks like: a multi-layer perceptron, with a torso in front of it where
// observations are images or groups of things, that gives the parameters of a distribution over
// actions (actor) and the value of an observation (critic). Every kernel that can carry out such a
// network builds itself from this description.
#pragma once

#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/env/spec.h"
#include "flotilla/nn/attention.h"
#include "flotilla/nn/torso.h"

namespace flotilla {

enum class Activation : uint8_t { kTanh, kRelu };
enum class Init : uint8_t {
  kOrthogonal,  // gain sqrt 2, 0.01 for the actor's output, 1 for the critic's; biases 0
  kDefault      // uniform in +-1/sqrt(inputs), biases too
};

// Of the factors in the products of convolutions and hidden layers; sums, heads, biases and all
// that is kept between updates are fp32.
enum class Precision : uint8_t { kFp32, kBf16 };

struct NetworkSpec {
  int inputs = 0;  // elements of an observation
  ObsType obs_type = ObsType::kFloat32;
  Torso torso = Torso::kNone;
  ImageShape image;           // an observation, where convolutions see it
  std::vector<Group> groups;  // and where attention does
  int fusion = 256;           // width of its tokens
  std::vector<int> hidden;    // widths of the hidden layers
  Activation activation = Activation::kTanh;
  bool shared = false;  // actor and critic share the hidden layers; a torso they always do
  Init init = Init::kOrthogonal;
  ActionSpace action;
  bool has_mask = false;
  // Of a box's Gaussian, which does not depend on the observation. With squash, an action is
  // tanh of the sample, stretched over the box; without, it is the sample clipped to the box.
  double log_std = 0;
  bool squash = false;
  bool normalise_obs = false;  // by running mean and deviation, clipped at +-kObsClip
  Precision precision = Precision::kFp32;

  static constexpr float kObsClip = 10;

  // Of an observation in a batch.
  size_t obs_bytes() const {
    return static_cast<size_t>(inputs) * (obs_type == ObsType::kUint8 ? 1 : sizeof(float));
  }
  bool sees_images() const { return torso == Torso::kNature || torso == Torso::kImpala; }
  // Numbers that the hidden layers see of an observation.
  int features() const;
  // Whether actor and critic have layers in common.
  bool has_common_layers() const { return shared || torso != Torso::kNone; }
  // One per choice of every dimension, or the means of a box.
  int outputs() const;
  // Multiplications and additions of one row forward, and forward and backward.
  double forward_macs() const;
  double learn_macs() const;

  // The keys of all this ("hidden", "activation", ...), for a config under "net.".
  static Schema schema();
  // Throws Error(kUsage) that names the key, for widths of 0 and the like.
  static NetworkSpec from(const Config& config, const std::string& prefix, const EnvSpec& env);
  // The keys with their values, as from() reads them.
  Config to_config() const;
};

}  // namespace flotilla
