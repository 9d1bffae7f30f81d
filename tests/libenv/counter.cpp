// A small library with the C interface of libenv (src/env/libenv/abi.h), written down anew from
// what the interface says so that a slip there is found. As others of its kind it ends its process
// when it is given an option that it does not know, or one of another type.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "counter_world.h"

extern "C" {

struct TensorType {
  char name[128];
  int scalar_type, dtype;
  int shape[16];
  int ndim;
  union {
    uint8_t uint8;
    int32_t int32;
    float float32;
  } low, high;
};

struct Option {
  char name[128];
  int dtype, count;
  void* data;
};

struct OptionList {
  const Option* items;
  int count;
};

struct Buffers {
  void** ob;
  float* rew;
  uint8_t* first;
  void** info;
  void** ac;
};
}

namespace {

enum { kUint8 = 1, kInt32 = 2, kFloat32 = 3 };
enum { kReal = 1, kDiscrete = 2 };
enum { kObservation = 1, kAction = 2, kInfo = 3 };

[[noreturn]] void fatal(const char* what, const char* name) {
  std::fprintf(stderr, "counter: %s %s\n", what, name);
  std::abort();
}

struct Counters {
  counter::Options options;
  int abort_at = 0;    // the step of the library at which it gives up; 0: none
  bool hasty = false;  // the first act() after set_state ends the episode
  int growth = 0;      // of a state, in a step
  int abort_seed = 0;  // only with this rand_seed; 0: with any
  int acts = 0;
  float reward_unit = 1;
  std::vector<counter::World> worlds;
  Buffers* buffers = nullptr;

  Counters(int num, const OptionList& list) {
    for (int i = 0; i < list.count; ++i) take(list.items[i]);
    if (options.name == "broken") fatal("cannot be", "broken");
    if (options.name == "missing") throw std::out_of_range("map::at");
    for (int i = 0; i < num; ++i) {
      counter::Options own = options;
      own.rand_seed += i;
      worlds.emplace_back(own);
    }
  }

  void take(const Option& option) {
    const std::string name = option.name;
    const auto integer = [&] {
      if (option.dtype != kInt32 || option.count != 1) fatal("expected an int32 for", option.name);
      int32_t value = 0;
      std::memcpy(&value, option.data, sizeof(value));
      return value;
    };
    if (name == "rand_seed") {
      options.rand_seed = integer();
    } else if (name == "length") {
      options.length = integer();
    } else if (name == "abort_at") {
      abort_at = integer();
    } else if (name == "abort_seed") {
      abort_seed = integer();
    } else if (name == "hasty") {
      hasty = integer() != 0;
    } else if (name == "growth") {
      growth = integer();
    } else if (name == "bad_reward") {
      if (integer() != 0) reward_unit = std::numeric_limits<float>::infinity();
    } else if (name == "shiny") {
      const auto* flag = static_cast<const uint8_t*>(option.data);
      if (option.dtype != kUint8 || option.count != 1 || *flag > 1) {
        fatal("expected one uint8 of 0 or 1 for", option.name);
      }
      options.shiny = *flag == 1;
    } else if (name == "env_name") {
      if (option.dtype != kUint8) fatal("expected uint8 for", option.name);
      options.name.assign(static_cast<const char*>(option.data), static_cast<size_t>(option.count));
    } else {
      fatal("unknown option", option.name);
    }
  }

  void write(size_t i) {
    const counter::World& world = worlds[i];
    const size_t n = worlds.size();
    const counter::Picture picture = world.picture(options);
    std::memcpy(buffers->ob[i], picture.data(), picture.size());
    buffers->rew[i] = world.reward == 0 ? 0 : world.reward * reward_unit;
    buffers->first[i] = world.first;
    const float pair[2] = {1, 2}, mean = world.mean();
    const auto won = static_cast<uint8_t>(world.won);
    std::memcpy(buffers->info[i], &world.episode, sizeof(int32_t));
    std::memcpy(buffers->info[n + i], pair, sizeof(pair));
    std::memcpy(buffers->info[2 * n + i], &won, 1);
    std::memcpy(buffers->info[3 * n + i], &mean, sizeof(mean));
  }
};

TensorType tensor(const char* name, int scalar, int dtype, std::vector<int> shape) {
  TensorType type{};
  std::strcpy(type.name, name);
  type.scalar_type = scalar;
  type.dtype = dtype;
  type.ndim = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) type.shape[i] = shape[i];
  return type;
}

