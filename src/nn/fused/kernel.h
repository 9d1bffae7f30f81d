// The fused kernels: everything of a network that costs time, compiled once per kind of CPU and
// picked at run time.
//
// A tile of rows goes through the whole network at once, forwards and backwards, while it is in
// the cache. A row's arithmetic is the same wherever it stands in a tile.
#pragma once

#include "flotilla/core/random_words.h"
#include "flotilla/nn/fused/plan.h"
#include "flotilla/nn/simd/packed_matrix.h"

namespace flotilla::fused {

struct Network {
  const Plan* plan = nullptr;
  const float* params = nullptr;
  const float* derived = nullptr;
  const float *obs_mean = nullptr, *obs_scale = nullptr;
};

struct ActCall {
  int count = 0, first_env = 0;
  const std::byte* obs = nullptr;
  const uint8_t* mask = nullptr;
  std::byte *action = nullptr, *latent = nullptr;
  float *logprob = nullptr, *value = nullptr;
  uint64_t seed = 0, stream = 0;
  float epsilon = 0;
  bool greedy = false;
};

// What the loss sees of a tile and says about it.
struct LossRows {
  int count = 0;
  const int32_t* sample = nullptr;
  const float *logprob = nullptr, *entropy = nullptr, *value = nullptr;
  float *d_logprob = nullptr, *d_entropy = nullptr, *d_value = nullptr;
};

// Rows of a rollout by their numbers, `sample`.
struct ChosenRows {
  const int32_t* sample = nullptr;
  int count = 0;
  const std::byte* obs = nullptr;
  const uint8_t* mask = nullptr;
  const std::byte* latent = nullptr;
  float epsilon = 0;
};

struct EvaluateCall {
  ChosenRows rows;
  float *logprob = nullptr, *entropy = nullptr, *value = nullptr;  // any may be null
};

// What rows leave for the gradient of hidden layers and heads, which is then taken from all of them
// at once: matrices of a row each, the first of which holds their inputs. A matrix whose rows begin
// `place` numbers behind those inputs begins at numbers + capacity * place. Factors of bfloat16 lie
// there in the order in which products take them.
struct DenseRows {
  float* numbers = nullptr;  // null: the gradient is added up tile by tile
  int capacity = 0;          // rows
  // The places of the call's rows, and where these are fewer, of zeros.
  int first = 0, count = 0;
};

struct LearnCall {
  ChosenRows rows;
  bool actor = true, critic = true;  // which of the two are trained
  void (*loss)(void* context, const LossRows& rows) = nullptr;
  void* context = nullptr;
  float* gradient = nullptr;  // added to, ...
  bool begins = false;        // ... but behind a torso, or without, put in place of what was there
  DenseRows dense = {};
};

// Room for rows whose loss is asked at once: work memory of every tile, and numbers of every row.
struct SequenceRoom {
  float* const* works = nullptr;
  float *logprob = nullptr, *entropy = nullptr, *value = nullptr;
  float *d_logprob = nullptr, *d_entropy = nullptr, *d_value = nullptr;
};

struct AdamCall {
  float* params = nullptr;
  const float* gradient = nullptr;
  float *m = nullptr, *v = nullptr;
  size_t begin = 0, end = 0;  // multiples of kPad
  float scale = 1;            // of the gradient
  float beta1 = 0, beta2 = 0, epsilon = 0;
  float rest1 = 1, rest2 = 1;  // 1 - beta, which a float's beta near 1 does not give
  float rate = 0;              // learning rate over the first moment's bias correction
  float v_correction = 1;      // 1 / the second moment's bias correction
};

struct RmsPropCall {
  float* params = nullptr;
  const float* gradient = nullptr;
  float* v = nullptr;
  size_t begin = 0, end = 0;               // multiples of kPad
  float scale = 1;                         // of the gradient
  float decay = 0, rest = 1, epsilon = 0;  // rest: 1 - decay
  float rate = 0;
};

struct Kernels {
  const char* name;
  void (*act)(const Network& network, const ActCall& call, float* work);
  void (*value)(const Network& network, const std::byte* obs, int count, float* out, float* work);
  void (*evaluate)(const Network& network, const EvaluateCall& call, float* work);
  // The loss is asked tile by tile.
  void (*learn)(const Network& network, const LearnCall& call, float* work);
  // The loss is asked once, of all rows.
  void (*learn_together)(const Network& network, const LearnCall& call, const SequenceRoom& room);
  // A piece of the gradient of hidden layers and heads, from what the call's rows have left.
  void (*collect)(const Network& network, const LearnCall& call, int piece);
  // target = sum of the slots, in their order, over [begin, end): of a bundle, at most; or of any
  // number, with the sum of squares.
  void (*add_up)(const float* const* slots, int count, size_t begin, size_t end, float* target);
  double (*reduce)(const float* const* slots, int count, size_t begin, size_t end, float* target);
  void (*adam)(const AdamCall& call);
  void (*rmsprop)(const RmsPropCall& call);
  void (*derive)(const Plan& plan, int piece, const float* params, float* derived);
  void (*exp)(const float* x, float* out, int count);
};

extern const Kernels kAvx512, kAvx2;  // x86
extern const Kernels kNeon;           // ARM with 64 bits, and x86 with FMA to the same bits
extern const Kernels kPortable;       // every CPU
// With factors of bfloat16 in the hidden layers: tiles of AMX, or the others with rounding.
extern const Kernels kAmxBf16, kAvx512Bf16, kAvx2Bf16, kNeonBf16, kPortableBf16;

}  // namespace flotilla::fused
