// Choices as the reference simulator draws them, from the integer seed of an episode: Python's
// generator, called in the same order for the same things, down to process numbers and ports that
// nobody sees.
#pragma once

#include <vector>

#include "flotilla/domains/cage2/python_random.h"
#include "flotilla/domains/cage2/session_ledger.h"

namespace flotilla::cage2 {

class ExactSource {
 public:
  explicit ExactSource(uint32_t seed) : random_(seed) {}

  void begin(const State&);
  void blue_acts(int host) { random_.below(host == kDefender ? 2 : 1); }
  void decoy_starts(int host);
  void sessions_killed(int host);
  void host_restored(int host);
  int green_target();
  void port_scanned(int host, int listeners);
  int first_user() { return kUser1 + static_cast<int>(random_.below(4)); }
  int scan_target(HostSet hosts);
  int escalation_target(HostSet hosts);
  int exploit_target(HostSet hosts) const { return first_of(order_, hosts); }
  Exploit exploit(ExploitSet options, int host);
  void exploit_connects(int host) { draw_port(host); }
  bool shell_detected(int host);
  void ssh_tried();
  void ssh_entered(int host);
  void session_opened(int host, bool flagged, bool privileged);
  bool escalated_is_flagged(int host, int flagged, int unflagged);
  void impact_tried(int, int sessions) { random_.below(static_cast<uint32_t>(sessions)); }

  int last_ordinal() const { return last_ordinal_; }  // of the session that was escalated last

 private:
  struct Machine {
    std::vector<int> processes, processes_after_reset, ports;
  };

  Machine& machine(int host) { return machines_[static_cast<size_t>(host)]; }
  int draw_process(int host);
  void draw_port(int host);
  std::vector<int> shuffled_hosts();
  static int first_of(const std::vector<int>& order, HostSet hosts);

  PythonRandom random_;
  SessionLedger ledger_;
  std::array<Machine, kHosts> machines_;
  std::vector<int> order_;  // Meander's permutation of this step
  int new_process_ = 0;
  int last_ordinal_ = -1;
};

}  // namespace flotilla::cage2
