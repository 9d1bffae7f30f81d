#include "flotilla/domains/dvrp/oracle/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

#include "flotilla/core/clock.h"
#include "flotilla/core/csv.h"
#include "flotilla/core/file.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/oracle/batch.h"
#include "flotilla/domains/dvrp/oracle/weights.h"
#include "flotilla/domains/dvrp/routing/solver.h"
#include "flotilla/nn/safetensors.h"
#include "flotilla/report/chart.h"

namespace flotilla::dvrp {
namespace {

constexpr const char *kWeights = "oracle.safetensors", *kState = "training.safetensors",
                     *kConfig = "config.yaml", *kCurves = "curves.csv", *kFigure = "curves.svg";
const RunDirectory::Names kNames = {kConfig, kWeights, kState, kCurves, kFigure};
constexpr size_t kMaxBytes = size_t{256} << 20u;

// Instances and sampling of different purposes do not meet.
constexpr uint64_t kReinforceLessons = uint64_t{1} << 45u;
constexpr uint64_t kExamSeed = 0x9e3779b9;

std::vector<Instance> draw_exam(const Data& data, int requests, int count) {
  std::vector<Instance> exam;
  for (int i = 0; i < count; ++i) {
    Rng rng(kExamSeed, stream_of(Purpose::kTest, static_cast<uint64_t>(i)));
    exam.push_back(draw_instance(data, std::min(requests, data.travellers.count), rng));
  }
  return exam;
}

std::vector<const Instance*> pointers(const std::vector<Instance>& instances) {
  std::vector<const Instance*> all;
  for (const Instance& instance : instances) all.push_back(&instance);
  return all;
}

Tensors drawn_weights(const City& city, const Config& config) {
  return initial_oracle(city.size(), static_cast<uint64_t>(config.get_integer("seed")));
}

Tensors first_weights(const City& city, const Config& config) {
  const std::string& init = config.get_text("init");
  return init.empty() ? drawn_weights(city, config) : read_oracle(init, city).tensors;
}

// What is padded to the same number of nodes together.
struct Part {
  std::vector<const Instance*> instances;
  std::vector<std::vector<int>> sequences;

