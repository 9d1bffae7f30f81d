#include "flotilla/domains/dvrp/flexibility/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "flotilla/core/error.h"
#include "flotilla/core/log.h"

namespace flotilla::dvrp {
namespace {

constexpr uint64_t kSeed = 0;  // of the first weights: what they guess means nothing
constexpr std::array<const char*, kFlexibilities> kNames = {"late", "early", "none", "both"};

AdviceOptions::Types types_from(const std::string& name) {
  if (name == "learnt") return AdviceOptions::Types::kLearnt;
  return name == "true" ? AdviceOptions::Types::kTrue : AdviceOptions::Types::kNone;
}

// The wrong type cannot stay: flexibility/embedding.h.
EmbeddingOptions embedding_options() { return {.likelihood = Likelihood::kMarginal}; }

bool is_distribution(const TypeProbabilities& guess) {
  double sum = 0;
  for (const double probability : guess) {
    if (!(probability >= 0 && probability <= 1)) return false;
    sum += probability;
  }
  return std::abs(sum - 1) < 1e-6;
}

std::string saved_name(const char* part, const Tensor& tensor) {
  return fmt::format("flexibility.{}.{}", part, tensor.name);
}

void save_tensors(Writer& writer, const char* part, const Tensors& tensors) {
  for (const Tensor& tensor : tensors) {
    writer.bytes(saved_name(part, tensor), std::as_bytes(std::span(tensor.data)));
  }
}

// Into tensors of the right names and shapes.
Tensors read_tensors(Reader& reader, const char* part, Tensors tensors) {
  for (Tensor& tensor : tensors) {
    reader.bytes_into(saved_name(part, tensor), std::as_writable_bytes(std::span(tensor.data)));
  }
  return tensors;
}

}  // namespace

Schema AdviceOptions::schema() {
  const AdviceOptions defaults;
  Schema schema;
  schema
      .choice("types", "none", {"none", "learnt", "true"},
              "offers are advised by what each traveller is taken for, learnt from the answers so "
              "far, or by what he is; none: every offer is")
      .integer("every", defaults.every, {1, 1'000'000}, "rollouts between lessons")
      .integer("records", static_cast<int64_t>(defaults.records), {1, 100'000'000},
               "latest answers that are learnt from")
      .boolean("background", defaults.background,
               "lessons in a thread of their own, beside the update; with the same result")
      .integer("epochs", defaults.learning.epochs, {1, 1'000'000}, "of a lesson")
      .integer("batch", defaults.learning.batch, {1, 1'000'000},
               "answers that weigh as much as the regulariser; fewer: no lesson");
  return schema;
}

AdviceOptions AdviceOptions::from(const Config& config) {
  return {.types = types_from(config.get_text("types")),
          .every = static_cast<int>(config.get_integer("every")),
          .records = static_cast<size_t>(config.get_integer("records")),
          .background = config.get_boolean("background"),
          .learning = {.epochs = static_cast<int>(config.get_integer("epochs")),
                       .batch = static_cast<int>(config.get_integer("batch"))}};
}

FlexibilityMemory::FlexibilityMemory(const Travellers& travellers, const AdviceOptions& options)
    : travellers_(travellers),
      options_(options),
      records_(options.records),
      embedding_(travellers.count, kSeed, embedding_options()),
      guesses_(embedding_.predict()) {}

void FlexibilityMemory::prepare(int64_t rollout) {
  if (!options_.background || !has_lesson(rollout)) return;
  lesson_ = std::async(std::launch::async, [this] { return hold_lesson(); });
}

std::vector<std::byte> FlexibilityMemory::take_notes() {
  const auto bytes = std::as_bytes(std::span(notes_));
  std::vector<std::byte> taken(bytes.begin(), bytes.end());
  notes_.clear();
  step_ = 0;
  return taken;
}

// As one process would have recorded them: step by step, and in each in the order of envs.
void FlexibilityMemory::add_notes(std::span<const std::vector<std::byte>> of_all) {
  std::vector<Note> all;
  for (const std::vector<std::byte>& bytes : of_all) {
    const size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(Note));
    const std::span<Note> added = std::span(all).subspan(before);
    std::ranges::copy(bytes, std::as_writable_bytes(added).begin());
  }
  std::ranges::stable_sort(all, {}, &Note::step);
  for (const Note& note : all) records_.add(note.offer);
}

