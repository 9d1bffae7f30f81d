// What all envs of a run know about the travellers: the answers so far, the embedding learnt from
// them every few rollouts, and its guesses, by which offers are advised.
//
// A lesson needs the answers of a rollout, and its guesses are used from the next one on. So it may
// run in a thread of its own beside the update between them, with the same result: nobody asks for
// anything in that time.
#pragma once

#include <future>
#include <optional>
#include <string>

#include "flotilla/core/config.h"
#include "flotilla/domains/dvrp/flexibility/advice.h"
#include "flotilla/domains/dvrp/flexibility/learning.h"
#include "flotilla/env/memory.h"

namespace flotilla::dvrp {

struct AdviceOptions {
  enum class Types : uint8_t { kNone, kLearnt, kTrue };
  Types types = Types::kNone;
  int every = 10;  // rollouts between lessons
  size_t records = OfferRecords::kCapacity;
  bool background = false;  // lessons in a thread of their own
  LearningOptions learning;

  static Schema schema();
  static AdviceOptions from(const Config& config);
};

class FlexibilityMemory final : public EnvMemory {
 public:
  // `travellers` must outlive it.
  FlexibilityMemory(const Travellers& travellers, const AdviceOptions& options);

  // What a traveller is taken for: drawn from the guess by `luck`, from 0 to 1, while it learns, so
  // that a wrong guess is found out; the likeliest otherwise.
  Flexibility type_of(int traveller, float luck) const {
    const TypeProbabilities& guess = guesses_[static_cast<size_t>(traveller)];
    return learns_ ? drawn_type(guess, luck) : likeliest(guess);
  }
  // The envs make a step: what is recorded next is of it.
  void begin_step() { ++step_; }
  void record(const OfferRecord& offer) {
    if (!learns_) return;
    if (shared_) {
      notes_.push_back({.step = step_, .offer = offer});
    } else {
      records_.add(offer);
    }
  }

  void share() override { shared_ = true; }
  std::vector<std::byte> take_notes() override;
  void add_notes(std::span<const std::vector<std::byte>> of_all) override;

  void prepare(int64_t rollout) override;
  bool learn(int64_t rollout) override;
  std::vector<std::pair<std::string, double>> facts() const override;
  void save(Writer& writer) const override;
  void load(Reader& reader) override;
  std::vector<std::byte> knowledge() const override;
  void set_knowledge(std::span<const std::byte> knowledge) override;

 private:
  struct Note {
    uint32_t step = 0;  // since the last were taken
    OfferRecord offer;
  };

  bool has_lesson(int64_t rollout) const { return learns_ && rollout % options_.every == 0; }
  LearningOutcome hold_lesson() {
    return dvrp::learn(embedding_, records_, travellers_, options_.learning);
  }
  void report(const LearningOutcome& outcome) const;

  const Travellers& travellers_;
  const AdviceOptions options_;
  OfferRecords records_;
  FlexibilityEmbedding embedding_;
  std::vector<TypeProbabilities> guesses_;  // by traveller
  double loss_ = 0;                         // after the last lesson
  bool learns_ = true, shared_ = false;
  uint32_t step_ = 0;
  std::vector<Note> notes_;
  std::future<LearningOutcome> lesson_;  // that has begun; the last member: it uses the others
};

}  // namespace flotilla::dvrp
