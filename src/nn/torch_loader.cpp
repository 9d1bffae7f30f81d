#include "flotilla/nn/torch_loader.h"

#include <dlfcn.h>

#include <cstdlib>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/torch/plugin.h"

namespace flotilla {
namespace {

constexpr const char* kMissing =
    "this build has no libtorch, which this needs: apt-get install libtorch-dev (or pass "
    "-DCMAKE_PREFIX_PATH of another libtorch to CMake) and build again";

void set_unless_set(const char* name, const char* value) { setenv(name, value, 0); }

// Libraries read these when they are loaded. The threads are ours; and OpenBLAS takes a kernel
// five times too slow on CPUs that are newer than itself.
void prepare_environment() {
  set_unless_set("OMP_NUM_THREADS", "1");
  set_unless_set("OPENBLAS_NUM_THREADS", "1");
  // What fails is an exception, of which one line is said; c10d would add some of its own.
  set_unless_set("GLOG_minloglevel", "3");
  set_unless_set("TORCH_CPP_LOG_LEVEL", "FATAL");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    set_unless_set("OPENBLAS_CORETYPE", "SKYLAKEX");
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    set_unless_set("OPENBLAS_CORETYPE", "HASWELL");
  }
#endif
}

bool g_refuse_second_torch = false;

// Asked before ours is opened for the first time: afterwards it would find that.
void require_no_other_torch() {
  static const bool other = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD) != nullptr;
  if (g_refuse_second_torch && other) {
    throw Error(ErrorCode::kUsage,
                "this process has another libtorch already (import torch): what needs ours has to "
                "run in a process of its own");
  }
}

std::string last_refusal() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown reason";
}

}  // namespace

void refuse_second_torch() { g_refuse_second_torch = true; }

void* open_torch_plugin(const std::string& name, const char* function) {
  require_no_other_torch();
  prepare_environment();
  // Installed, it is found by its bare name in the run path of the program (cmake/install.cmake).
  const std::string file = find_beside_program(name);
  void* plugin = dlopen(file.empty() ? name.c_str() : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    const std::string why = last_refusal();  // begins with the file that could not be opened
    if (why.starts_with(name)) throw Error(ErrorCode::kUsage, kMissing);
    throw Error(ErrorCode::kUsage, "cannot open libtorch: " + why);
  }
  void* address = dlsym(plugin, function);
  if (address == nullptr) throw Error(ErrorCode::kUsage, "not our plugin: " + last_refusal());
  return address;
}

std::unique_ptr<Policy> make_torch_policy(const NetworkSpec& spec, const PolicyOptions& options) {
  if (spec.precision != Precision::kFp32 && options.device != "cuda") {
    throw Error(ErrorCode::kUsage,
                "net.precision: on a CPU libtorch computes in fp32 alone; bf16 needs the fused "
                "kernels or device=cuda");
  }
  // Tried again after it threw.
  static auto* const make = reinterpret_cast<MakeTorchPolicy*>(
      open_torch_plugin("libflotilla_torch.so", kMakeTorchPolicy));
  return std::unique_ptr<Policy>(make(spec, options));
}

}  // namespace flotilla
