#include "flotilla/cli/processes.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/error.h"
#include "flotilla/core/refusal.h"

namespace flotilla {

Processes::Processes(const MeetingOptions& options) : launch_(launch_from_environment()) {
  if (!launch_) return;
  keep_to_own_gpu(*launch_);
  others_ = meet(*launch_, options);
}

int Processes::on_this_host() const {
  if (!launch_) return 1;
  return launch_->one_host() ? launch_->size : std::max(launch_->local_size, 1);
}

void Processes::require_same(const std::string& what, const std::string& text) const {
  const auto texts = gather_bytes(all(), std::as_bytes(std::span(text.data(), text.size())));
  for (size_t r = 1; r < texts.size(); ++r) {
    if (texts[r] == texts[0]) continue;
    throw Error(ErrorCode::kUsage, fmt::format("rank {} has another {} than rank 0", r, what));
  }
}

void Processes::run(const std::function<void()>& work) const {
  try {
    work();
  } catch (const std::exception& exception) {
    all().fail(as_error(exception));
    throw;
  }
  all().end();
}

}  // namespace flotilla
