#include "flotilla/nn/make_policy.h"

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/fused/kernel_choice.h"

namespace flotilla {
namespace {

void require_one_of(const char* what, const std::string& word,
                    const std::vector<std::string>& words) {
  for (const std::string& known : words) {
    if (word == known) return;
  }
  throw Error(ErrorCode::kUsage, std::string(what) + ": expected one of " + join(words, ", ") +
                                     ", got " + in_quotes(word) + did_you_mean(word, words));
}

}  // namespace

std::unique_ptr<Policy> make_policy(const NetworkSpec& spec, const PolicyOptions& options) {
  if (options.factory) {
    std::unique_ptr<Policy> policy = options.factory(spec, options);
    if (policy != nullptr) return policy;
    throw Error(ErrorCode::kUsage, "the policy factory made no policy");
  }
  require_one_of("policy", options.kind, {"auto", "fused", "torch"});
  require_one_of("device", options.device, {"cpu", "cuda"});
  fused::kernels();  // a wrong FLOTILLA_KERNEL is refused here: the loss needs kernels in any case
  if (options.kind == "torch") return make_torch_policy(spec, options);

  const bool on_cpu = options.device == "cpu";
  const std::string refusal = fused_refusal(spec);
  if (options.kind == "fused") {
    if (!on_cpu) {
      throw Error(ErrorCode::kUsage, "the fused kernels run on the cpu, not on " + options.device +
                                         "; use policy=torch");
    }
    if (!refusal.empty()) {
      throw Error(ErrorCode::kUsage,
                  "the fused kernels cannot do this network: " + refusal + "; use policy=torch");
    }
  }
  if (on_cpu && refusal.empty()) return make_fused_policy(spec, options.parts, options.seed);
  return make_torch_policy(spec, options);
}

}  // namespace flotilla
