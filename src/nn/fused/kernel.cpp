#include "flotilla/nn/fused/kernel.h"

#include <cstdlib>
#include <string>

#include "flotilla/core/error.h"

namespace flotilla::fused {

bool can_run(const Kernels& kernels) {
#if defined(__x86_64__)
  if (&kernels == &kAvx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  }
  if (&kernels == &kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return true;
#else
  return &kernels == &kPortable;
#endif
}

namespace {

const Kernels& pick() {
  const Kernels* const all[] = {&kAvx512, &kAvx2, &kPortable};
  const char* asked = std::getenv("FLOTILLA_KERNEL");
  for (const Kernels* kernels : all) {
    if (asked == nullptr ? can_run(*kernels) : std::string(asked) == kernels->name) {
      if (can_run(*kernels)) return *kernels;
      throw Error(ErrorCode::kUsage,
                  std::string("FLOTILLA_KERNEL: this CPU cannot run ") + kernels->name);
    }
  }
  throw Error(ErrorCode::kUsage, std::string("FLOTILLA_KERNEL: unknown kernel '") + asked +
                                     "' (avx512, avx2, portable)");
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& best = pick();
  return best;
}

}  // namespace flotilla::fused
