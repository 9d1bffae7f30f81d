// The network of CAGE Challenge 2 ("Scenario2"): hosts, subnets, what listens where, what each
// exploit and decoy needs. Facts of the reference simulator; docs/cage2.md tells them in words.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace flotilla::cage2 {

enum Host : int {
  kDefender,
  kEnterprise0,
  kEnterprise1,
  kEnterprise2,
  kOpHost0,
  kOpHost1,
  kOpHost2,
  kOpServer0,
  kUser0,
  kUser1,
  kUser2,
  kUser3,
  kUser4
};
constexpr int kHosts = 13;
constexpr std::array<const char*, kHosts> kHostNames = {
    "Defender",   "Enterprise0", "Enterprise1", "Enterprise2", "Op_Host0", "Op_Host1", "Op_Host2",
    "Op_Server0", "User0",       "User1",       "User2",       "User3",    "User4"};

// A set of hosts, or of subnets: one bit each.
using HostSet = uint16_t;
using SubnetSet = uint8_t;
constexpr HostSet bit(int host) { return static_cast<HostSet>(1u << static_cast<unsigned>(host)); }
constexpr HostSet range(int first, int last) {
  return static_cast<HostSet>((1u << static_cast<unsigned>(last + 1)) -
                              (1u << static_cast<unsigned>(first)));
}
constexpr HostSet kEnterpriseHosts = range(kEnterprise0, kEnterprise2);  // by name: no Defender
constexpr HostSet kOpHosts = range(kOpHost0, kOpServer0);

enum Subnet : int { kEnterprise, kOperational, kUser };
constexpr int kSubnets = 3;
constexpr std::array<HostSet, kSubnets> kSubnetHosts = {
    range(kDefender, kEnterprise2), range(kOpHost0, kOpServer0), range(kUser0, kUser4)};
constexpr int subnet_of(int host) {
  return host <= kEnterprise2 ? kEnterprise : host <= kOpServer0 ? kOperational : kUser;
}

constexpr HostSet kWindows = bit(kEnterprise1) | bit(kEnterprise2) | range(kUser0, kUser2);

// Cost of a step with a privileged session on the host, in tenths.
constexpr std::array<int, kHosts> kConfidentiality = {1, 10, 10, 10, 1, 1, 1, 10, 0, 1, 1, 1, 1};
constexpr int kOtDownCost = 100, kRestoreCost = 10;

// Ports that matter, one bit each.
using PortSet = uint16_t;
enum Port : PortSet {
  kPort21 = 1 << 0,
  kPort22 = 1 << 1,
  kPort25 = 1 << 2,
  kPort53 = 1 << 3,
  kPort68 = 1 << 4,
  kPort80 = 1 << 5,
  kPort135 = 1 << 6,
  kPort139 = 1 << 7,
  kPort443 = 1 << 8,
  kPort445 = 1 << 9,
  kPort3389 = 1 << 10,
  kPort3390 = 1 << 11,
  kRandomPort = 1 << 12,  // a local port that a reverse shell opens
  kScanned = 1 << 15      // in what red remembers: a scan came back
};

struct Listening {
  PortSet ports;
  int listeners;  // sockets, one event of a scan each; the Defender has two on port 53
};
constexpr Listening kSsh = {kPort22, 1};
constexpr Listening kEnterpriseWindows = {
    kPort22 | kPort135 | kPort3389 | kPort445 | kPort139 | kPort80 | kPort443, 7};
constexpr Listening kFemitter = {kPort22 | kPort21, 2};
constexpr std::array<Listening, kHosts> kListening = {
    Listening{kPort22 | kPort53 | kPort68, 4},
    kSsh,
    kEnterpriseWindows,
    kEnterpriseWindows,
    kSsh,
    kSsh,
    kSsh,
    kSsh,
    kFemitter,
    kFemitter,
    {kPort445 | kPort139 | kPort135 | kPort3389, 4},
    {kPort80 | kPort3389 | kPort443 | kPort25, 4},
    {kPort22 | kPort80 | kPort3390 | kPort443 | kPort25, 5}};

// In the order in which red lists its options.
enum Exploit : int {
  kEternalBlue,
  kBlueKeep,
  kHttpRfi,
  kHttpsRfi,
  kSshBruteForce,
  kSqlInjection,
  kHarakaRce,
  kFtpTraversal
};
constexpr int kExploits = 8;
constexpr std::array<const char*, kExploits> kExploitNames = {
    "EternalBlue",   "BlueKeep",     "HTTPRFI",   "HTTPSRFI",
    "SSHBruteForce", "SQLInjection", "HarakaRCE", "FTPDirectoryTraversal"};
