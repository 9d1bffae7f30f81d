#include "flotilla/domains/cage2/actions.h"

#include <cstring>

namespace flotilla::cage2 {
namespace {

// Which decoys can be placed on a host that has these, one bit each.
constexpr auto kPossible = [] {
  std::array<std::array<uint8_t, 256>, kHosts> table{};
  for (int host = 0; host < kHosts; ++host) {
    const bool windows = (kWindows & bit(host)) != 0;
    for (unsigned placed = 0; placed < 256; ++placed) {
      const PortSet ports = open_ports(host, placed);
      unsigned possible = 0;
      for (unsigned decoy = 0; decoy < kDecoys; ++decoy) {
        const DecoyRule& rule = kDecoyRules[decoy];
        const bool runs = rule.os == Os::kAny || (rule.os == Os::kWindows) == windows;
        if (runs && (ports & rule.must_be_free) == 0) possible |= 1u << decoy;
      }
      table[static_cast<size_t>(host)][placed] = static_cast<uint8_t>(possible);
    }
  }
  return table;
}();

// A bit per byte, the lowest first.
constexpr auto kSpread = [] {
  std::array<std::array<uint8_t, 8>, 256> table{};
  for (unsigned bits = 0; bits < 256; ++bits) {
    for (unsigned i = 0; i < 8; ++i) table[bits][i] = (bits >> i) & 1u;
  }
  return table;
}();

// Bit j of byte i becomes bit i of byte j: Warren, "Hacker's Delight" (2012), section 7-3.
constexpr uint64_t transposed(uint64_t x) {
  const auto exchange = [&x](unsigned distance, uint64_t mask) {
    const uint64_t differing = (x ^ (x >> distance)) & mask;
    x ^= differing ^ (differing << distance);
  };
  exchange(7, 0x00AA00AA00AA00AA);
  exchange(14, 0x0000CCCC0000CCCC);
  exchange(28, 0x00000000F0F0F0F0);
  return x;
}
static_assert(transposed(0x0000000000000080) == 0x0100000000000000);
static_assert(transposed(0x0300000000000000) == 0x0000000000008080);

}  // namespace

const std::array<uint8_t, kRawActions> kRawActionList = {133, 134, 135, 139, 3,  4,  5,  9,   16,
                                                         17,  18,  22,  11,  12, 13, 14, 141, 142,
                                                         143, 144, 132, 2,   15, 24, 25, 26,  27};

const std::array<DecoyList, kDecoyHosts> kDecoyLists = {
    DecoyList{kEnterprise0, {55, 107, 120, 29}, 4},
    {kEnterprise1, {43}, 1},
    {kEnterprise2, {44}, 1},
    {kUser1, {37, 115, 76, 102}, 4},
    {kUser2, {51, 116, 38, 90}, 4},
    {kUser3, {130, 91}, 2},
    {kUser4, {131}, 1},
    {kDefender, {54, 106, 28, 119}, 4},
    {kOpServer0, {61, 35, 113, 126}, 4}};

int expand_action(int reduced, State& state) {
  if (reduced < kRawActions) return kRawActionList[static_cast<size_t>(reduced)];
  const auto index = static_cast<size_t>(reduced - kRawActions);
  const DecoyList& list = kDecoyLists[index];
  uint8_t& placed = state.decoys_placed[index];
  if (placed >= list.count) return list.actions[0];
  return list.actions[placed++];
}

void note_restore(int action, State& state) {
  if (action < blue_index(kRestore, 0)) return;
  for (size_t i = 0; i < kDecoyHosts; ++i) {
    if (kDecoyLists[i].host == blue_action(action).host) state.decoys_placed[i] = 0;
  }
}

void mask_reduced(const State& state, std::span<uint8_t> mask) {
  std::memset(mask.data(), 1, kRawActions);
  for (size_t i = 0; i < kDecoyHosts; ++i) {
    mask[kRawActions + i] = state.decoys_placed[i] < kDecoyLists[i].count ? 1 : 0;
  }
}

// Decoys by host become hosts by decoy, and sixteen stores do for a hundred.
void mask_full(const State& state, std::span<uint8_t> mask) {
  uint64_t low = 0, high = 0;  // a byte per host
  for (unsigned host = 0; host < kHosts; ++host) {
    const uint64_t possible = kPossible[host][state.hosts[host].decoys];
    (host < 8 ? low : high) |= possible << (8 * (host % 8));
  }
  low = transposed(low);
  high = transposed(high);
  constexpr size_t kBefore = 2 + kHosts * static_cast<size_t>(kFirstDecoy);
  std::memset(mask.data(), 1, kBefore);
  uint8_t* out = mask.data() + kBefore;
  for (unsigned decoy = 0; decoy < kDecoys; ++decoy, out += kHosts) {
    std::memcpy(out, kSpread[(low >> (8 * decoy)) & 255u].data(), 8);
    // Three bytes too many, which the next ones overwrite.
    std::memcpy(out + 8, kSpread[(high >> (8 * decoy)) & 255u].data(), 8);
  }
  std::memset(out, 1, kHosts);
}

}  // namespace flotilla::cage2
