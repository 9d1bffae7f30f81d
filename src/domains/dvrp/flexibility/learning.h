// Trains the embedding on the records so far, every few epochs of a run.
//
// A network of one row per traveller sees all its evidence in one step, so an epoch is one step of
// the expected loss of a minibatch: the weights of the evidence add up to `batch`. That keeps the
// balance of likelihood and regulariser that minibatches have, and draws nothing.
#pragma once

#include <optional>
#include <string>

#include "flotilla/domains/dvrp/flexibility/embedding.h"
#include "flotilla/domains/dvrp/flexibility/records.h"

namespace flotilla::dvrp {

struct LearningOptions {
  int epochs = 50;
  int batch = 64;
};

// Why these records are too few to learn from; nothing: they are not.
std::optional<std::string> too_few(const OfferRecords& records, const LearningOptions& options);

struct LearningOutcome {
  std::optional<std::string> skipped;  // the reason; then nothing was learnt
  EmbeddingLoss before, after;
  std::vector<Evidence> evidence;  // weights are counts
};
LearningOutcome learn(FlexibilityEmbedding& embedding, const OfferRecords& records,
                      const Travellers& travellers, const LearningOptions& options = {});

}  // namespace flotilla::dvrp
