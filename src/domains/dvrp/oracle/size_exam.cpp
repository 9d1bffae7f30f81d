#include "flotilla/domains/dvrp/oracle/size_exam.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/oracle/network_router.h"

namespace flotilla::dvrp {
namespace {

Instance prefix_of(const Instance& instance, size_t requests) {
  return {.city = instance.city,
          .requests = {instance.requests.begin(),
                       instance.requests.begin() + static_cast<std::ptrdiff_t>(requests)}};
}

double checked_cost(const Instance& instance, const Tour& tour) {
  const std::string fault = fault_of(instance, tour.routes);
  if (!fault.empty()) throw Error(ErrorCode::kCheckFailed, "a tour breaks a rule: " + fault);
  return tour.cost;
}

// Days side by side, each request by request, as the envs of a batch are routed. Returns the tours
// of the whole days, and the seconds that a day took.
double route_by_request(Router& router, std::span<const Instance> days, std::vector<Tour>& tours) {
  tours.assign(days.size(), {});
  const double begin = process_cpu_seconds();
  const size_t requests = days.front().requests.size();
  for (size_t n = 1; n <= requests; ++n) {
    stop_if_interrupted();
    std::vector<Instance> parts;
    std::vector<const Instance*> pointers;
    for (const Instance& day : days) parts.push_back(prefix_of(day, n));
    for (const Instance& part : parts) pointers.push_back(&part);
    router.route(pointers, tours);
  }
  return (process_cpu_seconds() - begin) / static_cast<double>(days.size());
}

double route_whole(Router& router, std::span<const Instance> days, std::vector<Tour>& tours) {
  tours.assign(days.size(), {});
  std::vector<const Instance*> pointers;
  for (const Instance& day : days) pointers.push_back(&day);
  const double begin = process_cpu_seconds();
  router.route(pointers, tours);
  stop_if_interrupted();
  return (process_cpu_seconds() - begin) / static_cast<double>(days.size());
}

class Examiner {
 public:
  Examiner(const SizeExamOptions& options, std::span<const Instance> days,
           std::span<const double> referee)
      : options_(options), days_(days), referee_(referee) {}

  SizeRow row(const std::string& name, Router& router, const DecodeOptions& decode) const {
    SizeRow row{.name = name, .decode = decode, .gaps = {}};
    std::vector<Tour> tours;
    row.instance_s = route_whole(router, days_, tours);
    row.gaps = gaps_of(tours);
    row.day_s = route_by_request(router, timed(), tours);
    return row;
  }

  SizeRow continued(Router& router, const DecodeOptions& decode) const {
    SizeRow row{.name = "continued", .decode = decode, .gaps = {}};
    std::vector<Tour> tours;
    row.day_s = route_by_request(router, days_, tours);
    row.gaps = gaps_of(tours);
    row.instance_s = row.day_s;  // there is no other way to a whole day
    return row;
  }

 private:
  std::span<const Instance> timed() const {
    return days_.first(std::min(days_.size(), static_cast<size_t>(options_.timed)));
  }
  std::vector<double> gaps_of(std::span<const Tour> tours) const {
    std::vector<double> gaps;
    for (size_t i = 0; i < tours.size(); ++i) {
      gaps.push_back(100 * (checked_cost(days_[i], tours[i]) / referee_[i] - 1));
    }
    return gaps;
  }

  const SizeExamOptions& options_;
  const std::span<const Instance> days_;
  const std::span<const double> referee_;
};

// As many iterations behind insertion as make an instance take so long. They all take about the
// same time, so two measurements tell it.
DecodeOptions in_time(double seconds, DecodeOptions decode, std::span<const Instance> days,
                      ThreadPool& pool) {
  constexpr int kMore = 200;
  const auto seconds_with = [&](int refine) {
    DecodeOptions options = decode;
    options.refine = refine;
    std::vector<Tour> tours;
    return route_whole(*make_insertion_router(options, pool), days, tours);
  };
  const double few = seconds_with(decode.refine), many = seconds_with(decode.refine + kMore);
  const double more = (seconds - few) / std::max((many - few) / kMore, 1e-9);
  decode.refine = std::max(0, decode.refine + static_cast<int>(std::lround(more)));
  return decode;
}

}  // namespace

SizeExam examine_size(const Data& data, const OracleWeights& weights,
                      const SizeExamOptions& options, const Referee& referee, ThreadPool& pool) {
  std::vector<Instance> days;
  for (int i = 0; i < options.instances; ++i) {
    days.push_back(
        draw_exam_instance(data, options.requests, options.seed, static_cast<uint64_t>(i)));
  }
  const std::vector<double> costs = costs_of(referee(days, 0));
  SizeExam exam{.requests = options.requests,
                .referee = std::accumulate(costs.begin(), costs.end(), 0.0) /
                           static_cast<double>(costs.size()),
                .rows = {}};
  const Examiner examiner(options, days, costs);
  DecodeOptions behind = options.decode;
  behind.starts = 1;
  const auto network = make_network_router(weights, data.city, options.decode, pool);
  exam.rows.push_back(examiner.row("network", *network, options.decode));
  const auto insertion = make_insertion_router(behind, pool);
  exam.rows.push_back(examiner.row("insertion", *insertion, behind));
  const DecodeOptions equal = in_time(exam.rows.front().instance_s, behind, days, pool);
  const auto longer = make_insertion_router(equal, pool);
  exam.rows.push_back(examiner.row("insertion, same time", *longer, equal));
  const auto continuing = make_continuing_router(behind, pool);
  exam.rows.push_back(examiner.continued(*continuing, behind));
  return exam;
}

}  // namespace flotilla::dvrp
