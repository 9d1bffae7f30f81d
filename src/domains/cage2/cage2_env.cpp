#include "flotilla/domains/cage2/cage2_env.h"

#include <cstring>

#include "flotilla/domains/cage2/observation.h"

namespace flotilla::cage2 {
namespace {

constexpr int kAgents = 3, kMix = kAgents;

int red_named(const std::string& name) {
  return name == "bline" ? 0 : name == "meander" ? 1 : name == "sleep" ? 2 : kMix;
}

// The counters that metrics are made of.
void count(State& s, int action, const StepRecord& record) {
  s.cost += record.cost;
  ++s.steps;
  const int group = action >= 2 ? blue_action(action).group : -1;
  if (group == kRemove || group == kRestore) ++s.fixes;
  if (group == kRestore) ++s.restores;
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
      .choice("red", "mix", {"bline", "meander", "sleep", "mix"},
              "the attacker; mix: one of the three, drawn at every reset")
      .choice("version", "head", {"head", "legacy"},
              "of the reference simulator; legacy is the one behind the official leaderboard")
      .boolean("green", false, "a user scans hosts at random")
      .choice("obs", "bits52", {"bits52", "bits62", "full"},
              "the table of the challenge; with the order of scans; with all a defender can know")
      .choice("actions", "full145", {"full145", "reduced36"},
              "all of the challenge, or 36 with 'the next decoy on this host'")
      .choice("table", "challenge", {"challenge", "stock"},
              "stock: a decoy placed in a step hides the events of its host in that step")
      .integer("time_limit", 100, {1, 10'000},
               "steps of an episode: 30, 50 or 100 in the challenge");
  return schema;
}

Cage2::Cage2(const Config& config)
    : rules_{.legacy = config.get_text("version") == "legacy",
             .green = config.get_boolean("green"),
             .stock_table = config.get_text("table") == "stock"},
      reduced_(config.get_text("actions") == "reduced36"),
      red_(red_named(config.get_text("red"))) {
  const std::string& obs = config.get_text("obs");
  obs_ = obs == "bits52" ? Obs::kBits52 : obs == "bits62" ? Obs::kBits62 : Obs::kFull;
  spec_.name = "cage2";
  const int size = obs_ == Obs::kBits52 ? kTableBits : obs_ == Obs::kBits62 ? kScanObs : kFullObs;
  spec_.obs = ObsSpace::float32({size}, 0, obs_ == Obs::kBits62 ? 2 : 100);
  if (obs_ == Obs::kBits52) spec_.obs = ObsSpace::float32({size}, 0, 1);
  spec_.action = ActionSpace::discrete(reduced_ ? kReducedActions : kBlueActions);
  spec_.has_mask = true;
  spec_.time_limit = static_cast<int>(config.get_integer("time_limit"));
  spec_.metrics = {"reward", "fixes", "restores", "impacts", "first_privileged"};
  spec_.reward_low = -15.4F;  // every host privileged, the service down, a Restore
  spec_.reward_high = 0;
}

void Cage2::reset(State& s, Rng& g) const {
  const int red = red_ == kMix ? static_cast<int>(g.below(kAgents)) : red_;
  RandomSource source(g);
  Simulator(s, rules_, source).reset(static_cast<RedAgent>(red));
}

Outcome Cage2::step(State& s, ActionRow row, Rng& g) const {
  const int action = reduced_ ? expand_action(row.discrete(), s) : row.discrete();
  RandomSource source(g);
  const StepRecord record = Simulator(s, rules_, source).step(action);
  note_restore(action, s);
  note_scans(s);
  count(s, action, record);
  return {.reward = static_cast<float>(-record.cost) / 10};
}

void Cage2::observe(const State& s, ObsRow row) const {
  switch (obs_) {
    case Obs::kBits52:
      return write_table(s, row.f32());
    case Obs::kBits62:
      return write_scans(s, row.f32());
    case Obs::kFull:
      return write_full(s, row.f32());
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
}

bool Cage2::valid(const State& s) const {
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
