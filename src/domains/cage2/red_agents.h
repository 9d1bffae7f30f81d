// The scripted attackers of the challenge: what they do next, from what their last action gave.
#pragma once

#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

struct RedMove {
  RedAction action = RedAction::kSleep;
  int target = -1;  // a host; a subnet for kDiscoverSystems
};

// B_line: the shortest way to the operational server, in fifteen positions. After a success it goes
// on to the next, after a failure back to the position that may repair it.
template <class Source>
RedMove decide_b_line(State& s, Source& source) {
  constexpr std::array<uint8_t, 15> kAfterFailure = {0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13};
  constexpr int kServerScan = 11, kServerExploit = 12, kLast = 14;
  const bool was_ok = s.last_result == Success::kOk;
  const int from = s.position;
  int position = was_ok ? std::min(from + 1, kLast) : kAfterFailure[static_cast<size_t>(from)];
  // The server could not be reached, and nothing was ever aimed at it: begin again behind position
  // 0.
  if (position == kServerExploit && !s.server_exploit_fixed && from == kServerScan &&
      s.last_scan_empty) {
    position = 1;
  }
  s.position = static_cast<uint8_t>(position);
  if (position == 1 && s.first_user < 0) s.first_user = static_cast<int8_t>(source.first_user());
  if (position == kServerExploit) s.server_exploit_fixed = true;
  const int user = s.first_user;
  const int enterprise = user == kUser1 || user == kUser2 ? kEnterprise1 : kEnterprise0;
  switch (position) {
    case 0:
      return {RedAction::kDiscoverSystems, kUser};
    case 1:
      return {RedAction::kDiscoverServices, user};
    case 2:
      return {RedAction::kExploit, user};
    case 3:
      return {RedAction::kEscalate, user};
    case 4:
      return {RedAction::kDiscoverServices, enterprise};
    case 5:
      return {RedAction::kExploit, enterprise};
    case 6:
      return {RedAction::kEscalate, enterprise};
    case 7:
      return {RedAction::kDiscoverSystems, kEnterprise};
    case 8:
      return {RedAction::kDiscoverServices, kEnterprise2};
    case 9:
      return {RedAction::kExploit, kEnterprise2};
    case 10:
      return {RedAction::kEscalate, kEnterprise2};
    case kServerScan:
      return {RedAction::kDiscoverServices, kOpServer0};
    case kServerExploit:
      return {RedAction::kExploit, kOpServer0};
    case 13:
      return {RedAction::kEscalate, kOpServer0};
    default:
      return {RedAction::kImpact, kOpServer0};
  }
}

// Meander: takes whatever it can reach, and starts over with a whole layer when an exploit fails.
inline void digest_meander(State& s) {
  const int x = s.last_target;
  const auto drop = [](HostSet& set, HostSet hosts) { set &= static_cast<HostSet>(~hosts); };
  if (s.last_action == RedAction::kExploit) {
    if (s.last_result == Success::kOk) {
      s.owned |= bit(x);
      return;
    }
    drop(s.exploited, bit(x));
    const HostSet ops = s.escalated & kOpHosts;
    const HostSet lost = ops != 0 ? ops : static_cast<HostSet>(s.escalated & kEnterpriseHosts);
    drop(s.escalated, lost);
    drop(s.exploited, lost);
  } else if (s.last_action == RedAction::kEscalate || s.last_action == RedAction::kImpact) {
    if (s.last_result != Success::kFail) return;
    drop(s.escalated, bit(x));
    if ((s.owned & s.exploited & bit(x)) != 0) drop(s.exploited, bit(x));
  }
}

template <class Source>
RedMove decide_meander(State& s, Source& source) {
  digest_meander(s);
  if ((s.escalated & bit(kOpServer0)) != 0) return {RedAction::kImpact, kOpServer0};
  if (const unsigned subnets = s.known_subnets & ~s.scanned_subnets & 7u; subnets != 0) {
    const int subnet = std::countr_zero(subnets);  // Enterprise, Operational, User
    s.scanned_subnets |= static_cast<SubnetSet>(1u << static_cast<unsigned>(subnet));
    return {RedAction::kDiscoverSystems, subnet};
  }
  const auto without = [](HostSet set, HostSet others) {
    return static_cast<HostSet>(set & ~others);
  };
  if (const int host = source.scan_target(without(s.known_hosts, s.scanned)); host >= 0) {
    s.scanned |= bit(host);
    return {RedAction::kDiscoverServices, host};
  }
  const HostSet lost = without(s.owned, s.exploited);  // taken once, and given up since
  const HostSet escalatable = without(without(s.known_names, s.escalated), lost);
  if (const int host = source.escalation_target(escalatable); host >= 0) {
    s.escalated |= bit(host);
    return {RedAction::kEscalate, host};
  }
  const int host = source.exploit_target(without(s.known_hosts, s.exploited));
  if (host < 0) return {};
  s.exploited |= bit(host);
  return {RedAction::kExploit, host};
}

template <class Source>
RedMove decide(State& s, Source& source) {
  switch (s.red) {
    case RedAgent::kBLine:
      return decide_b_line(s, source);
    case RedAgent::kMeander:
      return decide_meander(s, source);
    case RedAgent::kSleep:
      break;
  }
  return {};
}

}  // namespace flotilla::cage2
