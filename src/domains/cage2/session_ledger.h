// Red's sessions one by one, in the order in which they were opened: for the sources that name the
// one that is chosen.
#pragma once

#include <algorithm>
#include <vector>

#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

class SessionLedger {
 public:
  struct Session {
    bool flagged, privileged;
    int process;
  };

  void begin() {
    for (auto& sessions : hosts_) sessions.clear();
  }
  std::vector<Session>& at(int host) { return hosts_[static_cast<size_t>(host)]; }
  void open(int host, bool flagged, bool privileged, int process) {
    at(host).push_back({flagged, privileged, process});
  }
  void kill_flagged(int host) {
    std::erase_if(at(host), [](const Session& each) { return each.flagged && !each.privileged; });
  }
  // All but red's first one.
  void restore(int host) { at(host).resize(host == kUser0 ? 1 : 0); }

 private:
  std::array<std::vector<Session>, kHosts> hosts_;
};

}  // namespace flotilla::cage2
