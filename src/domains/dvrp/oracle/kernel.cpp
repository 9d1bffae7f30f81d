#include "flotilla/domains/dvrp/oracle/kernel.h"

#include <cstdlib>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "flotilla/nn/fused/kernel.h"

namespace flotilla::dvrp {
namespace {

// Also asks the kernel for the use of tiles, which it grants to a process and its children.
bool has_amx() {
#if defined(__x86_64__)
  constexpr unsigned kBf16 = 1u << 22u, kTile = 1u << 24u;  // leaf 7, edx
  constexpr unsigned kAvx512Bf16 = 1u << 5u;                // leaf 7.1, eax
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kBf16) == 0 || (edx & kTile) == 0) return false;
  if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) == 0 || (eax & kAvx512Bf16) == 0)
    return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

bool can_run(const OracleKernels& kernels) {
  if (&kernels == &kOracleAmx) {
    static const bool has = has_amx() && fused::can_run(fused::kAvx512);
    return has;
  }
  return fused::can_run(&kernels == &kOracleAvx512 ? fused::kAvx512
                        : &kernels == &kOracleAvx2 ? fused::kAvx2
                                                   : fused::kPortable);
}

const OracleKernels& oracle_kernels() {
  const fused::Kernels& best = fused::kernels();
  if (&best == &fused::kPortable) return kOraclePortable;
  if (&best == &fused::kAvx2) return kOracleAvx2;
  const bool asked = std::getenv("FLOTILLA_KERNEL") != nullptr;
  return !asked && can_run(kOracleAmx) ? kOracleAmx : kOracleAvx512;
}

}  // namespace flotilla::dvrp
