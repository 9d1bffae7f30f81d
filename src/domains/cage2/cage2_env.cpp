#include "flotilla/domains/cage2/cage2_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/cage2/observation.h"

namespace flotilla::cage2 {
namespace {

constexpr int kAgents = 3;

// The first so many agents, one of which is drawn: those that attack come before the one that
// sleeps.
uint32_t reds_named(const std::string& name) {
  return name == "mix" ? kAgents : name == "attackers" ? 2 : 1;
}

RedAgent red_named(const std::string& name) {
  return name == "meander" ? RedAgent::kMeander
         : name == "sleep" ? RedAgent::kSleep
                           : RedAgent::kBLine;
}

int obs_size(Cage2::Obs obs) {
  switch (obs) {
    case Cage2::Obs::kBits52:
      return kTableBits;
    case Cage2::Obs::kBits62:
      return kScanObs;
    case Cage2::Obs::kFull:
      return kFullObs;
    case Cage2::Obs::kMemory:
      break;
  }
  return kMemoryObs;
}

// The digits of the types, or nothing.
std::optional<Workflow> parse_digits(std::string_view text) {
  if (text.size() != kUnitTypes) return std::nullopt;
  Workflow workflow{};
  unsigned seen = 0;
  for (size_t i = 0; i < kUnitTypes; ++i) {
    const int type = text[i] - '0';
    if (type < 0 || type >= kUnitTypes) return std::nullopt;
    workflow[i] = static_cast<int8_t>(type);
    seen |= 1u << static_cast<unsigned>(type);
  }
  return seen == (1u << kUnitTypes) - 1 ? std::optional(workflow) : std::nullopt;
}

// "none", the name of an order, or its digits: "01234".
std::optional<Workflow> parse_workflow(const std::string& text) {
  if (text == "none") return std::nullopt;
  std::string names;
  for (const NamedWorkflow& each : kNamedWorkflows) {
    if (text == each.name) return parse_digits(each.digits);
    names += fmt::format(", {} ({})", each.name, each.digits);
  }
  if (const auto workflow = parse_digits(text)) return workflow;
  throw Error(
      ErrorCode::kUsage,
      fmt::format("workflow: expected none{}, or an order of the digits 0 (defender), 1 "
                  "(enterprise), 2 (op_server), 3 (op_host), 4 (user) such as 01234; got {}",
                  names, in_quotes(text)));
}

// Whether the byte is one of a bool's: looking at it as a bool would be undefined.
bool holds_bool(const bool* flag) {
  unsigned char byte = 0;
  std::memcpy(&byte, flag, 1);
  return byte <= 1;
}

// The counters that metrics are made of.
void count(State& s, int action, const StepRecord& record) {
  s.cost += record.cost;
  ++s.steps;
  if (action >= blue_index(kRestore, 0)) ++s.restores;
  if (!s.ot_running) ++s.impacts;
  if (s.first_privileged != 0) return;
  for (int h = 0; h < kHosts; ++h) {
    if (h != kUser0 && s.hosts[static_cast<size_t>(h)].privileged > 0) s.first_privileged = s.steps;
  }
}

}  // namespace

Schema Cage2::schema() {
  Schema schema;
  schema
      .choice(
          "red", "mix", {"bline", "meander", "sleep", "attackers", "mix"},
          "the attacker; attackers: one of the first two, drawn at every reset; mix: one of the "
          "three")
      .choice(
          "version", "head", {"head", "legacy", "both"},
          "of the reference simulator; legacy is the one behind the official leaderboard; both: "
          "one of them, drawn at every reset and not told to blue")
      .boolean("green", false, "a user scans hosts at random")
      .choice(
          "obs", "bits52", {"bits52", "bits62", "full", "memory"},
          "the table of the challenge; with the order of scans; with what a defender has seen and "
          "placed; and when that was")
      .choice("actions", "full145", {"full145", "reduced36"},
              "all of the challenge, or 36 with 'the next decoy on this host'")
      .choice("table", "challenge", {"challenge", "stock"},
              "stock: a decoy placed in a step hides the events of its host in that step")
      .text("workflow", "none",
            "order in which types of hosts are to be fixed: 01234 and the like, or a name")
      .choice(
          "compliance", "history", {"history", "state"},
          "a fix complies if all types before it were fixed earlier; or if it is the first type "
          "that is compromised")
      .choice("alignment", "gain", {"none", "level", "gain"},
              "reward for compliance: none, its level at every step, or what it gained")
      .number("alignment_weight", 30, {0, 1e6}, "of that reward")
      .integer("time_limit", 100, {1, 10'000},
               "steps of an episode: 30, 50 or 100 in the challenge");
  return schema;
}

Cage2::Cage2(const Config& config)
    : rules_{.legacy = config.get_text("version") == "legacy",
             .green = config.get_boolean("green"),
             .stock_table = config.get_text("table") == "stock"},
      legacy_rules_(rules_),
      both_versions_(config.get_text("version") == "both"),
      reduced_(config.get_text("actions") == "reduced36"),
      red_(red_named(config.get_text("red"))),
      reds_(reds_named(config.get_text("red"))),
      workflow_(parse_workflow(config.get_text("workflow"))),
      rule_(config.get_text("compliance") == "state" ? Rule::kState : Rule::kHistory),
      alignment_(config.get_text("alignment") == "none"    ? Alignment::kNone
                 : config.get_text("alignment") == "level" ? Alignment::kLevel
                                                           : Alignment::kGain),
      weight_(config.get_number("alignment_weight")) {
  const std::string& obs = config.get_text("obs");
  obs_ = obs == "bits52"   ? Obs::kBits52
         : obs == "bits62" ? Obs::kBits62
         : obs == "full"   ? Obs::kFull
                           : Obs::kMemory;
  legacy_rules_.legacy = true;
  spec_.name = "cage2";
  int size = obs_size(obs_);
  if (workflow_) size += kWorkflowObs;
  // The order of scans is 0, 1 or 2, time is in hundreds of steps.
  const float high = obs_ == Obs::kBits52 ? 1 : obs_ == Obs::kBits62 ? 2 : 100;
  spec_.obs = ObsSpace::float32({size}, 0, high);
  spec_.action = ActionSpace::discrete(reduced_ ? kReducedActions : kBlueActions);
  spec_.has_mask = true;
  spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
  spec_.metrics = {"reward", "fixes", "restores", "impacts", "first_privileged"};
  spec_.reward_low = -15.8F;  // every host privileged, the service down, a Restore
  spec_.reward_high = 0;
  if (!workflow_) return;
  spec_.metrics.emplace_back("compliance");
  spec_.reward_low -= static_cast<float>(weight_);
  spec_.reward_high += static_cast<float>(weight_);
}

void Cage2::reset(State& s, Rng& g) const {
  const auto red = reds_ > 1 ? static_cast<RedAgent>(g.below(reds_)) : red_;
  const bool legacy = both_versions_ && g.chance(0.5);
  RandomSource source(g);
  Simulator(s, rules_, source).reset(red);
  s.legacy = legacy;
}

Outcome Cage2::step(State& s, ActionRow row, Rng& g) const {
  const int action = expanded(s, row.discrete());
  RandomSource source(g);
  return play(s, action, source);
}

Outcome Cage2::settle(State& s, int action, const StepRecord& record, double score_before) const {
  note_restore(action, s);
  note_scans(s);
  if (obs_ == Obs::kMemory) note_memory(action, s);
  count(s, action, record);
  double reward = -record.cost / 10.0;
  if (alignment_ == Alignment::kGain) reward += score(s) - score_before;
  if (alignment_ == Alignment::kLevel) reward += score(s);
  return {.reward = static_cast<float>(reward)};
}

void Cage2::judge(State& s, int action) const {
  if (!is_fix(action)) return;
  ++s.fixes;
  if (!workflow_) return;
  const int type = unit_of(blue_action(action).host);
  const bool kept = rule_ == Rule::kHistory ? keeps_history(*workflow_, type, s.fixed_units)
                                            : keeps_state(*workflow_, type, compromised_units(s));
  if (kept) ++s.compliant;
  s.fixed_units |= static_cast<uint8_t>(1u << static_cast<unsigned>(type));
}

// What the reward for compliance is made of; 0 until the first fix.
double Cage2::score(const State& s) const {
  if (!workflow_ || s.fixes == 0) return 0;
  const double kept = compliance(s.fixes, s.compliant);
  return alignment_ == Alignment::kLevel ? weight_ * (2 * kept - 1) / 100 : weight_ * kept;
}

void Cage2::observe(const State& s, ObsRow row) const {
  if (workflow_) {
    const std::span<float> code = row.f32().last(kWorkflowObs);
    std::ranges::fill(code, 0.0F);
    for (size_t place = 0; place < kUnitTypes; ++place) {
      code[kUnitTypes * place + static_cast<size_t>((*workflow_)[place])] = 1;
    }
  }
  switch (obs_) {
    case Obs::kBits52:
      return write_table(s, row.f32());
    case Obs::kBits62:
      return write_scans(s, row.f32());
    case Obs::kFull:
      return write_full(s, row.f32());
    case Obs::kMemory:
      return write_memory(s, row.f32());
  }
}

void Cage2::mask(const State& s, MaskRow m) const {
  if (reduced_) {
    mask_reduced(s, m);
  } else {
    mask_full(s, m);
  }
}

void Cage2::metrics(const State& s, MetricRow m) const {
  m[0] = static_cast<float>(-s.cost) / 10;
  m[1] = s.fixes;
  m[2] = s.restores;
  m[3] = s.impacts;
  // Never: as late as the episode is long.
  m[4] = static_cast<float>(s.first_privileged != 0 ? s.first_privileged : spec_.time_limit);
  if (workflow_) m[5] = static_cast<float>(compliance(s.fixes, s.compliant));
}

bool Cage2::valid(const State& s) const {
  for (const bool* flag : {&s.ot_running, &s.ot_immune, &s.last_scan_empty, &s.ot_known,
                           &s.server_exploit_fixed, &s.legacy}) {
    if (!holds_bool(flag)) return false;
  }
  if (s.legacy && !both_versions_) return false;
  for (const HostState& host : s.hosts) {
    if (!holds_bool(&host.malware) || !holds_bool(&host.haraka_broken)) return false;
  }
  if (s.last_action > RedAction::kSleep || s.last_result > Success::kUnknown) return false;
  const auto inside = [](int value, int low, int high) { return value >= low && value <= high; };
  if (static_cast<int>(s.red) >= kAgents || s.position > 14) return false;
  if (!inside(s.last_target, -1, kHosts - 1)) return false;
  if (s.first_user != -1 && !inside(s.first_user, kUser1, kUser4)) return false;
  if (s.position > 0 && s.red == RedAgent::kBLine && s.first_user < 0) return false;
  constexpr HostSet kAll = range(0, kHosts - 1);
  for (const HostSet set : {s.known_hosts, s.known_names, s.scanned, s.exploited, s.escalated,
                            s.owned, s.ever_scanned, s.ever_exploited}) {
    if ((set & ~kAll) != 0) return false;
  }
  for (size_t i = 0; i < kDecoyHosts; ++i) {
    if (s.decoys_placed[i] > kDecoyLists[i].count) return false;
  }
  for (const uint8_t scan : s.scan_state) {
    if (scan > 2) return false;
  }
  return s.known_subnets < 8 && s.scanned_subnets < 8 && s.table < (uint64_t{1} << kTableBits);
}

}  // namespace flotilla::cage2
