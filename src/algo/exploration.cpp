#include "flotilla/algo/exploration.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "flotilla/core/error.h"

namespace flotilla {
namespace {

// Fowler, Noll and Vo's hash, a number at a time, with Vigna's mixing at the end: the plain one
// spreads its lower bits badly.
class Hash {
 public:
  void add(uint32_t number) { state_ = (state_ ^ number) * 0x100000001B3; }
  uint64_t value() const {
    uint64_t x = state_;
    x = (x ^ (x >> 30u)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27u)) * 0x94D049BB133111EB;
    return x ^ (x >> 31u);
  }

 private:
  uint64_t state_ = 0xCBF29CE484222325;
};

// The number as bits, which are the same for 0 and -0.
uint32_t bits_of(float number) {
  number += 0.0F;
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

class ExploringLearner final : public Learner {
 public:
  ExploringLearner(std::unique_ptr<Learner> learner, const NetworkSpec& network,
                   const ExplorationOptions& options)
      : learner_(std::move(learner)),
        obs_bytes_(network.obs_bytes()),
        bonus_(options.bonus),
        counts_(network, options) {}

  Update learn(const Batch& batch, const LearnProgress& progress) override {
    const double bonus = bonus_.at(progress.fraction);
    Batch paid = batch;
    const double mean = pay(batch, bonus);
    paid.trajectory.reward = reward_.data();
    Update update = learner_->learn(paid, progress);
    update.metrics.emplace_back("schedule/bonus", bonus);
    update.metrics.emplace_back("explore/bonus_mean", mean);
    update.metrics.emplace_back("explore/cells", static_cast<double>(counts_.used_cells()));
    return update;
  }

  void share(Blocks& blocks) override { learner_->share(blocks); }
  double epsilon(double fraction) const override { return learner_->epsilon(fraction); }
  double gamma() const override { return learner_->gamma(); }
  double passes() const override { return learner_->passes(); }

  void save(Writer& writer) const override {
    counts_.save(writer);
    learner_->save(writer);
  }
  void load(Reader& reader) override {
    counts_.load(reader);
    learner_->load(reader);
  }

 private:
  // Counts the rows and adds the bonus to their rewards. Returns its mean.
  double pay(const Batch& batch, double bonus) {
    const Trajectory& trajectory = batch.trajectory;
    const size_t rows = trajectory.rows();
    cell_.resize(rows);
    for (size_t i = 0; i < rows; ++i) {
      if (trajectory.valid[i] == 0) continue;
      cell_[i] = counts_.cell(batch.samples.obs + i * obs_bytes_);
      counts_.count(cell_[i]);
    }
    reward_.assign(trajectory.reward, trajectory.reward + rows);
    double sum = 0, valid = 0;
    for (size_t i = 0; i < rows; ++i) {
      if (trajectory.valid[i] == 0) continue;
      const double paid = bonus / std::sqrt(static_cast<double>(counts_.times(cell_[i])));
      reward_[i] += static_cast<float>(paid);
      sum += paid;
      valid += 1;
    }
    return valid > 0 ? sum / valid : 0;
  }

  const std::unique_ptr<Learner> learner_;
  const size_t obs_bytes_;
  const Schedule bonus_;
  ObservationCounts counts_;
  std::vector<uint32_t> cell_;  // by row
  std::vector<float> reward_;   // with the bonus
};

}  // namespace

Schema ExplorationOptions::schema() {
  const ExplorationOptions d;
  Schema schema;
  Schedule::add_to(schema, "bonus", 0, {0, 1e6},
                   "added to the learner's reward for an observation that is new, over the root of "
                   "how often it was met; 0: none");
  schema
      .number("resolution", d.resolution, {0, 1e6},
              "numbers of an observation are rounded to multiples of it; 0: they are not")
      .integer("cells", d.cells, {1, 1 << 28}, "counters, onto which observations are spread");
  return schema;
}

ExplorationOptions ExplorationOptions::from(const Config& config, const std::string& prefix) {
  return {.bonus = Schedule::from(config, prefix + "bonus"),
          .resolution = config.get_number(prefix + "resolution"),
          .cells = static_cast<int>(config.get_integer(prefix + "cells"))};
}

ObservationCounts::ObservationCounts(const NetworkSpec& network, const ExplorationOptions& options)
    : inputs_(static_cast<size_t>(network.inputs)),
      type_(network.obs_type),
      per_unit_(options.resolution > 0 ? static_cast<float>(1 / options.resolution) : 0),
      counts_(static_cast<size_t>(options.cells)) {}

uint32_t ObservationCounts::cell(const std::byte* obs) const {
  Hash hash;
  for (size_t i = 0; i < inputs_; ++i) {
    float number = 0;
    if (type_ == ObsType::kUint8) {
      number = static_cast<float>(obs[i]);
    } else {
      std::memcpy(&number, obs + i * sizeof number, sizeof number);
    }
    hash.add(bits_of(per_unit_ > 0 ? std::nearbyint(number * per_unit_) : number));
  }
  return static_cast<uint32_t>(hash.value() % counts_.size());
}

void ObservationCounts::count(uint32_t cell) {
  uint32_t& times = counts_[cell];
  if (times == 0) ++used_;
  if (times < std::numeric_limits<uint32_t>::max()) ++times;
}

// Only the counters in use: most are not.
void ObservationCounts::save(Writer& writer) const {
  std::vector<uint32_t> pairs;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    pairs.push_back(static_cast<uint32_t>(i));
    pairs.push_back(counts_[i]);
  }
  writer.bytes("observation_counts", std::as_bytes(std::span(pairs)));
}

void ObservationCounts::load(Reader& reader) {
  const std::span<const std::byte> bytes = reader.bytes("observation_counts");
  const auto refuse = [] { throw Error(ErrorCode::kData, "counts of observations are damaged"); };
  struct Pair {
    uint32_t cell, times;
  };
  if (bytes.size() % sizeof(Pair) != 0) refuse();
  std::vector<uint32_t> counts(counts_.size());
  for (size_t at = 0; at < bytes.size(); at += sizeof(Pair)) {
    Pair pair{};
    std::memcpy(&pair, bytes.data() + at, sizeof pair);
    if (pair.cell >= counts.size() || pair.times == 0 || counts[pair.cell] != 0) refuse();
    counts[pair.cell] = pair.times;
  }
  counts_ = std::move(counts);
  used_ = bytes.size() / sizeof(Pair);
}

std::unique_ptr<Learner> with_exploration(std::unique_ptr<Learner> learner,
                                          const NetworkSpec& network,
                                          const ExplorationOptions& options) {
  return std::make_unique<ExploringLearner>(std::move(learner), network, options);
}

}  // namespace flotilla
