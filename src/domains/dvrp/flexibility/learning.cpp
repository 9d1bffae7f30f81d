#include "flotilla/domains/dvrp/flexibility/learning.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

namespace flotilla::dvrp {
namespace {

constexpr int kLeastTravellers = 2, kLeastRecords = 3, kLeastActions = 3;

std::vector<Evidence> scaled(std::vector<Evidence> evidence, double total) {
  double sum = 0;
  for (const Evidence& each : evidence) sum += each.weight;
  for (Evidence& each : evidence) each.weight *= total / sum;
  return evidence;
}

}  // namespace

std::optional<std::string> too_few(const OfferRecords& records, const LearningOptions& options) {
  if (records.size() < static_cast<size_t>(options.batch)) {
    return fmt::format("{} records, fewer than the {} of a batch", records.size(), options.batch);
  }
  std::map<int, int> records_of;
  std::set<int> actions;
  for (const OfferRecord& record : records.all()) {
    ++records_of[record.traveller];
    actions.insert(record.action);
  }
  const auto travellers = std::ranges::count_if(
      records_of, [](const auto& entry) { return entry.second >= kLeastRecords; });
  if (travellers < kLeastTravellers) {
    return fmt::format("travellers with {} records or more: {}, fewer than {}", kLeastRecords,
                       travellers, kLeastTravellers);
  }
  if (actions.size() < kLeastActions) {
    return fmt::format("different actions: {}, fewer than {}", actions.size(), kLeastActions);
  }
  return std::nullopt;
}

LearningOutcome learn(FlexibilityEmbedding& embedding, const OfferRecords& records,
                      const Travellers& travellers, const LearningOptions& options) {
  LearningOutcome outcome;
  outcome.skipped = too_few(records, options);
  if (outcome.skipped) return outcome;
  outcome.evidence = gather(records.all(), travellers);
  const std::vector<Evidence> batch = scaled(outcome.evidence, options.batch);
  outcome.before = embedding.loss(batch);
  for (int epoch = 0; epoch < options.epochs; ++epoch) embedding.step(batch);
  outcome.after = embedding.loss(batch);
  return outcome;
}

}  // namespace flotilla::dvrp
