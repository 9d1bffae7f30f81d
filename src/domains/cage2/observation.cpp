#include "flotilla/domains/cage2/observation.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "flotilla/domains/cage2/actions.h"
#include "flotilla/domains/cage2/compliance.h"

namespace flotilla::cage2 {
namespace {

// Where scan_state follows a host, or -1.
constexpr std::array<int8_t, kHosts> kFollowed = [] {
  std::array<int8_t, kHosts> places{};
  int8_t next = 0;
  for (int host = 0; host < kHosts; ++host) {
    const bool followed = host < kOpHost0 || host >= kOpServer0;
    places[static_cast<size_t>(host)] = followed ? next++ : static_cast<int8_t>(-1);
  }
  return places;
}();

// Four numbers per nibble, the highest bit first.
constexpr auto kBits = [] {
  std::array<std::array<float, 4>, 16> table{};
  for (unsigned nibble = 0; nibble < 16; ++nibble) {
    for (unsigned i = 0; i < 4; ++i) table[nibble][i] = (nibble >> (3 - i)) & 1u ? 1.0F : 0.0F;
  }
  return table;
}();

struct HostDecoy {
  int8_t host, decoy;
};
constexpr auto kFreshDecoys = [] {
  std::array<HostDecoy, kPossibleDecoys> pairs{};
  size_t at = 0;
  for (int decoy = 0; decoy < kDecoys; ++decoy) {
    const DecoyRule& rule = kDecoyRules[static_cast<size_t>(decoy)];
    for (int host = 0; host < kHosts; ++host) {
      const bool windows = (kWindows & bit(host)) != 0;
      const bool runs = rule.os == Os::kAny || (rule.os == Os::kWindows) == windows;
      if (!runs || (open_ports(host, 0) & rule.must_be_free) != 0) continue;
      pairs.at(at++) = {static_cast<int8_t>(host), static_cast<int8_t>(decoy)};
    }
  }
  if (at != kPossibleDecoys) throw "another number of decoys";  // at compile time
  return pairs;
}();

// A trace by its age: 1 in the step of the event, 0 where there was none.
constexpr auto kTrace = [] {
  std::array<float, 256> table{};
  table[1] = 1;
  for (size_t age = 2; age < table.size(); ++age) table[age] = kTraceDecay * table[age - 1];
  return table;
}();

void grow(uint8_t& age) {
  if (age != 0) age = static_cast<uint8_t>(std::min(age + 1, 255));
}

}  // namespace

void note_scans(State& s) {
  constexpr uint64_t kAnyActivity = 0x8888888888888;  // its higher bit
  int latest = -1;                                    // the first host whose scan is followed
  for (uint64_t left = s.table & kAnyActivity; left != 0; left &= left - 1) {
    const int host = std::countr_zero(left) / 4;
    if (s.activity(host) == kExploitActivity) {
      s.ever_exploited |= bit(host);
      continue;
    }
    s.ever_scanned |= bit(host);
    if (latest < 0) latest = kFollowed[static_cast<size_t>(host)];
  }
  if (latest < 0) return;
  for (uint8_t& each : s.scan_state) each = each == 2 ? 1 : each;
  s.scan_state[static_cast<size_t>(latest)] = 2;
}

void note_memory(int action, State& s) {
  const bool fix = is_fix(action);
  for (size_t i = 0; i < kDecoyHosts; ++i) {
    const int host = kDecoyLists[i].host;
    HostMemory& memory = s.memory[i];
    for (uint8_t* age : {&memory.scanned, &memory.exploited, &memory.fixed}) grow(*age);
    if (fix && blue_action(action).host == host) memory.fixed = 1;
    if (s.activity(host) == kExploitActivity) memory.exploited = 1;
    if (s.activity(host) != kScan) continue;
    const int decoys = std::popcount(s.hosts[static_cast<size_t>(host)].decoys);
    memory.decoys_at_last = static_cast<uint8_t>(decoys) & 15u;
    if (memory.scanned == 0) memory.decoys_at_first = memory.decoys_at_last;
    memory.scanned = 1;
  }
}

void write_table(const State& s, std::span<float> out) {
  uint64_t table = s.table;
  for (size_t host = 0; host < kHosts; ++host, table >>= 4u) {
    std::memcpy(out.data() + 4 * host, kBits[table & 15u].data(), sizeof(kBits[0]));
  }
}

void write_scans(const State& s, std::span<float> out) {
  write_table(s, out);
  for (size_t i = 0; i < kScanHosts; ++i) out[kTableBits + i] = s.scan_state[i];
}

void write_full(const State& s, std::span<float> out) {
  write_scans(s, out);
  size_t at = kScanObs;
  for (const HostSet set : {s.ever_scanned, s.ever_exploited}) {
    for (int host = 0; host < kHosts; ++host) out[at++] = (set & bit(host)) != 0 ? 1.0F : 0.0F;
  }
  for (const HostDecoy& pair : kFreshDecoys) {
    const unsigned decoys = s.hosts[static_cast<size_t>(pair.host)].decoys;
    out[at++] = (decoys >> static_cast<unsigned>(pair.decoy)) & 1u ? 1.0F : 0.0F;
  }
  out[at++] = static_cast<float>(s.steps) / 100;
  out[at] = s.ot_immune ? 1.0F : 0.0F;
}

void write_memory(const State& s, std::span<float> out) {
  constexpr float kMostDecoys = 4;
  write_full(s, out);
  size_t at = kFullObs;
  for (const HostMemory& memory : s.memory) {
    for (const uint8_t age : {memory.scanned, memory.exploited, memory.fixed}) {
      out[at++] = kTrace[age];
    }
    out[at++] = memory.decoys_at_first / kMostDecoys;
    out[at++] = memory.decoys_at_last / kMostDecoys;
  }
}

}  // namespace flotilla::cage2
