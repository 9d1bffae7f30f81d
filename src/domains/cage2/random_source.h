// Choices for training: drawn from the environment's own generator, as few draws as it takes.
#pragma once

#include "flotilla/core/rng.h"
#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

constexpr double kDetection = 0.95, kBestExploit = 0.75;

class RandomSource {
 public:
  explicit RandomSource(Rng& rng) : rng_(rng) {}

  int green_target() {
    constexpr std::array<int8_t, 8> kTargets = {kUser0, kUser1,       kUser2,       kUser3,
                                                kUser4, kEnterprise0, kEnterprise1, kEnterprise2};
    const uint32_t draw = rng_.below(16);
    return draw < 8 ? -1 : kTargets[draw - 8];
  }
  int first_user() { return kUser1 + static_cast<int>(rng_.below(4)); }
  int scan_target(HostSet hosts) { return any_of(hosts); }
  int escalation_target(HostSet hosts) { return any_of(hosts); }
  int exploit_target(HostSet hosts) { return any_of(hosts); }

  Exploit exploit(ExploitSet options, int) {
    const int best = best_option(options);
    // One draw for both: three quarters for the best, the rest shared evenly.
    const auto others = static_cast<uint32_t>(std::popcount(options) - 1);
    const uint32_t draw = rng_.below(4 * others);
    if (draw >= others) return static_cast<Exploit>(best);
    return static_cast<Exploit>(nth(static_cast<unsigned>(options & ~exploit_bit(best)), draw));
  }
  bool shell_detected(int) { return rng_.below(20) < 19; }
  bool escalated_is_flagged(int, int flagged, int unflagged) {
    if (flagged == 0 || unflagged == 0) return flagged != 0;
    return rng_.below(static_cast<uint32_t>(flagged + unflagged)) < static_cast<uint32_t>(flagged);
  }

  // Nothing of this is drawn or remembered.
  void begin(const State&) {}
  void blue_acts(int) {}
  void decoy_starts(int) {}
  void sessions_killed(int) {}
  void host_restored(int) {}
  void port_scanned(int, int) {}
  void exploit_connects(int) {}
  void ssh_tried() {}
  void ssh_entered(int) {}
  void session_opened(int, bool, bool) {}
  void impact_tried(int, int) {}

  static int best_option(ExploitSet options) {
    int best = std::countr_zero(options);
    for (unsigned left = options; left != 0; left &= left - 1) {
      const int each = std::countr_zero(left);
      if (kExploitRank[static_cast<size_t>(each)] > kExploitRank[static_cast<size_t>(best)]) {
        best = each;
      }
    }
    return best;
  }

 private:
  static int nth(unsigned set, uint32_t n) {
    for (; n > 0; --n) set &= set - 1;
    return std::countr_zero(set);
  }
  int any_of(HostSet hosts) {
    if (hosts == 0) return -1;
    const auto count = static_cast<uint32_t>(std::popcount(hosts));
    return nth(hosts, count == 1 ? 0 : rng_.below(count));
  }

  Rng& rng_;
};

}  // namespace flotilla::cage2
