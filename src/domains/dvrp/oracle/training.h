// Trains the oracle: first by imitation of the solver's routes, then by REINFORCE (Williams, 1992)
// with its own greedy tour of the same instance as baseline (Rennie et al., "Self-critical sequence
// training", 2017).
//
// A directory holds
//   config.yaml            the options
//   oracle.safetensors     the weights in half precision, as the router reads them
//   training.safetensors   the weights, Adam's moments and the step: what --resume needs
//   curves.csv, curves.svg
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/domains/dvrp/data/data.h"
#include "flotilla/domains/dvrp/oracle/lessons.h"
#include "flotilla/domains/dvrp/oracle/torch_oracle.h"
#include "flotilla/train/run_directory.h"

namespace flotilla::dvrp {

struct TrainingOptions {
  LessonSizes sizes;
  std::string init;                              // weights to begin with
  int64_t imitate = 20'000, reinforce = 10'000;  // steps
  int batch = 512;
  double imitate_rate = 5e-4, reinforce_rate = 1e-4;
  int teach_iterations = 1500, teach_chunk = 1024, teach_every = 32;
  int teach_first = 8, teach_keep = 256;  // chunks
  int validate_every = 500, validate = 256;
  double seconds = 0;
  uint64_t seed = 0;
  int threads = 1;
  std::string device = "cpu";

  static Schema schema();
  static TrainingOptions from(const Config& config);
};

class OracleTraining {
 public:
  // A line of curves.csv.
  struct Point {
    int64_t step = 0;
    bool imitation = true;
    double loss = 0, gap_10 = 0, gap_30 = 0;  // percent above the solver
    double wall_s = 0;
  };
  using Report = std::function<void(const Point&)>;

  // `data` must outlive it. `directory` empty: runs/dvrp-oracle-seedS-TIME.
  OracleTraining(const Data& data, const Config& config, const std::string& directory);
  // What a training was begun with.
  static Config config_of(const std::string& directory);
  static std::unique_ptr<OracleTraining> resume(const Data& data, const Config& config,
                                                const std::string& directory);

  const std::string& path() const { return directory_.path(); }
  const TrainingOptions& options() const { return options_; }
  int64_t step() const { return step_; }
  int64_t steps() const { return options_.imitate + options_.reinforce; }
  const std::vector<Point>& curve() const { return curve_; }

  // Until all steps are done, or the seconds are over; then, and with every report, a checkpoint
  // is written. Throws Error(kInterrupted) behind one.
  void run(const Report& report);

 private:
  OracleTraining(const Data& data, const Config& config, RunDirectory directory,
                 const Tensors& weights);
  void load();
  void save();
  void validate();
  void add_lessons();
  double imitate();
  double reinforce();
  double rate() const;
  std::vector<double> costs_of(const std::vector<const Instance*>& instances, bool sampled,
                               std::vector<std::vector<int>>* sequences);
  double gap(const std::vector<Instance>& instances, double reference);
  double wall_s() const;

  const Data& data_;
  const Config config_;
  const TrainingOptions options_;
  RunDirectory directory_;
  ThreadPool pool_;
  std::unique_ptr<TorchOracle> oracle_;
  std::unique_ptr<Teacher> teacher_;
  std::vector<Lesson> lessons_;  // a ring
  size_t next_lesson_ = 0;
  std::vector<Instance> exam_10_, exam_30_;
  double reference_10_ = 0, reference_30_ = 0;
  std::vector<Point> curve_;
  int64_t step_ = 0;
  double loss_ = 0;  // smoothed
  uint64_t begun_ns_ = 0;
  double earlier_s_ = 0;
};

}  // namespace flotilla::dvrp
