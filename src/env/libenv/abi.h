// The C interface of libenv, version 1: shared libraries that are vectorised environments. What
// they export, and what is handed over. docs/libenv.md has more.
//
// Arrays of pointers are in the order of spaces first: [space * number of envs + env].
#pragma once

#include <cstdint>

namespace flotilla::libenv {

constexpr int kVersion = 1;
constexpr int kNameBytes = 128;
constexpr int kMostDimensions = 16;

enum Dtype : int32_t { kUint8 = 1, kInt32 = 2, kFloat32 = 3 };
enum Scalar : int32_t { kReal = 1, kDiscrete = 2 };
enum Space : int32_t { kObservation = 1, kAction = 2, kInfo = 3 };

union Number {
  uint8_t uint8;
  int32_t int32;
  float float32;
};

struct TensorType {
  char name[kNameBytes];
  int32_t scalar, dtype;
  int32_t shape[kMostDimensions];
  int32_t ndim;
  Number low, high;  // both inclusive
};
static_assert(sizeof(TensorType) == 212);

// Booleans are one uint8, texts are uint8 without a zero at their end.
struct Option {
  char name[kNameBytes];
  int32_t dtype, count;
  void* data;
};
static_assert(sizeof(Option) == 144);

struct Options {
  Option* items;
  int32_t count;
};

struct Buffers {
  void** ob;
  float* rew;
  uint8_t* first;
  void** info;
  void** ac;
};

}  // namespace flotilla::libenv
