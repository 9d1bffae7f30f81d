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

constexpr int kPad = 16;             // widths are multiples of this, the widest vector
constexpr int kBf16Pad = 32;         // with bf16: of this, the inputs of a tile
constexpr int kSoftmaxKept = 5;      // numbers of a row and a dimension, see body/categorical.h
constexpr int kTile = 64;            // rows that go through the network together, at most
constexpr int kMostTokens = 64;      // of a kind in an observation
constexpr int kSmallHead = 8;        // up to this many outputs, a head is a few dot products
constexpr int kLossRows = 16;        // whose loss is asked together where minibatches are small
constexpr int kDerivedColumns = 64;  // of a matrix that is put in another order, by one thread
// Of a matrix whose gradient is collected, by one thread; with bf16 more, for products are quick
// and wait for what they read.
constexpr int kPieceRows = 16, kBf16PieceRows = 64;
// Neighbouring shards that are summed by whoever finishes the last of them, while their gradients
// are in that core's cache; only the sums of bundles travel between cores. Where there is only one
// bundle, all threads sum its shards.
constexpr int kBundle = 4;

constexpr int padded(int width, int unit = kPad) { return (width + unit - 1) / unit * unit; }

// What stands around a convolution, and so what becomes of its sums.
enum class Role : uint8_t {
  kPlain,   // nothing
  kPooled,  // a pool behind it: windows of 3 x 3, two apart, in a frame of one
  kInner,   // it is the first of a residual block
  kOuter    // it is the second: what the block was given is added
};

// One convolution of a torso. Pictures lie as [rows][columns][channels], in a frame of zeros as
// wide as the padding of the convolution that reads them; those of several observations one behind
// the other.
struct ConvLayer {
  Role role = Role::kPlain;
  bool relu = true;             // behind it, and behind its pool
  bool last = false;            // it makes features
  int inputs = 0, outputs = 0;  // channels; outputs are a multiple of kPad
  int kernel = 0, stride = 1;
  int group = 1;                      // observations whose windows go through products together
  int rows = 0, columns = 0;          // windows
  int out_rows = 0, out_columns = 0;  // of the picture it makes: behind a pool, fewer than windows
  int in_cells = 0, in_row = 0;       // of the picture it reads: cells, and numbers in a framed row
  size_t in_size = 0, out_size = 0;   // whole lines, from a picture to the next
  // Where in the pictures of a group that it reads a window begins, in one of them a tap of the
  // window at the origin and a cell lies; where in a picture it makes a cell lies, and in those of
  // a group, or in what is pooled, a window's sums.
  const int32_t *window_at = nullptr, *tap_at = nullptr, *in_at = nullptr;
  const int32_t *out_at = nullptr, *sum_at = nullptr;
  size_t weight = 0, bias = 0;        // [kernel][kernel][inputs][outputs]
  size_t packed = 0, transposed = 0;  // in the derived array; the first is not transposed
  size_t staged = 0;                  // there too, with bf16: [deep()][wide()]
  // In work memory: what is kept of the tile's observations for the way back, and with bf16 the
  // gradient, [outputs][deep()].
  size_t in = 0, out = 0, largest = 0, gradient = 0;

  int windows() const { return rows * columns; }
  int out_cells() const { return out_rows * out_columns; }
  size_t in_numbers() const { return static_cast<size_t>(in_cells) * static_cast<size_t>(inputs); }
  size_t out_numbers() const {
    return static_cast<size_t>(out_cells()) * static_cast<size_t>(outputs);
  }
  size_t sums() const { return static_cast<size_t>(windows()) * static_cast<size_t>(outputs); }
  int taps() const { return kernel * kernel * inputs; }
  // With bf16: taps and outputs as products take them, with zeros behind them; windows of a group
  // likewise.
  int deep() const { return padded(taps(), kBf16Pad); }
  int wide() const { return padded(outputs, kBf16Pad); }
  int padded_windows() const { return padded(group * windows(), kBf16Pad); }
};

// Tokens of all observations of a tile: those of one lie one after the other.
struct TokenPlace {
  size_t at = 0, gradient = 0;  // in work memory
  int count = 0, width = 0;     // of an observation
  long stride = 0;              // from a token to the next
};

