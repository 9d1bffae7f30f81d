// What the defender is shown, as numbers.
#pragma once

#include <span>

#include "flotilla/domains/cage2/state.h"

namespace flotilla::cage2 {

constexpr int kTableBits = 4 * kHosts;
constexpr int kScanObs = kTableBits + kScanHosts;
constexpr int kPossibleDecoys = 41;  // pairs of host and decoy on a fresh network
// Scans and exploits ever seen by host, decoys in place, time, whether the server was restored.
constexpr int kFullObs = kScanObs + 2 * kHosts + kPossibleDecoys + 2;

// After a step: which hosts were scanned, and which one last.
void note_scans(State& state);

void write_table(const State& state, std::span<float> out);
void write_scans(const State& state, std::span<float> out);  // table, then 0, 1 or 2 per host
void write_full(const State& state, std::span<float> out);

}  // namespace flotilla::cage2
