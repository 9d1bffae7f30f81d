// Where everything of a network lies in the fused kernels' memory.
//
// All parameters lie in one array, the actor's before the critic's, with widths padded to whole
// vectors or tiles; padding is zero and stays zero under any update. Hidden layers are stored as
// [inputs][outputs], output layers ("heads") as [outputs][inputs]: the order in which forward and
// weight gradient read them. What is wanted in another order or precision is kept in a second array
// and refreshed after every update.
//
// Plain structs: the kernels are compiled for several CPUs and share no templates of the standard
// library with the rest of the program.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flotilla::fused {

constexpr int kPad = 16;       // widths are multiples of this, the widest vector
constexpr int kBf16Pad = 32;   // with bf16: of this, the inputs of a tile
constexpr int kTile = 64;      // rows that go through the network together
constexpr int kSmallHead = 8;  // up to this many outputs, a head is a few dot products

constexpr int padded(int width, int unit = kPad) { return (width + unit - 1) / unit * unit; }

struct Layer {
  int in = 0, out = 0;  // padded
  size_t weight = 0, bias = 0;
  size_t transposed = 0;  // in the derived array; unused for the first layer
  size_t packed = 0;      // there too: what forward reads in place of `weight`, with bf16
  size_t work = 0;        // of the activations, in a thread's work memory
};

struct Head {
  int in = 0, out = 0;  // in padded, out as it is
  size_t weight = 0, bias = 0;
  size_t columns = 0;  // in the derived array: [in][padded out], where out > kSmallHead
  int first_output = 0;
};

// A stack of hidden layers with the heads on top of it: one of its own for actor and critic, or
// one for both.
struct Branch {
  int first_layer = 0, layers = 0;
  int first_head = 0, heads = 0;
};

enum class Distribution : uint8_t { kCategorical, kGaussian };

struct Plan {
  int inputs = 0, input_stride = 0;  // of an observation, and of its padded row
  bool bytes = false;                // observations are uint8
  bool relu = false;
  bool normalise = false;
  float obs_clip = 0;

  const Layer* layers = nullptr;
  const Head* heads = nullptr;  // 0: actor, 1: critic
  const Branch* branches = nullptr;
  int branch_count = 0;
  int layer_count = 0;

  Distribution distribution = Distribution::kCategorical;
  int outputs = 0;                              // of the actor; the value comes behind them
  int dims = 0;                                 // of an action
  const int* choices = nullptr;                 // of each dimension of a categorical
  const float *low = nullptr, *high = nullptr;  // of a box
  bool squash = false;
  size_t log_std = 0;

  size_t params = 0, actor_params = 0, derived = 0;
  // Offsets in work memory, in floats; work_floats: all of it.
  size_t work_x = 0, work_d0 = 0, work_d1 = 0, work_rows = 0, work_out = 0, work_dout = 0,
         work_mask = 0, work_latent = 0, work_rounded = 0, work_packed = 0, work_floats = 0;
};

}  // namespace flotilla::fused
