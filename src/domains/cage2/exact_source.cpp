#include "flotilla/domains/cage2/exact_source.h"

#include <numeric>

#include "flotilla/domains/cage2/random_source.h"

namespace flotilla::cage2 {
namespace {

// Process numbers that are taken from the start: a new one is drawn until it is free.
const std::vector<int>& built_in_processes(int host) {
  static const std::vector<int> linux = {1091}, server = {1091, 1043},
                                enterprise = {3368, 832, 4400, 4, 3404}, femitter = {3368, 3344},
                                user2 = {4, 832, 4400}, user3 = {1100, 1101, 1102},
                                user4 = {1091, 1100, 1101, 1102},
                                defender = {1,   389, 407, 409, 560, 634, 656,  790,  802,
                                            803, 807, 824, 825, 827, 832, 844,  847,  852,
                                            853, 863, 867, 875, 879, 884, 1370, 1432, 2288};
  switch (host) {
    case kDefender:
      return defender;
    case kEnterprise1:
    case kEnterprise2:
      return enterprise;
    case kOpServer0:
      return server;
    case kUser0:
    case kUser1:
      return femitter;
    case kUser2:
      return user2;
    case kUser3:
      return user3;
    case kUser4:
      return user4;
    default:
      return linux;
  }
}

}  // namespace

void ExactSource::begin(const State&) {
  // Addresses: three subnets, then the hosts of each.
  random_.sample_of_many(4096, kSubnets);
  for (const int hosts : {4, 4, 5}) {
    random_.below(1);
    random_.sample_of_few(14, hosts);
  }
  ledger_.begin();
  for (int host = 0; host < kHosts; ++host) {
    machine(host) = {built_in_processes(host), {}, {}};
  }
  // Sessions: blue's server and its clients, green's, red's.
  constexpr std::array kSessions = {
      kDefender,    kUser0,    kUser1,     kUser2,   kUser3,   kUser4,   kEnterprise0, kEnterprise1,
      kEnterprise2, kDefender, kOpServer0, kOpHost0, kOpHost1, kOpHost2, kUser0,       kUser1,
      kUser2,       kUser3,    kUser4,     kOpHost0, kOpHost1, kOpHost2};
  for (const int host : kSessions) draw_process(host);
  ledger_.open(kUser0, false, true, draw_process(kUser0));
  for (Machine& each : machines_) each.processes_after_reset = each.processes;
}

int ExactSource::draw_process(int host) {
  std::vector<int>& taken = machine(host).processes;
  auto process = static_cast<int>(random_.below(32768));
  while (process == 0 || std::ranges::count(taken, process) > 0) {
    process = static_cast<int>(random_.below(32768));
  }
  taken.push_back(process);
  return process;
}

void ExactSource::draw_port(int host) {
  std::vector<int>& used = machine(host).ports;
  const auto draw = [this] { return 49152 + static_cast<int>(random_.below(10848)); };
  int port = draw();
  if (std::ranges::count(used, port) > 0) port = draw();  // once; then it is taken as it comes
  used.push_back(port);
}

void ExactSource::decoy_starts(int host) {
  random_.below(1);
  draw_process(host);
}

void ExactSource::sessions_killed(int host) {
  for (const SessionLedger::Session& each : ledger_.at(host)) {
    if (each.flagged && !each.privileged) std::erase(machine(host).processes, each.process);
  }
  ledger_.kill_flagged(host);
}

void ExactSource::host_restored(int host) {
  machine(host).processes = machine(host).processes_after_reset;
  machine(host).ports.clear();
  ledger_.restore(host);
}

int ExactSource::green_target() {
  constexpr std::array kTargets = {kUser0, kUser1,       kUser2,       kUser3,
                                   kUser4, kEnterprise0, kEnterprise1, kEnterprise2};
  if (random_.below(2) == 0) return -1;
  return kTargets[random_.below(8)];
}

void ExactSource::port_scanned(int host, int listeners) {
  for (int i = 0; i < listeners; ++i) draw_port(host);
}

std::vector<int> ExactSource::shuffled_hosts() {
  std::vector<int> hosts(kHosts);
  std::iota(hosts.begin(), hosts.end(), 0);
  random_.shuffle(hosts);
  return hosts;
}

int ExactSource::first_of(const std::vector<int>& order, HostSet hosts) {
  for (const int host : order) {
    if ((hosts & bit(host)) != 0) return host;
  }
  return -1;
}

int ExactSource::scan_target(HostSet hosts) {
  order_ = shuffled_hosts();
  return first_of(order_, hosts);
}

int ExactSource::escalation_target(HostSet hosts) { return first_of(shuffled_hosts(), hosts); }

Exploit ExactSource::exploit(ExploitSet options, int) {
  const int best = RandomSource::best_option(options);
  std::vector<int> others;
  for (int each = 0; each < kExploits; ++each) {
    if (each != best && (options & exploit_bit(each)) != 0) others.push_back(each);
  }
  const int other =
      others[static_cast<size_t>(random_.uniform() * static_cast<double>(others.size()))];
  return static_cast<Exploit>(random_.uniform() < kBestExploit ? best : other);
}

bool ExactSource::shell_detected(int host) {
  draw_port(host);
  new_process_ = draw_process(host);
  return random_.uniform() < kDetection;
}

void ExactSource::ssh_tried() {
  for (int i = 0; i < 10; ++i) draw_port(kUser0);
}

void ExactSource::ssh_entered(int host) {
  new_process_ = draw_process(host);
  draw_port(host);
}

void ExactSource::session_opened(int host, bool flagged, bool privileged) {
  ledger_.open(host, flagged, privileged, new_process_);
}

bool ExactSource::escalated_is_flagged(int host, int, int) {
  std::vector<SessionLedger::Session>& sessions = ledger_.at(host);
  last_ordinal_ = static_cast<int>(random_.below(static_cast<uint32_t>(sessions.size())));
  SessionLedger::Session& chosen = sessions[static_cast<size_t>(last_ordinal_)];
  chosen.privileged = true;
  return chosen.flagged;
}

}  // namespace flotilla::cage2