// A step of attention over groups, see nn/attention.h.
struct TokenLayer {
  enum class Kind : uint8_t { kLinear, kNorm, kAttend, kMean };
  Kind kind = Kind::kLinear;
  bool relu = false;
  bool is_first = false;  // it reads observations: nothing asks for their gradient
  bool has_added = false;
  // Whether on the way back something was put there before.
  bool adds_to_in = false, adds_to_added = false;
  TokenPlace in, out, added;
  int heads = 0;
  size_t weight = 0, bias = 0;  // of a linear [inputs][outputs]
  size_t packed = 0, transposed = 0;
  // In work memory: of every token, its mean and the inverse of its deviation, or its shares in all
  // others by head, [heads][tokens][padded tokens].
  size_t kept = 0;
};

struct Layer {
  int in = 0, out = 0;  // padded
  size_t weight = 0, bias = 0;
  size_t packed = 0;      // in the derived array: what forward reads in place of `weight`
  size_t transposed = 0;  // there too; unused where nothing learns from the gradient of inputs
  size_t work = 0;        // of the activations, in a thread's work memory
  // Of what it reads and of its gradient, with bf16 as a right factor too, see DenseRows.
  size_t dense_in = 0, dense_d = 0, dense_right = 0;
  int piece_rows = kPieceRows;

  int pieces() const { return (in + piece_rows - 1) / piece_rows; }
  int derived_parts() const {
    return ((in > out ? in : out) + kDerivedColumns - 1) / kDerivedColumns;
  }
};

struct Head {
  int in = 0, out = 0;  // in padded, out as it is
  size_t weight = 0, bias = 0;
  size_t columns = 0;   // in the derived array: [in][padded out], where out > kSmallHead
  size_t dense_in = 0;  // see DenseRows
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
  int inputs = 0;        // numbers of an observation
  int input_stride = 0;  // of a row as the hidden layers see it
  int tile = kTile;      // rows that go through the network together; with a torso maybe fewer
  bool bytes = false;    // observations are uint8
  bool relu = false;
  bool collects = false;  // it can learn as body/dense.h does
  bool normalise = false;
  float obs_clip = 0;

  const ConvLayer* convs = nullptr;  // in front of the hidden layers
  int conv_count = 0;
  int group = 1;  // observations that go through them together

  const TokenLayer* token_layers = nullptr;  // likewise in front of them
  int token_layer_count = 0;
  const TokenPlace* groups = nullptr;  // of observations
  int group_count = 0;

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

  bool has_torso() const { return conv_count + token_layer_count > 0; }
  // Of the derived array, which can be made at the same time: parts of layers, convolutions, token
  // layers and heads, in this order.
  int derived_pieces() const {
    int pieces = conv_count + token_layer_count + 2;
    for (int l = 0; l < layer_count; ++l) pieces += layers[l].derived_parts();
    return pieces;
  }
  // Of the gradient of hidden layers and heads: rows of their matrices, and heads.
  int dense_pieces() const {
    int pieces = 2;
    for (int l = 0; l < layer_count; ++l) pieces += layers[l].pieces();
    return pieces;
  }

  size_t params = 0, actor_params = 0, derived = 0;
  size_t torso_params = 0;  // the first of them
  // What a row leaves, see DenseRows, and in it the gradients of all outputs.
  size_t dense_floats = 0, dense_dout = 0;
  int dense_outputs = 0;  // padded
  int dense_unit = 1;     // calls that learn begin at multiples of so many places
  // Offsets in work memory, in floats; work_floats: all of it.
  size_t work_x = 0, work_d0 = 0, work_d1 = 0, work_rows = 0, work_out = 0, work_dout = 0,
         work_mask = 0, work_latent = 0, work_softmax = 0, work_rounded = 0, work_packed = 0,
         work_floats = 0;
  // Of a torso: gradients of features; of one with tokens an observation; of one with convolutions
  // addresses of observations, and for a group of these sums of blocks, those before a pool, and
  // gradients.
  size_t work_dx = 0, work_image = 0, work_obs = 0, work_sum = 0, work_unpooled = 0, work_dsum = 0,
         work_dother = 0, work_din = 0;
  // And with bf16: some windows, those of a group in the order of a right factor, and a left one.
  size_t work_windows = 0, work_packed_windows = 0, work_turned = 0;
};

}  // namespace flotilla::fused
