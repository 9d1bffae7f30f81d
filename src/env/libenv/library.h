// An open libenv: the functions of a shared library.
#pragma once

#include <string>

#include "flotilla/env/libenv/abi.h"

namespace flotilla::libenv {

// It stays open until the process ends: what a library leaves behind, such as threads, may need its
// code.
class Library {
 public:
  // Throws Error(kData) that names the library: it cannot be opened, lacks a function, or has
  // another version.
  explicit Library(const std::string& path);

  const std::string& path() const { return path_; }
  bool keeps_states() const { return get_state != nullptr && set_state != nullptr; }

  int (*version)() = nullptr;
  void* (*make)(int num, Options options) = nullptr;
  int (*get_tensortypes)(void* envs, int32_t space, TensorType* out) = nullptr;
  void (*set_buffers)(void* envs, Buffers* buffers) = nullptr;
  void (*observe)(void* envs) = nullptr;
  void (*act)(void* envs) = nullptr;
  void (*close)(void* envs) = nullptr;
  // Some libraries have these besides.
  int (*get_state)(void* envs, int env, char* data, int bytes) = nullptr;
  void (*set_state)(void* envs, int env, char* data, int bytes) = nullptr;

 private:
  const std::string path_;
};

}  // namespace flotilla::libenv
