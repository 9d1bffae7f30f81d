// Choices as a recording says they were made. Where it says something that cannot be, the nearest
// possible choice is made, and the comparison of the step will tell.
#pragma once

#include "flotilla/domains/cage2/red_agents.h"
#include "flotilla/domains/cage2/session_ledger.h"

namespace flotilla::cage2 {

// What a recording tells of a step's choices.
struct RecordedChoices {
  int green = -1;
  RedMove move;
  int exploit = -1;
  bool detected = false;
  int escalated = -1;  // ordinal of the session
};

class RecordedSource {
 public:
  void set(const RecordedChoices& choices) { choices_ = choices; }

  void begin(const State&) {
    ledger_.begin();
    ledger_.open(kUser0, false, true, 0);
  }
  int green_target() const { return choices_.green; }
  int first_user() const {
    const int target = choices_.move.target;
    return target >= kUser1 && target <= kUser4 ? target : kUser1;
  }
  int scan_target(HostSet hosts) const { return pick(RedAction::kDiscoverServices, hosts); }
  int escalation_target(HostSet hosts) const { return pick(RedAction::kEscalate, hosts); }
  int exploit_target(HostSet hosts) const { return pick(RedAction::kExploit, hosts); }
  Exploit exploit(ExploitSet options, int) const {
    const bool possible = choices_.exploit >= 0 && (options & exploit_bit(choices_.exploit)) != 0;
    return static_cast<Exploit>(possible ? choices_.exploit : std::countr_zero(options));
  }
  bool shell_detected(int) const { return choices_.detected; }
  bool escalated_is_flagged(int host, int, int) {
    std::vector<SessionLedger::Session>& sessions = ledger_.at(host);
    const auto last = static_cast<int>(sessions.size()) - 1;
    SessionLedger::Session& chosen =
        sessions[static_cast<size_t>(std::clamp(choices_.escalated, 0, last))];
    chosen.privileged = true;
    return chosen.flagged;
  }
  void sessions_killed(int host) { ledger_.kill_flagged(host); }
  void host_restored(int host) { ledger_.restore(host); }
  void session_opened(int host, bool flagged, bool privileged) {
    ledger_.open(host, flagged, privileged, 0);
  }

  void blue_acts(int) {}
  void decoy_starts(int) {}
  void port_scanned(int, int) {}
  void exploit_connects(int) {}
  void ssh_tried() {}
  void ssh_entered(int) {}
  void impact_tried(int, int) {}

 private:
  int pick(RedAction action, HostSet hosts) const {
    if (hosts == 0) return -1;
    const int target = choices_.move.target;
    const bool possible = choices_.move.action == action && target >= 0 && target < kHosts &&
                          (hosts & bit(target)) != 0;
    return possible ? target : std::countr_zero(hosts);
  }

  SessionLedger ledger_;
  RecordedChoices choices_;
};

}  // namespace flotilla::cage2
