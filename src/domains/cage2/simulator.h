// One step of the game, over any source of choices: what the environment trains on is the very code
// that is checked against the recordings of the reference simulator.
//
// A Source makes every choice and is told what happens, so that it can imitate the draws of the
// reference (exact_source.h), repeat a recording (recorded_source.h), or simply draw
// (random_source.h):
//
//   void begin(State&)                       a new game
//   void blue_acts(host)                     one of blue's sessions there acts
//   void decoy_starts(host)
//   void sessions_killed(host)               all flagged user-level ones
//   void host_restored(host)
//   int green_target()                       a host, or -1; asked only when green plays
//   void port_scanned(host, listeners)
//   int first_user()                         one of User1 to User4
//   int scan_target(HostSet)                 one of them; -1 where there is none
//   int escalation_target(HostSet)
//   int exploit_target(HostSet)
//   Exploit exploit(ExploitSet, host)        one of at least two
//   void exploit_connects(host)              the first event of a reverse shell
//   bool shell_detected(host)
//   void ssh_tried()
//   void ssh_entered(host)
//   void session_opened(host, flagged, privileged)
//   bool escalated_is_flagged(host, flagged, unflagged)   the session that becomes privileged
//   void impact_tried(host, sessions)        by one that is not privileged
#pragma once

#include "flotilla/domains/cage2/red_agents.h"
#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

struct Rules {
  bool legacy = false;       // the version behind the official leaderboard
  bool green = false;        // a user whose port scans get in the way
  bool stock_table = false;  // a decoy placed in this step hides a host's events
};

// What happened in a step, for recordings and pictures.
struct StepRecord {
  Success blue = Success::kUnknown;
  int green = -1;
  RedMove move;
  int exploit = -1;
  Success red = Success::kUnknown;
  int detected = -1;
  bool escalated = false;
  int cost = 0;  // tenths
};

template <class Source>
class Simulator {
 public:
  Simulator(State& state, const Rules& rules, Source& source)
      : s_(state), rules_(rules), source_(source) {}

  void reset(RedAgent red);
  StepRecord step(int blue_action);

 private:
  // The events of a step on one host, as far as blue's table looks at them.
  struct Events {
    int entries;
    PortSet ports;
    bool shell;  // remote port 4444
  };

  HostState& host(int index) { return s_.hosts[static_cast<size_t>(index)]; }
  const HostState& host(int index) const { return s_.hosts[static_cast<size_t>(index)]; }
  // In most steps there are none: they are set up where they are first needed.
  Events& events(int index) {
    Events& events = events_[static_cast<size_t>(index)];
    if ((with_events_ & bit(index)) == 0) events = Events{};
    with_events_ |= bit(index);
    return events;
  }

  bool routable(int subnet) const;

  Success blue_acts(int action);
  Success place_decoy(int decoy, int target);
  void restore(int target);
  void scan(int target);
  Success red_acts(const RedMove& move, StepRecord& record);
  Success exploit(int target, StepRecord& record);
  Success reverse_shell(int target, Exploit exploit, StepRecord& record);
  Success ssh_brute_force(int target);
  Success escalate(int target, StepRecord& record);
  Success impact();
  void open_session(int target, bool flagged, bool privileged);
  int cost(bool restored) const;
  void update_table(int action, Success blue);
  unsigned activity(const Events& seen, bool decoy_here) const;

  State& s_;
  const Rules& rules_;
  Source& source_;
  std::array<Events, kHosts> events_;  // of those in with_events_
  HostSet with_events_ = 0;
  bool malware_found_ = false;  // by blue's Analyse, before red acted
};

template <class Source>
void Simulator<Source>::reset(RedAgent red) {
  s_ = State{};
  s_.ot_running = true;
  s_.red = red;
  s_.last_action = RedAction::kSleep;
  s_.last_result = Success::kUnknown;
  s_.first_user = -1;
  s_.known_hosts = s_.known_names = bit(kUser0);
  s_.known_subnets = 1u << kUser;
  host(kUser0).privileged = 1;
  source_.begin(s_);
}

template <class Source>
StepRecord Simulator<Source>::step(int blue_action) {
  StepRecord record;
  record.blue = blue_acts(blue_action);
  if (rules_.green) {
    record.green = source_.green_target();
    if (record.green >= 0) scan(record.green);
  }
  record.move = decide(s_, source_);
  record.red = red_acts(record.move, record);
  s_.last_action = record.move.action;
  s_.last_target = static_cast<int8_t>(record.move.target);
  s_.last_result = record.red;
  const bool restored = blue_action >= blue_index(kRestore, 0);
  record.cost = cost(restored);
  update_table(blue_action, record.blue);
  return record;
}

template <class Source>
bool Simulator<Source>::routable(int subnet) const {
  if (subnet != kOperational) return true;
  return host(kEnterprise0).sessions() + host(kEnterprise1).sessions() +
             host(kEnterprise2).sessions() >
         0;
}

