#include "flotilla/domains/dvrp/oracle/evaluation.h"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <utility>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/routing/solver.h"

namespace flotilla::dvrp {
namespace {

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

Instance shifted_at_random(Instance instance, uint64_t seed, uint64_t index) {
  Rng rng(seed, stream_of(Purpose::kTest, (uint64_t{2} << 40u) + index));
  for (Request& request : instance.requests) {
    request = shifted(request, shift_of(static_cast<int>(rng.below(kActions))));
  }
  return instance;
}

std::vector<double> costs_of(Router& router, std::span<const Instance> instances) {
  constexpr size_t kBatch = 64;
  std::vector<const Instance*> all;
  for (const Instance& instance : instances) all.push_back(&instance);
  std::vector<Tour> tours(all.size());
  for (size_t i = 0; i < all.size(); i += kBatch) {
    const size_t count = std::min(kBatch, all.size() - i);
    router.route(std::span(all).subspan(i, count), std::span(tours).subspan(i, count));
  }
  std::vector<double> costs;
  for (size_t i = 0; i < tours.size(); ++i) {
    const std::string fault = fault_of(instances[i], tours[i].routes);
    if (!fault.empty()) throw Error(ErrorCode::kCheckFailed, "a tour breaks a rule: " + fault);
    costs.push_back(tours[i].cost);
  }
  return costs;
}

double measure_rate(Router& router, std::span<const Instance> instances) {
  const uint64_t begin = now_ns();
  size_t done = 0;
  double seconds = 0;
  do {
    costs_of(router, instances);
    done += instances.size();
    seconds = seconds_since(begin);
  } while (seconds < 1);
  return static_cast<double>(done) / seconds;
}

}  // namespace

Instance draw_exam_instance(const Data& data, int requests, uint64_t seed, uint64_t index) {
  Rng rng(seed, stream_of(Purpose::kTest, (uint64_t{1} << 40u) + index));
  return draw_instance(data, requests, rng);
}

std::vector<double> costs_of(std::span<const Tour> tours) {
  std::vector<double> costs;
  for (const Tour& tour : tours) costs.push_back(tour.cost);
  return costs;
}

double correlation(std::span<const double> x, std::span<const double> y) {
  const double mean_x = mean(x), mean_y = mean(y);
  double xx = 0, yy = 0, xy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    yy += (y[i] - mean_y) * (y[i] - mean_y);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  return xy / std::sqrt(xx * yy);
}

Referee make_solver_referee(int iterations, ThreadPool& pool) {
  return [iterations, &pool](std::span<const Instance> instances, uint64_t seed) {
    std::vector<Tour> tours(instances.size());
    pool.for_each(static_cast<int>(instances.size()), [&](int, int item) {
      if (interrupted()) return;
      const auto i = static_cast<size_t>(item);
      Solution found =
          solve(instances[i], {.iterations = iterations, .seed = seed, .stoppable = true});
      tours[i] = {.routes = std::move(found.routes), .cost = found.cost};
    });
    stop_if_interrupted();
    return tours;
  };
}

Exam make_exam(const Data& data, const ExamOptions& options, const Referee& referee,
               const std::function<void(const std::string&)>& say) {
  Exam exam;
  for (const int requests : {10, 20, 30}) {
    if (requests > data.travellers.count) continue;
    Exam::Group group{.requests = requests, .instances = {}, .referee = {}};
    for (int i = 0; i < options.instances; ++i) {
      group.instances.push_back(
          draw_exam_instance(data, requests, options.seed, static_cast<uint64_t>(i)));
    }
    group.referee = costs_of(referee(group.instances, 0));
    say(fmt::format("referee: {} instances of {} requests, {:.2f} minutes", options.instances,
                    requests, mean(group.referee)));
    exam.groups.push_back(std::move(group));
  }
  if (exam.groups.empty()) throw Error(ErrorCode::kUsage, "an exam takes 10 travellers or more");
  for (int i = 0; i < options.shifted; ++i) {
    const Instance whole = draw_exam_instance(data, exam.groups.back().requests, options.seed,
                                              static_cast<uint64_t>(options.instances + i));
    Exam::Shifts shifts;
    for (int k = 0; k < options.shifts; ++k) {
      const auto index = static_cast<uint64_t>(i * options.shifts + k);
      shifts.instances.push_back(shifted_at_random(whole, options.seed, index));
    }
    shifts.referee = costs_of(referee(shifts.instances, 0));
    shifts.again = costs_of(referee(shifts.instances, 1));
    say(fmt::format("referee: instance {} under {} shifts, {:.2f} minutes, r0 {:.3f}", i + 1,
                    options.shifts, mean(shifts.referee),
                    correlation(shifts.referee, shifts.again)));
    exam.shifts.push_back(std::move(shifts));
  }
  return exam;
}

Grade grade(Router& router, const Exam& exam) {
  Grade result;
  for (const Exam::Group& group : exam.groups) {
    const std::vector<double> costs = costs_of(router, group.instances);
    result.gaps.push_back(100 * (mean(costs) / mean(group.referee) - 1));
    result.corr_across = correlation(costs, group.referee);
  }
  const auto parts = static_cast<double>(exam.shifts.size());
  for (const Exam::Shifts& shifts : exam.shifts) {
    result.corr_within += correlation(costs_of(router, shifts.instances), shifts.referee) / parts;
    result.r0 += correlation(shifts.referee, shifts.again) / parts;
  }
  result.samples_per_s = measure_rate(router, exam.groups.back().instances);
  return result;
}

}  // namespace flotilla::dvrp