// Red prefers the option of the highest weight.
constexpr std::array<int, kExploits> kExploitRank = {2, 1, 3, 4, 0, 5, 6, 7};
using ExploitSet = uint8_t;
constexpr ExploitSet exploit_bit(int exploit) {
  return static_cast<ExploitSet>(1u << static_cast<unsigned>(exploit));
}
// The local port that the events of an exploit show.
constexpr std::array<PortSet, kExploits> kExploitPort = {kPort139, kPort3389, kPort80, kPort443,
                                                         kPort22,  kPort3390, kPort25, kPort21};

// What red thinks it could try on a host with these ports.
constexpr ExploitSet options_of(PortSet ports) {
  ExploitSet options = 0;
  for (int e = 0; e < kExploits; ++e) {
    if ((ports & kExploitPort[static_cast<size_t>(e)]) != 0) options |= exploit_bit(e);
  }
  if ((ports & (kPort80 | kPort443)) == 0)
    options &= static_cast<ExploitSet>(~exploit_bit(kSqlInjection));
  return options;
}

// What really works, and what of it gives root or SYSTEM.
struct Weakness {
  ExploitSet real, privileged;
};
constexpr Weakness kWeakSsh = {exploit_bit(kSshBruteForce), 0};
constexpr Weakness kWeakEnterprise = {exploit_bit(kSshBruteForce) | exploit_bit(kBlueKeep) |
                                          exploit_bit(kHttpRfi) | exploit_bit(kHttpsRfi),
                                      exploit_bit(kBlueKeep)};
constexpr Weakness kWeakFemitter = {exploit_bit(kSshBruteForce) | exploit_bit(kFtpTraversal),
                                    exploit_bit(kFtpTraversal)};
constexpr std::array<Weakness, kHosts> kWeakness = {
    kWeakSsh,
    kWeakSsh,
    kWeakEnterprise,
    kWeakEnterprise,
    kWeakSsh,
    kWeakSsh,
    kWeakSsh,
    kWeakSsh,
    kWeakFemitter,
    kWeakFemitter,
    Weakness{exploit_bit(kEternalBlue) | exploit_bit(kBlueKeep), exploit_bit(kEternalBlue)},
    Weakness{exploit_bit(kHttpRfi) | exploit_bit(kHttpsRfi) | exploit_bit(kHarakaRce),
             exploit_bit(kHarakaRce)},
    Weakness{exploit_bit(kSshBruteForce) | exploit_bit(kHttpRfi) | exploit_bit(kHttpsRfi) |
                 exploit_bit(kSqlInjection) | exploit_bit(kHarakaRce),
             exploit_bit(kSqlInjection) | exploit_bit(kHarakaRce)}};

// In the order of blue's actions.
enum Decoy : int { kApache, kFemitterDecoy, kHaraka, kSmss, kSshd, kSvchost, kTomcat, kVsftpd };
constexpr int kDecoys = 8;
constexpr std::array<const char*, kDecoys> kDecoyNames = {
    "Apache", "Femitter", "HarakaSMPT", "Smss", "SSHD", "Svchost", "Tomcat", "Vsftpd"};
enum class Os : uint8_t { kAny, kWindows, kLinux };
struct DecoyRule {
  PortSet opens, must_be_free;
  Os os;
  Exploit attracts;
};
// Vsftpd checks port 21 and opens 80, as the reference does.
constexpr std::array<DecoyRule, kDecoys> kDecoyRules = {
    DecoyRule{kPort80, kPort80, Os::kAny, kHttpRfi},
    {kPort21, kPort21, Os::kWindows, kFtpTraversal},
    {kPort25, kPort25, Os::kLinux, kHarakaRce},
    {kPort139, kPort139, Os::kWindows, kEternalBlue},
    {kPort22, kPort22, Os::kAny, kSshBruteForce},
    {kPort3389, kPort3389, Os::kWindows, kBlueKeep},
    {kPort443, kPort443, Os::kAny, kHttpsRfi},
    {kPort80, kPort21, Os::kLinux, kHttpRfi}};

constexpr PortSet open_ports(int host, unsigned decoys) {
  PortSet ports = kListening[static_cast<size_t>(host)].ports;
  for (; decoys != 0; decoys &= decoys - 1) {
    ports |= kDecoyRules[static_cast<size_t>(std::countr_zero(decoys))].opens;
  }
  return ports;
}

// Blue's 145 actions: Sleep, Monitor, then eleven groups of one per host.
enum BlueGroup : int { kAnalyse = 0, kRemove = 1, kFirstDecoy = 2, kRestore = 10 };
constexpr int kSleep = 0, kMonitor = 1, kBlueActions = 145;
struct BlueAction {
  int group, host;
};
constexpr BlueAction blue_action(int index) { return {(index - 2) / kHosts, (index - 2) % kHosts}; }
constexpr int blue_index(int group, int host) { return 2 + kHosts * group + host; }

}  // namespace flotilla::cage2