std::vector<TensorType> types_of(int space) {
  if (space == kObservation) {
    TensorType picture =
        tensor("rgb", kDiscrete, kUint8, {counter::kRows, counter::kColumns, counter::kChannels});
    picture.high.uint8 = 255;
#ifdef COUNTER_TWO_OBSERVATIONS
    return {picture, tensor("position", kReal, kFloat32, {})};
#else
    return {picture};
#endif
  }
  if (space == kAction) {
    TensorType push = tensor("push", kDiscrete, kInt32, {});
    push.low.int32 = -1;
    push.high.int32 = 1;
    return {push};
  }
  return {tensor("episode", kDiscrete, kInt32, {}), tensor("pair", kReal, kFloat32, {2}),
          tensor("won", kDiscrete, kUint8, {}), tensor("mean", kReal, kFloat32, {})};
}

Counters& counters(void* handle) { return *static_cast<Counters*>(handle); }

}  // namespace

#ifndef COUNTER_VERSION
#define COUNTER_VERSION 1
#endif

extern "C" {

int libenv_version() { return COUNTER_VERSION; }

void* libenv_make(int num, const OptionList options) { return new Counters(num, options); }

int libenv_get_tensortypes(void*, int space, TensorType* out) {
  const std::vector<TensorType> types = types_of(space);
  for (size_t i = 0; out != nullptr && i < types.size(); ++i) out[i] = types[i];
  return static_cast<int>(types.size());
}

void libenv_set_buffers(void* handle, Buffers* buffers) { counters(handle).buffers = buffers; }

void libenv_observe(void* handle) {
  for (size_t i = 0; i < counters(handle).worlds.size(); ++i) counters(handle).write(i);
}

#ifndef COUNTER_WITHOUT_ACT
void libenv_act(void* handle) {
  Counters& all = counters(handle);
  const bool meant = all.abort_seed == 0 || all.abort_seed == all.options.rand_seed;
  if (++all.acts == all.abort_at && meant) fatal("told to", "abort");
  for (size_t i = 0; i < all.worlds.size(); ++i) {
    int32_t push = 0;
    std::memcpy(&push, all.buffers->ac[i], sizeof(push));
    if (push < -1 || push > 1) fatal("an action out of range", "");
    all.worlds[i].act(push);
  }
}
#endif

void libenv_close(void* handle) { delete &counters(handle); }

#ifndef COUNTER_WITHOUT_STATES
// Of a size that changes with the state.
int state_bytes(const Counters& all, const counter::World& world) {
  return static_cast<int>(sizeof(world)) + world.steps % 3 + all.growth * world.steps;
}

int get_state(void* handle, int env, char* data, int length) {
  const counter::World& world = counters(handle).worlds[static_cast<size_t>(env)];
  const int bytes = state_bytes(counters(handle), world);
  if (bytes > length) fatal("a state that does not fit", "");
  std::memset(data, 7, static_cast<size_t>(bytes));
  std::memcpy(data, &world, sizeof(world));
  return bytes;
}

void set_state(void* handle, int env, char* data, int length) {
  Counters& all = counters(handle);
  counter::World& world = all.worlds[static_cast<size_t>(env)];
  std::memcpy(&world, data, sizeof(world));
  if (length != state_bytes(all, world)) fatal("a damaged state", "");
  if (all.hasty) world.position = 2 * all.options.length;
}
#endif
}