bool FlexibilityMemory::learn(int64_t rollout) {
  if (!has_lesson(rollout)) return false;
  const LearningOutcome outcome = lesson_.valid() ? lesson_.get() : hold_lesson();
  if (outcome.skipped) {
    log::info("flexibility: nothing learnt", {{"why", *outcome.skipped}});
    return false;
  }
  guesses_ = embedding_.predict();
  loss_ = outcome.after.total;
  report(outcome);
  return true;
}

void FlexibilityMemory::report(const LearningOutcome& outcome) const {
  const TypeCounts counts = histogram(guesses_);
  log::Fields fields;
  for (size_t type = 0; type < kFlexibilities; ++type) {
    fields.emplace_back(kNames[type], std::to_string(counts[type]));
  }
  fields.emplace_back("right", fmt::format("{:.0f} %", 100 * accuracy(guesses_, travellers_)));
  fields.emplace_back("answers", std::to_string(records_.size()));
  fields.emplace_back("loss", fmt::format("{:.2f} -> {:.2f}", outcome.before.total, loss_));
  log::info("flexibility: travellers taken for", fields);
  for (const std::string& warning : warnings_of(shares_that_fit(outcome.evidence))) {
    log::warn("flexibility: " + warning);
  }
}

std::vector<std::pair<std::string, double>> FlexibilityMemory::facts() const {
  std::vector<std::pair<std::string, double>> facts = {
      {"flexibility/right", accuracy(guesses_, travellers_)},
      {"flexibility/answers", static_cast<double>(records_.size())},
      {"flexibility/loss", loss_}};
  const TypeCounts counts = histogram(guesses_);
  for (size_t type = 0; type < kFlexibilities; ++type) {
    facts.emplace_back(std::string("flexibility/") + kNames[type], counts[type]);
  }
  return facts;
}

void FlexibilityMemory::save(Writer& writer) const {
  if (lesson_.valid()) lesson_.wait();
  records_.save(writer);
  save_tensors(writer, "weights", embedding_.weights());
  save_tensors(writer, "optimiser", embedding_.optimiser());
  writer.f64("flexibility.loss", loss_);
}

void FlexibilityMemory::load(Reader& reader) {
  if (lesson_.valid()) lesson_.wait();
  OfferRecords records(options_.records);
  records.load(reader, travellers_);
  FlexibilityEmbedding embedding(travellers_.count, kSeed, embedding_options());
  embedding.set_weights(read_tensors(reader, "weights", embedding.weights()));
  embedding.set_optimiser(read_tensors(reader, "optimiser", embedding.optimiser()));
  loss_ = reader.f64("flexibility.loss");  // the last that can throw
  records_ = std::move(records);
  embedding_ = std::move(embedding);
  guesses_ = embedding_.predict();
}

std::vector<std::byte> FlexibilityMemory::knowledge() const {
  const auto bytes = std::as_bytes(std::span(guesses_));
  return {bytes.begin(), bytes.end()};
}

void FlexibilityMemory::set_knowledge(std::span<const std::byte> knowledge) {
  std::vector<TypeProbabilities> guesses(guesses_.size());
  const auto target = std::as_writable_bytes(std::span(guesses));
  if (knowledge.size() != target.size()) {
    throw Error(ErrorCode::kData,
                fmt::format("knows {} bytes about travellers, expected {} of {} travellers",
                            knowledge.size(), target.size(), guesses.size()));
  }
  std::memcpy(target.data(), knowledge.data(), target.size());
  for (const TypeProbabilities& guess : guesses) {
    if (!is_distribution(guess)) {
      throw Error(ErrorCode::kData, "what is known about travellers is no probability");
    }
  }
  guesses_ = std::move(guesses);
  learns_ = false;
}

}  // namespace flotilla::dvrp
