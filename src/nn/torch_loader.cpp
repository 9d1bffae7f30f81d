#include "flotilla/nn/torch_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "flotilla/core/error.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/torch/plugin.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMissing =
    "this build has no libtorch, which this needs: apt-get install libtorch-dev (or pass "
    "-DCMAKE_PREFIX_PATH of another libtorch to CMake) and build again";

void set_unless_set(const char* name, const char* value) { setenv(name, value, 0); }

// Libraries read these when they are loaded. The threads are ours; and OpenBLAS takes a kernel
// five times too slow on CPUs that are newer than itself.
void prepare_environment() {
  set_unless_set("OMP_NUM_THREADS", "1");
  set_unless_set("OPENBLAS_NUM_THREADS", "1");
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    set_unless_set("OPENBLAS_CORETYPE", "SKYLAKEX");
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    set_unless_set("OPENBLAS_CORETYPE", "HASWELL");
  }
#endif
}

// Beside the program, or above it, where the programs of the tests look. Installed, it is found by
// its bare name in the run path of the program (cmake/install.cmake).
fs::path find_file(const std::string& name) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()}) {
    if (!place.empty() && fs::exists(place / name, error)) return place / name;
  }
  return {};
}

std::string last_refusal() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown reason";
}

}  // namespace

void* open_torch_plugin(const std::string& name, const char* function) {
  prepare_environment();
  const fs::path file = find_file(name);
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
  // Tried again after it threw.
  static auto* const make = reinterpret_cast<MakeTorchPolicy*>(
      open_torch_plugin("libflotilla_torch.so", kMakeTorchPolicy));
  return std::unique_ptr<Policy>(make(spec, options));
}

}  // namespace flotilla
