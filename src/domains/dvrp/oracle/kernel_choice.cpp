#include "flotilla/domains/dvrp/oracle/kernel_choice.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "flotilla/nn/fused/kernel_choice.h"

namespace flotilla::dvrp {

namespace {

bool same_name(const OracleKernels& kernels, const fused::Kernels& others) {
  return std::string_view(kernels.name) == others.name;
}

}  // namespace

std::span<const OracleKernels* const> compiled_oracle_kernels() {
#if defined(__x86_64__) && defined(FLOTILLA_SANITIZED)
  static constexpr std::array kAll = {&kOracleAmx, &kOracleAvx512, &kOracleAvx2, &kOraclePortable};
#elif defined(__x86_64__)
  static constexpr std::array kAll = {&kOracleAmx, &kOracleAvx512, &kOracleAvx2, &kOracleNeon,
                                      &kOraclePortable};
#elif defined(__aarch64__)
  static constexpr std::array kAll = {&kOracleNeon, &kOraclePortable};
#else
  static constexpr std::array kAll = {&kOraclePortable};
#endif
  return kAll;
}

bool multiplies_coarsely(const OracleKernels& kernels) {
  return std::string_view(kernels.name) == "amx";
}

bool can_run(const OracleKernels& kernels) {
  if (multiplies_coarsely(kernels)) return fused::has_amx();
  return std::ranges::any_of(fused::compiled_kernels(), [&](const fused::Kernels* others) {
    return same_name(kernels, *others) && fused::can_run(*others);
  });
}

const OracleKernels& oracle_kernels() {
  const auto fits = [](const OracleKernels* kernels) {
    return multiplies_coarsely(*kernels) ? fused::may_use_amx()
                                         : same_name(*kernels, fused::kernels());
  };
  return **std::ranges::find_if(compiled_oracle_kernels(), fits);
}

}  // namespace flotilla::dvrp
