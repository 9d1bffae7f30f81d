// Everything one game is at between two steps: the true state, what red knows and means to do, the
// table that blue sees, and counters. A plain value of under 200 bytes.
//
// Sessions are counted, not listed: who is who matters only for the draws of the reference
// simulator, and is kept by the source of choices that imitates them (exact_source.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "flotilla/domains/cage2/network.h"

namespace flotilla::cage2 {

enum class RedAgent : uint8_t { kBLine, kMeander, kSleep };
enum class RedAction : uint8_t {
  kDiscoverSystems,
  kDiscoverServices,
  kExploit,
  kEscalate,
  kImpact,
  kSleep
};
enum class Success : uint8_t { kFail, kOk, kUnknown };

// What blue believes of a host: two bits.
enum Belief : unsigned {
  kNotCompromised = 0,
  kUserAccess = 1,
  kUnknownAccess = 2,
  kPrivilegedAccess = 3
};
// What blue saw on it in the last step: two bits.
enum Activity : unsigned { kNoActivity = 0, kScan = 2, kExploitActivity = 3 };

// Red's sessions on a host, and what else it carries.
struct HostState {
  uint8_t flagged;    // user-level, its shell was noticed: Remove ends it
  uint8_t unflagged;  // user-level, stays
  uint8_t privileged;
  uint8_t vsftpd;  // how many of them
  uint8_t decoys;  // one bit each
  bool malware;
  bool haraka_broken;  // in version legacy, after a Restore
  PortSet remembered;  // by red, with kScanned

  int users() const { return flagged + unflagged; }
  int sessions() const { return users() + privileged; }
};

constexpr int kScanHosts = 10;  // whose scans bits62 follows
constexpr int kDecoyHosts = 9;  // that the reduced actions place decoys on

// What blue remembers of a host that it can place decoys on. Ages are in steps, 1: the last one;
// 0: it never happened.
struct HostMemory {
  uint8_t scanned, exploited, fixed;                // ages
  uint8_t decoys_at_first : 4, decoys_at_last : 4;  // how many a scan of it could see
};

struct State {
  std::array<HostState, kHosts> hosts;
  bool ot_running, ot_immune;

  // Red.
  RedAgent red;
  RedAction last_action;
  int8_t last_target;
  Success last_result;
  bool last_scan_empty;
  bool ot_known;
  // B_line
  uint8_t position;
  int8_t first_user;  // -1: not chosen yet
  bool server_exploit_fixed;
  // Meander
  HostSet known_hosts, known_names, scanned, exploited, escalated, owned;
  SubnetSet known_subnets, scanned_subnets;

  // Blue.
  uint64_t table;  // four bits per host: activity, belief
  std::array<uint8_t, kScanHosts> scan_state;
  std::array<uint8_t, kDecoyHosts> decoys_placed;  // of each list, by the reduced actions
  HostSet ever_scanned, ever_exploited;            // as far as blue could see

  // Of the episode.
  int32_t cost;  // tenths
  uint16_t steps, fixes, restores, impacts, first_privileged;
  uint16_t compliant;   // fixes that keep to the workflow
  uint8_t fixed_units;  // types of hosts that were fixed, one bit each

  bool legacy;                                 // of the episode, where the version is drawn
  std::array<HostMemory, kDecoyHosts> memory;  // where it is shown

  unsigned activity(int host) const { return nibble(host) >> 2u; }
  unsigned belief(int host) const { return nibble(host) & 3u; }
  unsigned nibble(int host) const {
    return static_cast<unsigned>(table >> (4 * static_cast<unsigned>(host))) & 15u;
  }
};
static_assert(sizeof(State) <= 256);

// Sockets that a scan of the host reports.
inline int listener_count(int host, const HostState& state) {
  const unsigned others = state.decoys & ~(1u << static_cast<unsigned>(kVsftpd));
  return kListening[static_cast<size_t>(host)].listeners + std::popcount(others) + state.vsftpd;
}

}  // namespace flotilla::cage2
