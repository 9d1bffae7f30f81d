// What the network is worth at one size of day: its routes beside those of insertion with the same
// local search, and with as much of it as takes the same time; and beside routes that continue
// those of the request before. All of them are compared with a referee, day by day.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/oracle/evaluation.h"
#include "flotilla/domains/dvrp/oracle/weights.h"

namespace flotilla::dvrp {

struct SizeRow {
  std::string name;
  DecodeOptions decode;
  std::vector<double> gaps;  // percent above the referee, by instance
  // Of CPU time, which other programs do not change much: a whole day at once, and request by
  // request, as a negotiation routes it.
  double instance_s = 0, day_s = 0;
};

struct SizeExam {
  int requests = 0;
  double referee = 0;         // minutes, mean
  std::vector<SizeRow> rows;  // network, insertion, insertion in the network's time, continued
};

struct SizeExamOptions {
  int requests = 30, instances = 20;
  int timed = 2;         // of them, that are routed request by request
  DecodeOptions decode;  // of the network
  uint64_t seed = 0;
};

// `data` has travellers enough. Throws Error(kCheckFailed) for a tour that breaks a rule.
SizeExam examine_size(const Data& data, const OracleWeights& weights,
                      const SizeExamOptions& options, const Referee& referee, ThreadPool& pool);

}  // namespace flotilla::dvrp