template <class Source>
Success Simulator<Source>::blue_acts(int action) {
  if (action == kSleep) return Success::kUnknown;
  if (action == kMonitor) return Success::kOk;
  const auto [group, target] = blue_action(action);
  source_.blue_acts(target);
  switch (group) {
    case kAnalyse:
      malware_found_ = host(target).malware;
      return Success::kOk;
    case kRemove:
      if (host(target).flagged > 0) source_.sessions_killed(target);
      host(target).flagged = 0;
      return Success::kOk;
    case kRestore:
      restore(target);
      return Success::kOk;
    default:
      return place_decoy(group - kFirstDecoy, target);
  }
}

template <class Source>
Success Simulator<Source>::place_decoy(int decoy, int target) {
  const DecoyRule& rule = kDecoyRules[static_cast<size_t>(decoy)];
  const bool windows = (kWindows & bit(target)) != 0;
  if (rule.os == Os::kWindows && !windows) return Success::kFail;
  if (rule.os == Os::kLinux && windows) return Success::kFail;
  if ((open_ports(target, host(target).decoys) & rule.must_be_free) != 0) return Success::kFail;
  host(target).decoys |= static_cast<uint8_t>(1u << static_cast<unsigned>(decoy));
  if (decoy == kVsftpd) {
    host(target).vsftpd = static_cast<uint8_t>(std::min(host(target).vsftpd + 1, 255));
  }
  source_.decoy_starts(target);
  return Success::kOk;
}

template <class Source>
void Simulator<Source>::restore(int target) {
  HostState& h = host(target);
  const PortSet remembered = h.remembered;
  const bool haraka_broken = rules_.legacy && (target == kUser3 || target == kUser4);
  h = HostState{};
  h.remembered = remembered;
  h.haraka_broken = haraka_broken;
  if (target == kUser0) h.privileged = 1;  // red's first session survives everything
  if (target == kOpServer0) {
    s_.ot_running = true;
    s_.ot_immune = true;  // the backup forgets the service's process
  }
  source_.host_restored(target);
}

template <class Source>
void Simulator<Source>::scan(int target) {
  const int count = listener_count(target, host(target));
  events(target).entries += count;
  events(target).ports |= open_ports(target, host(target).decoys);
  source_.port_scanned(target, count);
}

template <class Source>
Success Simulator<Source>::red_acts(const RedMove& move, StepRecord& record) {
  switch (move.action) {
    case RedAction::kDiscoverSystems:
      if (!routable(move.target)) return Success::kFail;
      s_.known_hosts |= kSubnetHosts[static_cast<size_t>(move.target)];
      return Success::kOk;
    case RedAction::kDiscoverServices: {
      s_.last_scan_empty = !routable(subnet_of(move.target));
      if (s_.last_scan_empty) return Success::kOk;
      PortSet& remembered = host(move.target).remembered;
      const auto seen =
          static_cast<PortSet>(open_ports(move.target, host(move.target).decoys) | kScanned);
      remembered = rules_.legacy ? static_cast<PortSet>(remembered | seen) : seen;
      scan(move.target);
      return Success::kOk;
    }
    case RedAction::kExploit: {
      const Success result = exploit(move.target, record);
      if (result == Success::kOk) s_.known_names |= bit(move.target);
      return result;
    }
    case RedAction::kEscalate:
      return escalate(move.target, record);
    case RedAction::kImpact:
      return impact();
    case RedAction::kSleep:
      return Success::kUnknown;
  }
  return Success::kUnknown;
}

template <class Source>
Success Simulator<Source>::exploit(int target, StepRecord& record) {
  const ExploitSet options = options_of(host(target).remembered);
  if (options == 0) return Success::kFail;
  const Exploit chosen = std::has_single_bit(options)
                             ? static_cast<Exploit>(std::countr_zero(options))
                             : source_.exploit(options, target);
  record.exploit = chosen;
  if (!routable(subnet_of(target))) return Success::kFail;
  return chosen == kSshBruteForce ? ssh_brute_force(target) : reverse_shell(target, chosen, record);
}

template <class Source>
Success Simulator<Source>::reverse_shell(int target, Exploit exploit, StepRecord& record) {
  const Weakness& weakness = kWeakness[static_cast<size_t>(target)];
  const bool real = (weakness.real & exploit_bit(exploit)) != 0;
  const PortSet port = kExploitPort[static_cast<size_t>(exploit)];
  bool decoy = false;
  for (unsigned left = host(target).decoys; left != 0; left &= left - 1) {
    decoy |= kDecoyRules[static_cast<size_t>(std::countr_zero(left))].attracts == exploit;
  }
  if (!real && !decoy) return Success::kFail;
  Events& seen = events(target);
  ++seen.entries;
  seen.ports |= port;
  source_.exploit_connects(target);
  if (!real) {  // real listeners come before decoys
    ++seen.entries;
    return Success::kFail;
  }
  if (exploit == kHarakaRce && host(target).haraka_broken) return Success::kFail;
  const bool detected = source_.shell_detected(target);
  record.detected = detected ? 1 : 0;
  if (detected) {
    ++seen.entries;
    seen.ports |= kRandomPort;
    seen.shell = true;
  }
  host(target).malware = true;
  open_session(target, detected, (weakness.privileged & exploit_bit(exploit)) != 0);
  return Success::kOk;
}

