// How good a router is: its costs beside those of a referee, over instances, and over shifts of the
// windows of one instance, which are what a negotiator has to tell apart.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "flotilla/domains/dvrp/routing/router.h"

namespace flotilla::dvrp {

// Routes of instances. `seed` is that of its search: another one may find others.
using Referee =
    std::function<std::vector<Tour>(std::span<const Instance> instances, uint64_t seed)>;
std::vector<double> costs_of(std::span<const Tour> tours);

// The project's own solver.
Referee make_solver_referee(int iterations, ThreadPool& pool);

// One that no oracle was trained on.
Instance draw_exam_instance(const Data& data, int requests, uint64_t seed, uint64_t index);

struct Exam {
  struct Group {
    int requests = 0;
    std::vector<Instance> instances;
    std::vector<double> referee;
  };
  std::vector<Group> groups;  // 10, 20 and 30 requests, as far as there are travellers
  // An instance of the last group under random shifts of all its windows, by both seeds of the
  // referee.
  struct Shifts {
    std::vector<Instance> instances;
    std::vector<double> referee, again;
  };
  std::vector<Shifts> shifts;
};

struct ExamOptions {
  int instances = 100;  // of each size
  int shifted = 2;      // instances that are shifted,
  int shifts = 500;     // so many times each
  uint64_t seed = 0;
};
Exam make_exam(const Data& data, const ExamOptions& options, const Referee& referee,
               const std::function<void(const std::string&)>& say);

struct Grade {
  std::vector<double> gaps;  // percent above the referee, by group
  double corr_across = 0;    // over the instances of the last group
  double corr_within = 0;    // mean over the shifted instances
  double r0 = 0;             // the same of the referee with itself
  double samples_per_s = 0;  // of the last group, 64 in a call
};
// Throws Error(kCheckFailed) for a tour that breaks a rule.
Grade grade(Router& router, const Exam& exam);

double correlation(std::span<const double> x, std::span<const double> y);

}  // namespace flotilla::dvrp
