// Workflows on this network: an order of the five types of hosts, in which they are to be fixed;
// whether a defender keeps to it; and the reward that teaches it to.
#pragma once

#include <array>

#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

enum UnitType : int { kDefenderUnit, kEnterpriseUnit, kServerUnit, kOpHostUnit, kUserUnit };
constexpr int kUnitTypes = 5;
constexpr int kWorkflowObs = kUnitTypes * kUnitTypes;
constexpr std::array<const char*, kUnitTypes> kUnitNames = {"defender", "enterprise", "op_server",
                                                            "op_host", "user"};
constexpr int unit_of(int host) {
  return host == kDefender      ? kDefenderUnit
         : host <= kEnterprise2 ? kEnterpriseUnit
         : host < kOpServer0    ? kOpHostUnit
         : host == kOpServer0   ? kServerUnit
                                : kUserUnit;
}

using Workflow = std::array<int8_t, kUnitTypes>;  // types, the first to be fixed first

// Orders that have a name.
struct NamedWorkflow {
  const char* name;
  const char* digits;
};
constexpr std::array<NamedWorkflow, 6> kNamedWorkflows = {{{"critical_first", "02134"},
                                                           {"enterprise_focus", "10234"},
                                                           {"user_priority", "40123"},
                                                           {"operational_focus", "23014"},
                                                           {"balanced", "01243"},
                                                           {"reverse", "43120"}}};

// A Remove or a Restore; all other actions fix nothing.
constexpr bool is_fix(int action) {
  if (action < 2) return false;
  const int group = blue_action(action).group;
  return group == kRemove || group == kRestore;
}

// Who has red's sessions, one bit per type. Red always has one on User0.
inline unsigned compromised_units(const State& s) {
  unsigned units = 0;
  for (int h = 0; h < kHosts; ++h) {
    if (s.hosts[static_cast<size_t>(h)].sessions() > 0) units |= 1u << unit_of(h);
  }
  return units;
}

// C1, by history: every type before this one was fixed earlier in the episode. `fixed`: one bit per
// type.
constexpr bool keeps_history(const Workflow& workflow, int type, unsigned fixed) {
  for (const int each : workflow) {
    if (each == type) return true;
    if ((fixed & (1u << static_cast<unsigned>(each))) == 0) return false;
  }
  return true;
}

// C2, by the true state before the step: it is the first type that is compromised.
constexpr bool keeps_state(const Workflow& workflow, int type, unsigned compromised) {
  for (const int each : workflow) {
    if ((compromised & (1u << static_cast<unsigned>(each))) != 0) return each == type;
  }
  return true;
}

// Of an episode so far; nothing fixed passes no gate.
inline double compliance(int fixes, int compliant) {
  return fixes == 0 ? 0.5 : static_cast<double>(compliant) / fixes;
}

}  // namespace flotilla::cage2
