// The oracle's network in numbers.
#pragma once

namespace flotilla::dvrp {

constexpr int kOracleWidth = 128, kOracleHeads = 8, kOracleHeadWidth = kOracleWidth / kOracleHeads;
constexpr int kOracleLayers = 3, kOracleHidden = 512;
constexpr int kOracleScalars = 3;      // of the context: free seats, time, step
constexpr int kOracleNodeScalars = 3;  // beside the ways to all cells: demand, ends of the window
constexpr float kOracleClip = 10;      // of the logits
constexpr float kNormEpsilon = 1e-5F;

}  // namespace flotilla::dvrp
