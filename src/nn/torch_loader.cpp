// Opens the plugin that holds everything of libtorch. Linking it would cost every program 0.7 s
// and 164 MB before main().
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

constexpr const char* kFile = "libflotilla_torch.so";
constexpr const char* kMissing =
    "this build has no libtorch, which the policy needs: apt-get install libtorch-dev (or pass "
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
fs::path find_file() {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder.parent_path()}) {
    if (!place.empty() && fs::exists(place / kFile, error)) return place / kFile;
  }
  return {};
}

std::string last_refusal() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown reason";
}

MakeTorchPolicy* open_plugin() {
  prepare_environment();
  const fs::path file = find_file();
  void* plugin = dlopen(file.empty() ? kFile : file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    const std::string why = last_refusal();  // begins with the file that could not be opened
    if (why.starts_with(kFile)) throw Error(ErrorCode::kUsage, kMissing);
    throw Error(ErrorCode::kUsage, "cannot open libtorch: " + why);
  }
  void* factory = dlsym(plugin, kMakeTorchPolicy);
  if (factory == nullptr) throw Error(ErrorCode::kUsage, "not our plugin: " + last_refusal());
  return reinterpret_cast<MakeTorchPolicy*>(factory);
}

}  // namespace

std::unique_ptr<Policy> make_torch_policy(const NetworkSpec& spec, const PolicyOptions& options) {
  static MakeTorchPolicy* const make = open_plugin();  // tried again after it threw
  return std::unique_ptr<Policy>(make(spec, options));
}

}  // namespace flotilla