  explicit Part(std::span<const Lesson* const> lessons) {
    for (const Lesson* lesson : lessons) {
      instances.push_back(&lesson->instance);
      sequences.push_back(lesson->sequence);
    }
  }
};

// By size, so that little is padded, and in pieces of bounded memory.
std::vector<Part> parts_by_size(std::vector<const Lesson*> lessons) {
  constexpr int kMostNodes = 4096;
  std::ranges::stable_sort(lessons, std::greater(),
                           [](const Lesson* lesson) { return lesson->instance.nodes(); });
  const std::span<const Lesson* const> all = lessons;
  std::vector<Part> parts;
  for (size_t first = 0; first < all.size();) {
    const int room = std::max(1, kMostNodes / all[first]->instance.nodes());
    const size_t count = std::min(static_cast<size_t>(room), all.size() - first);
    parts.emplace_back(all.subspan(first, count));
    first += count;
  }
  return parts;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double solver_mean(const std::vector<Instance>& instances, ThreadPool& pool) {
  std::vector<double> costs(instances.size());
  pool.for_each(static_cast<int>(instances.size()), [&](int, int i) {
    const auto item = static_cast<size_t>(i);
    costs[item] = solve(instances[item], {.iterations = 3000}).cost;
  });
  return mean(costs);
}

std::string curves_csv(const std::vector<OracleTraining::Point>& curve) {
  std::string text = "step,phase,loss,gap_10,gap_30,wall_s\n";
  for (const auto& point : curve) {
    text += fmt::format("{},{},{:.6g},{:.4f},{:.4f},{:.1f}\n", point.step,
                        point.imitation ? "imitate" : "reinforce", point.loss, point.gap_10,
                        point.gap_30, point.wall_s);
  }
  return text;
}

std::vector<OracleTraining::Point> read_curves(const RunDirectory& directory) {
  const CsvTable table =
      read_csv(directory.read(kCurves, CsvLimits::kBytes), directory.file(kCurves));
  const size_t phase = table.column("phase");
  const auto column = [&](const char* name) { return table.numbers(name); };
  const std::vector<double> step = column("step"), loss = column("loss"), gap_10 = column("gap_10"),
                            gap_30 = column("gap_30"), wall_s = column("wall_s");
  std::vector<OracleTraining::Point> curve;
  for (size_t row = 0; row < table.rows(); ++row) {
    curve.push_back({.step = static_cast<int64_t>(step[row]),
                     .imitation = table.text(row, phase) == "imitate",
                     .loss = loss[row],
                     .gap_10 = gap_10[row],
                     .gap_30 = gap_30[row],
                     .wall_s = wall_s[row]});
  }
  return curve;
}

Figure figure_of(const std::vector<OracleTraining::Point>& curve) {
  Series ten{.name = "10 requests", .look = 0}, thirty{.name = "30 requests", .look = 1};
  Series imitate{.name = "imitation", .look = 0};
  for (const auto& point : curve) {
    const auto step = static_cast<double>(point.step);
    ten.curve.add(step, point.gap_10);
    thirty.curve.add(step, point.gap_30);
    if (point.imitation) imitate.curve.add(step, point.loss);
  }
  return {.title = "Training of the routing oracle",
          .panels = {{.title = "Greedy tours",
                      .x = {.label = "step"},
                      .y = {.label = "% above the solver", .from_zero = true},
                      .series = {ten, thirty}},
                     {.title = "Imitation",
                      .x = {.label = "step"},
                      .y = {.label = "-log p of a choice"},
                      .series = {imitate}}}};
}

}  // namespace

Schema TrainingOptions::schema() {
  const TrainingOptions d;
  constexpr int64_t kMany = 1'000'000'000;
  Schema schema;
  schema.integer("customers", d.sizes.most, {1, 1000}, "most requests of an instance")
      .integer("fewest", d.sizes.fewest, {1, 1000}, "fewest requests of an instance")
      .choice("sizes", "even", {"even", "doubling"},
              "numbers of requests are as likely as each other; or 10 to 20 as 100 to 200")
      .text("init", d.init,
            "weights to begin with, whose normalisers stay as they are (default: drawn)")
      .integer("imitate", d.imitate, {0, kMany}, "steps of imitation of the solver")
      .integer("reinforce", d.reinforce, {0, kMany}, "steps of REINFORCE behind them")
      .integer("batch", d.batch, {1, 1'000'000}, "instances of a step")
      .number("imitate_rate", d.imitate_rate, {0, 1}, "learning rate; falls to a twentieth")
      .number("reinforce_rate", d.reinforce_rate, {0, 1}, "learning rate; falls to a twentieth")
      .integer("teach_iterations", d.teach_iterations, {0, kMany}, "of the solver for a lesson")
      .integer("teach_chunk", d.teach_chunk, {1, 1'000'000}, "lessons solved at a time")
      .integer("teach_every", d.teach_every, {1, kMany}, "steps after which new ones are added")
      .integer("teach_first", d.teach_first, {1, 1'000'000}, "chunks before the first step")
      .integer("teach_keep", d.teach_keep, {1, 1'000'000}, "chunks that are kept")
      .integer("validate_every", d.validate_every, {1, kMany}, "steps between reports")
      .integer("validate", d.validate, {1, 1'000'000}, "instances of a report, of each size")
      .number("seconds", d.seconds, {0, 1e9}, "stop after so long, to go on later; 0: never")
      .integer("seed", static_cast<int64_t>(d.seed), {0, INT64_MAX}, "of everything that is drawn")
      .integer("threads", d.threads, {1, 1024}, "that solve lessons and follow tours")
      .choice("device", d.device, {"cpu", "cuda"}, "of the network");
  return schema;
}

TrainingOptions TrainingOptions::from(const Config& config) {
  const auto integer = [&](const char* key) { return static_cast<int>(config.get_integer(key)); };
  return {.sizes = {.fewest = integer("fewest"),
                    .most = integer("customers"),
                    .by_doubling = config.get_text("sizes") == "doubling"},
          .init = config.get_text("init"),
          .imitate = config.get_integer("imitate"),
          .reinforce = config.get_integer("reinforce"),
          .batch = integer("batch"),
          .imitate_rate = config.get_number("imitate_rate"),
          .reinforce_rate = config.get_number("reinforce_rate"),
          .teach_iterations = integer("teach_iterations"),
          .teach_chunk = integer("teach_chunk"),
          .teach_every = integer("teach_every"),
          .teach_first = integer("teach_first"),
          .teach_keep = integer("teach_keep"),
          .validate_every = integer("validate_every"),
          .validate = integer("validate"),
          .seconds = config.get_number("seconds"),
          .seed = static_cast<uint64_t>(config.get_integer("seed")),
          .threads = integer("threads"),
          .device = config.get_text("device")};
}

OracleTraining::OracleTraining(const Data& data, const Config& config, const std::string& directory)
    : OracleTraining(
          data, config,
          RunDirectory::make(
              directory.empty()
                  ? make_run_path("dvrp-oracle", static_cast<uint64_t>(config.get_integer("seed")))
                  : directory,
              kNames),
          first_weights(data.city, config)) {
  directory_.write(kConfig, config.to_yaml());
  save();
}

OracleTraining::OracleTraining(const Data& data, const Config& config, RunDirectory directory,
                               const Tensors& weights)
    : data_(data),
      config_(config),
      options_(TrainingOptions::from(config)),
      directory_(std::move(directory)),
      pool_(options_.threads),
      begun_ns_(now_ns()) {
  const auto [fewest, most, by_doubling] = options_.sizes;
  if (most > data.travellers.count) {
    throw Error(ErrorCode::kUsage, fmt::format("customers: {}, but there are {} travellers", most,
                                               data.travellers.count));
  }
  if (fewest > most) {
    throw Error(ErrorCode::kUsage,
                fmt::format("fewest: {} requests, but customers, the most, is {}", fewest, most));
  }
  oracle_ = make_torch_oracle(city_table(data.city), weights, options_.device);
}

Config OracleTraining::config_of(const std::string& directory) {
  const RunDirectory opened = RunDirectory::open(directory);
  Config config(TrainingOptions::schema());
  try {
    config.load_yaml_text(opened.read(kConfig, kLargestConfig), opened.file(kConfig));
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, error.what());
  }
  return config;
}

std::unique_ptr<OracleTraining> OracleTraining::resume(const Data& data, const Config& config,
                                                       const std::string& directory) {
  std::unique_ptr<OracleTraining> training(new OracleTraining(
      data, config, RunDirectory::open(directory), drawn_weights(data.city, config)));
  training->load();
  training->directory_.write(kConfig, config.to_yaml());
  return training;
}

void OracleTraining::load() {
  const std::string path = directory_.file(kState);
  const TensorFile file = decode_safetensors(directory_.read(kState, kMaxBytes), path);
  try {
    Tensors weights = oracle_->weights();
    const Tensors all = file.all_tensors();
    Tensors expected = oracle_->optimiser();
    expected.insert(expected.end(), weights.begin(), weights.end());
    std::ranges::sort(expected, {}, &Tensor::name);
    require_same_shapes(expected, all);
    for (Tensor& tensor : weights) tensor = find_tensor(all, tensor.name);
    oracle_->set_weights(weights);
    oracle_->set_optimiser(all);
    step_ = std::stoll(file.find_metadata("step"));
  } catch (const std::exception& error) {
    if (is_refusal(error)) throw;
    throw Error(ErrorCode::kData, path + ": " + error.what());
  }
  curve_ = read_curves(directory_);
  if (!curve_.empty()) earlier_s_ = curve_.back().wall_s;
}

void OracleTraining::save() {
  const OracleWeights weights{
      .tensors = oracle_->weights(), .city = city_hash(data_.city), .origin = {}};
  TensorFile state;
  state.tensors = store(oracle_->optimiser());
  for (const Tensor& tensor : weights.tensors) state.tensors.push_back(store(tensor));
  state.metadata = {{"step", std::to_string(step_)}};
  directory_.write(kWeights, encode_oracle(weights));
  directory_.write(kState, encode_safetensors(state));
  directory_.write(kCurves, curves_csv(curve_));
}

double OracleTraining::wall_s() const { return earlier_s_ + seconds_since(begun_ns_); }

double OracleTraining::rate() const {
  const bool imitation = step_ < options_.imitate;
  const double done = imitation ? static_cast<double>(step_) / static_cast<double>(options_.imitate)
                                : static_cast<double>(step_ - options_.imitate) /
                                      static_cast<double>(options_.reinforce);
  const double full = imitation ? options_.imitate_rate : options_.reinforce_rate;
  const double warm = std::min(1.0, static_cast<double>(step_ + 1) / 200);
  return full * warm * (1 - 0.95 * done);
}

void OracleTraining::add_lessons() {
  const auto most =
      static_cast<size_t>(options_.teach_keep) * static_cast<size_t>(options_.teach_chunk);
  for (Lesson& lesson : teacher_->next()) {
    if (lessons_.size() < most) {
      lessons_.push_back(std::move(lesson));
    } else {
      lessons_[next_lesson_++ % most] = std::move(lesson);
    }
  }
}

double OracleTraining::imitate() {
  const auto chunk = static_cast<uint64_t>(step_ / options_.teach_every);
  if (teacher_ == nullptr) {
    teacher_ =
        std::make_unique<Teacher>(data_, Teacher::Options{.sizes = options_.sizes,
                                                          .iterations = options_.teach_iterations,
                                                          .chunk = options_.teach_chunk,
                                                          .seed = options_.seed,
                                                          .first_chunk = chunk,
                                                          .threads = options_.threads});
    for (int i = 0; i < options_.teach_first; ++i) {
      if (i > 0 && interrupted()) break;  // one is needed for a step
      add_lessons();
    }
  } else if (step_ % options_.teach_every == 0) {
    add_lessons();
  }
  Rng rng(options_.seed, stream_of(Purpose::kShuffle, static_cast<uint64_t>(step_)));
  std::vector<const Lesson*> drawn;
  for (int i = 0; i < options_.batch; ++i) {
    drawn.push_back(&lessons_[rng.below(static_cast<uint32_t>(lessons_.size()))]);
  }
  // Normalisers that learn see the batch as a whole.
  const bool frozen = !options_.init.empty();
  const std::vector<Part> parts = frozen ? parts_by_size(drawn) : std::vector<Part>{Part(drawn)};
  std::vector<StepBatch> steps;
  float choices = 0;
  for (const Part& part : parts) {
    steps.push_back(step_batch(part.instances, part.sequences,
                               std::vector<float>(part.instances.size(), 1), pool_));
    choices = std::accumulate(steps.back().weight.begin(), steps.back().weight.end(), choices);
  }
  double loss = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (float& weight : steps[i].weight) weight /= std::max(1.0F, choices);
    loss += oracle_->learn(node_batch(parts[i].instances), steps[i],
                           {.rate = rate(), .frozen_norms = frozen, .part = i + 1 < parts.size()});
  }
  return loss;
}

