#include "flotilla/nn/c10d.h"

#include "flotilla/nn/torch/c10d_plugin.h"
#include "flotilla/nn/torch_loader.h"

namespace flotilla {

std::unique_ptr<Collective> meet(const Launch& launch, const MeetingOptions& options) {
  static auto* const make =
      reinterpret_cast<MeetByC10d*>(open_torch_plugin("libflotilla_c10d.so", kMeetByC10d));
  return std::unique_ptr<Collective>(make(launch, options));
}

}  // namespace flotilla
