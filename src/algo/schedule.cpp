#include "flotilla/algo/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace flotilla {

double Schedule::at(double progress) const {
  const double p = std::clamp(progress, 0.0, 1.0);
  double weight = 1;  // of the first value; written so that both ends are met exactly
  switch (shape) {
    case Shape::kConstant:
      break;
    case Shape::kLinear:
      weight = 1 - p;
      break;
    case Shape::kCosine:
      weight = (1 + std::cos(std::numbers::pi * p)) / 2;
      break;
  }
  return weight * first + (1 - weight) * last;
}

void Schedule::add_to(Schema& schema, const std::string& name, double value, Range<double> range,
                      const std::string& help, const std::string& alias) {
  const auto also = [&](const std::string& end) {
    if (!alias.empty()) schema.alias(alias + end);
  };
  schema.number(name, value, range, help);
  also("");
  schema.choice(name + "_schedule", "constant", {"constant", "linear", "cosine"},
                "how " + name + " changes over the run");
  also("_schedule");
  schema.number(name + "_last", std::clamp(0.0, range.low, range.high), range,
                "value of " + name + " at the end of the run, unless it is constant");
  also("_last");
}

Schedule Schedule::from(const Config& config, const std::string& name) {
  Schedule schedule;
  schedule.first = schedule.last = config.get_number(name);
  const std::string& shape = config.get_text(name + "_schedule");
  if (shape == "constant") return schedule;
  schedule.shape = shape == "linear" ? Shape::kLinear : Shape::kCosine;
  schedule.last = config.get_number(name + "_last");
  return schedule;
}

}  // namespace flotilla