std::vector<double> OracleTraining::costs_of(const std::vector<const Instance*>& instances,
                                             bool sampled,
                                             std::vector<std::vector<int>>* sequences) {
  auto chosen =
      oracle_->decode(node_batch(instances), sampled, options_.seed + static_cast<uint64_t>(step_));
  std::vector<double> costs(instances.size());
  pool_.for_each(static_cast<int>(instances.size()), [&](int, int item) {
    const auto i = static_cast<size_t>(item);
    costs[i] = tour_of(*instances[i], chosen[i]).cost;
  });
  if (sequences != nullptr) *sequences = std::move(chosen);
  return costs;
}

double OracleTraining::reinforce() {
  std::vector<Instance> drawn;
  for (int i = 0; i < options_.batch; ++i) {
    const uint64_t index = static_cast<uint64_t>(step_) * static_cast<uint64_t>(options_.batch) +
                           static_cast<uint64_t>(i);
    drawn.push_back(draw_lesson(data_, options_.sizes, options_.seed, kReinforceLessons + index));
  }
  const std::vector<const Instance*> instances = pointers(drawn);
  std::vector<std::vector<int>> sequences;
  const std::vector<double> costs = costs_of(instances, true, &sequences);
  const std::vector<double> baseline = costs_of(instances, false, nullptr);
  std::vector<float> advantage;
  double squares = 0;
  for (size_t i = 0; i < costs.size(); ++i) {
    const double saved = baseline[i] - costs[i];
    advantage.push_back(std::isfinite(saved) ? static_cast<float>(saved) : 0.0F);
    squares += static_cast<double>(advantage.back()) * static_cast<double>(advantage.back());
  }
  const double deviation = std::sqrt(squares / static_cast<double>(costs.size())) + 1e-6;
  const auto factor = static_cast<float>(1 / (deviation * static_cast<double>(costs.size())));
  for (float& each : advantage) each *= factor;
  const StepBatch steps = step_batch(instances, sequences, advantage, pool_);
  oracle_->learn(node_batch(instances), steps, {.rate = rate(), .frozen_norms = true});
  return mean(costs);
}

