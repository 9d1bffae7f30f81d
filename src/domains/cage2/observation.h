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
// Ages of scans, exploits and fixes as traces, decoys at the first and at the last scan.
constexpr int kMemoryObs = kFullObs + 5 * kDecoyHosts;
constexpr float kTraceDecay = 0.8F;  // of each step: a cycle of B_line has four

// After a step: which hosts were scanned, and which one last.
void note_scans(State& state);
// And what obs=memory shows besides; `action` is one of the 145.
void note_memory(int action, State& state);

void write_table(const State& state, std::span<float> out);
void write_scans(const State& state, std::span<float> out);  // table, then 0, 1 or 2 per host
void write_full(const State& state, std::span<float> out);
void write_memory(const State& state, std::span<float> out);

}  // namespace flotilla::cage2
