#include "flotilla/nn/fused/kernel_choice.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "flotilla/core/error.h"

namespace flotilla::fused {

std::span<const Kernels* const> compiled_kernels(Precision precision) {
#if defined(__x86_64__) && defined(FLOTILLA_SANITIZED)
  static constexpr std::array kFp32 = {&kAvx512, &kAvx2, &kPortable};
  static constexpr std::array kBf16 = {&kAmxBf16, &kAvx512Bf16, &kAvx2Bf16, &kPortableBf16};
#elif defined(__x86_64__)
  static constexpr std::array kFp32 = {&kAvx512, &kAvx2, &kNeon, &kPortable};
  static constexpr std::array kBf16 = {&kAmxBf16, &kAvx512Bf16, &kAvx2Bf16, &kNeonBf16,
                                       &kPortableBf16};
#elif defined(__aarch64__)
  static constexpr std::array kFp32 = {&kNeon, &kPortable};
  static constexpr std::array kBf16 = {&kNeonBf16, &kPortableBf16};
#else
  static constexpr std::array kFp32 = {&kPortable};
  static constexpr std::array kBf16 = {&kPortableBf16};
#endif
  if (precision == Precision::kBf16) return kBf16;
  return kFp32;
}

bool can_run([[maybe_unused]] const Kernels& kernels) {
#if defined(__x86_64__)
  const std::string_view name = kernels.name;
  if (name == "amx") return has_amx();
  if (name == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  }
  if (name == "avx2") return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (name == "neon") return __builtin_cpu_supports("fma");
#endif
  return true;  // every ARM of 64 bits has NEON
}

namespace {

bool find_amx() {
#if defined(__x86_64__)
  constexpr unsigned kBf16 = 1u << 22u, kTile = 1u << 24u;  // leaf 7, edx
  constexpr unsigned kAvx512Bf16 = 1u << 5u;                // leaf 7.1, eax
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kBf16) == 0 || (edx & kTile) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((eax & kAvx512Bf16) == 0 || !can_run(kAvx512)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // of arch_prctl
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::string asked_for() {
  const char* asked = std::getenv("FLOTILLA_KERNEL");
  return asked == nullptr ? "" : asked;
}

const Kernels& pick(Precision precision) {
  const std::string asked = asked_for();
  std::string wanted = asked;
  if (precision == Precision::kFp32 && asked == "amx" && has_amx()) wanted = "avx512";
  for (const Kernels* kernels : compiled_kernels(precision)) {
    if ((wanted.empty() || wanted == kernels->name) && can_run(*kernels)) return *kernels;
  }
  for (const char* known : {"amx", "avx512", "avx2", "neon", "portable"}) {
    if (asked == known)
      throw Error(ErrorCode::kUsage, "FLOTILLA_KERNEL: this CPU cannot run " + asked);
  }
  throw Error(ErrorCode::kUsage, "FLOTILLA_KERNEL: unknown kernel '" + asked +
                                     "' (amx, avx512, avx2, neon, portable)");
}

}  // namespace

bool has_amx() {
  static const bool has = find_amx();
  return has;
}

bool may_use_amx() {
  static const bool may = asked_for().empty() || asked_for() == "amx";
  return may && has_amx();
}

const Kernels& kernels(Precision precision) {
  if (precision == Precision::kBf16) {
    static const Kernels& best = pick(Precision::kBf16);
    return best;
  }
  static const Kernels& best = pick(Precision::kFp32);
  return best;
}

}  // namespace flotilla::fused
