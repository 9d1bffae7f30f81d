#include "flotilla/domains/cage2/observation.h"

#include <cstring>

namespace flotilla::cage2 {
namespace {

constexpr std::array<int8_t, kScanHosts> kFollowed = {
    kDefender, kEnterprise0, kEnterprise1, kEnterprise2, kOpServer0,
    kUser0,    kUser1,       kUser2,       kUser3,       kUser4};

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

}  // namespace

void note_scans(State& s) {
  for (int host = 0; host < kHosts; ++host) {
    const unsigned activity = s.activity(host);
    if (activity == kScan) s.ever_scanned |= bit(host);
    if (activity == kExploitActivity) s.ever_exploited |= bit(host);
  }
  for (size_t i = 0; i < kScanHosts; ++i) {
    if (s.activity(kFollowed[i]) != kScan) continue;
    for (uint8_t& each : s.scan_state) each = each == 2 ? 1 : each;
    s.scan_state[i] = 2;
    return;
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

}  // namespace flotilla::cage2