double OracleTraining::gap(const std::vector<Instance>& instances, double reference) {
  return 100 * (mean(costs_of(pointers(instances), false, nullptr)) / reference - 1);
}

void OracleTraining::validate() {
  if (exam_30_.empty()) {
    exam_10_ = draw_exam(data_, 10, options_.validate);
    exam_30_ = draw_exam(data_, options_.sizes.most, options_.validate);
    reference_10_ = solver_mean(exam_10_, pool_);
    reference_30_ = solver_mean(exam_30_, pool_);
  }
  curve_.push_back({.step = step_,
                    .imitation = step_ <= options_.imitate,
                    .loss = loss_,
                    .gap_10 = gap(exam_10_, reference_10_),
                    .gap_30 = gap(exam_30_, reference_30_),
                    .wall_s = wall_s()});
}

void OracleTraining::run(const Report& report) {
  const double until = options_.seconds > 0 ? wall_s() + options_.seconds : INFINITY;
  const auto pause = [&] { return wall_s() > until; };
  bool stop = false;
  while (step_ < steps() && !stop) {
    const bool imitation = step_ < options_.imitate;
    const double loss = imitation ? imitate() : reinforce();
    const bool first = loss_ == 0 || step_ == options_.imitate;
    loss_ = first ? loss : 0.99 * loss_ + 0.01 * loss;
    ++step_;
    if (interrupted() && step_ != steps()) {  // what is measured now and then would be waited for
      save();
      break;
    }
    stop = pause();
    if (!stop && step_ % options_.validate_every != 0 && step_ != steps()) continue;
    validate();
    save();
    report(curve_.back());
  }
  directory_.write(kFigure, render_svg(figure_of(curve_)));
  if (interrupted()) {
    throw Error(ErrorCode::kInterrupted,
                fmt::format("interrupted at step {}; resume with --resume {}", step_, path()));
  }
}

}  // namespace flotilla::dvrp
