// What every plugin on libtorch needs of it: errors of one line, one thread, a device by name.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <mutex>
#include <string>

#include "flotilla/core/error.h"

namespace flotilla::torch_nn {

// The messages of libtorch hold a stack trace; ours are one line.
template <class F>
auto guarded(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error(ErrorCode::kInternal, "libtorch: " + text.substr(0, text.find('\n')));
  }
}

template <class F>
F* loaded_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
}

// All threads are ours: libraries keep to the one that calls them. Another plugin may have said so
// already, and libtorch refuses to be told twice.
inline void use_one_thread() {
  static std::once_flag once;
  std::call_once(once, [] {
    at::set_num_threads(1);
    if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
    if (auto* set = loaded_function<void(int)>("openblas_set_num_threads")) set(1);
  });
}

inline at::Device device_of(const std::string& name) {
  if (name == "cpu") return at::kCPU;
  if (name != "cuda") throw Error(ErrorCode::kUsage, "device: expected cpu or cuda, got " + name);
  if (!at::hasCUDA()) {
    throw Error(ErrorCode::kUsage,
                "device cuda: libtorch " TORCH_VERSION " finds no CUDA here; use device=cpu");
  }
  at::globalContext().setDeterministicCuDNN(true);  // the same gradients again, 2 % slower
  // Convolutions of floats have factors of floats; who wants fewer bits asks for bf16.
  at::globalContext().setAllowTF32CuDNN(false);
  return {at::kCUDA, 0};
}

}  // namespace flotilla::torch_nn