template <class Source>
Success Simulator<Source>::ssh_brute_force(int target) {
  const bool real =
      (kWeakness[static_cast<size_t>(target)].real & exploit_bit(kSshBruteForce)) != 0;
  const bool decoy = (host(target).decoys & (1u << static_cast<unsigned>(kSshd))) != 0;
  if (!real && !decoy) return Success::kFail;
  events(target).entries += 10;
  events(target).ports |= kPort22;
  source_.ssh_tried();
  if (!real || target == kDefender) return Success::kFail;  // no account to guess
  ++events(target).entries;
  source_.ssh_entered(target);
  open_session(target, false, false);
  return Success::kOk;
}

template <class Source>
void Simulator<Source>::open_session(int target, bool flagged, bool privileged) {
  HostState& h = host(target);
  uint8_t& count = privileged ? h.privileged : flagged ? h.flagged : h.unflagged;
  count = static_cast<uint8_t>(std::min(count + 1, 255));
  source_.session_opened(target, flagged, privileged);
}

template <class Source>
Success Simulator<Source>::escalate(int target, StepRecord& record) {
  HostState& h = host(target);
  if (h.sessions() == 0) return Success::kFail;
  if (h.privileged == 0) {
    const bool flagged = source_.escalated_is_flagged(target, h.flagged, h.unflagged);
    --(flagged ? h.flagged : h.unflagged);
    h.privileged = 1;
    h.malware = true;
    record.escalated = true;
  }
  s_.known_subnets |= static_cast<SubnetSet>(1u << static_cast<unsigned>(subnet_of(target)));
  switch (target) {  // what is found there
    case kUser1:
    case kUser2:
      s_.known_hosts |= bit(kEnterprise1);
      break;
    case kUser3:
    case kUser4:
      s_.known_hosts |= bit(kEnterprise0);
      break;
    case kEnterprise2:
      s_.known_hosts |= bit(kOpServer0);
      break;
    case kOpServer0:
      s_.ot_known = true;
      break;
    default:
      break;
  }
  return Success::kOk;
}

template <class Source>
Success Simulator<Source>::impact() {
  const HostState& server = host(kOpServer0);
  if (server.sessions() > 0 && server.privileged == 0) {
    source_.impact_tried(kOpServer0, server.sessions());
  }
  if (server.sessions() == 0 || !s_.ot_known) return Success::kFail;
  if (!s_.ot_immune) s_.ot_running = false;
  return Success::kOk;
}

template <class Source>
int Simulator<Source>::cost(bool restored) const {
  int tenths = restored ? kRestoreCost : 0;
  if (!s_.ot_running) tenths += kOtDownCost;
  for (int h = 0; h < kHosts; ++h) {
    if (host(h).privileged > 0) tenths += kConfidentiality[static_cast<size_t>(h)];
  }
  return tenths;
}

template <class Source>
unsigned Simulator<Source>::activity(const Events& seen, bool decoy_here) const {
  const int entries = seen.entries + (decoy_here ? 1 : 0);
  const int ports = std::popcount(seen.ports);
  if (entries >= 3 && ports >= 3) return kScan;
  if (seen.shell) return kExploitActivity;
  if (entries >= 3 && ports == 1) return kExploitActivity;
  if (rules_.stock_table && decoy_here) return kNoActivity;
  return kScan;
}

template <class Source>
void Simulator<Source>::update_table(int action, Success blue) {
  // Activities are of this step alone, beliefs stay.
  constexpr uint64_t kBeliefs = 0x3333333333333;
  uint64_t table = s_.table & kBeliefs;
  const auto set_belief = [&table](int h, unsigned belief) {
    const unsigned at = 4 * static_cast<unsigned>(h);
    table = (table & ~(uint64_t{3} << at)) | (uint64_t{belief} << at);
  };
  const auto [group, target] = action >= 2 ? blue_action(action) : BlueAction{-1, -1};
  if (group == kRestore) set_belief(target, kNotCompromised);
  if (group == kRemove && s_.belief(target) != kNotCompromised) {
    set_belief(target, kUnknownAccess);
  }
  const bool decoy = group >= kFirstDecoy && group < kRestore && blue == Success::kOk;
  for (unsigned left = with_events_; left != 0; left &= left - 1) {
    const int h = std::countr_zero(left);
    const unsigned seen = activity(events(h), decoy && h == target);
    table |= uint64_t{seen} << (4 * static_cast<unsigned>(h) + 2);
    if (seen == kExploitActivity) set_belief(h, kUserAccess);
  }
  if (malware_found_) set_belief(target, kPrivilegedAccess);
  s_.table = table;
}

}  // namespace flotilla::cage2
