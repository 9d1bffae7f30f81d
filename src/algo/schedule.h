// A number that changes over a run: a learning rate, an entropy bonus, a clip range.
#pragma once

#include <cstdint>
#include <string>

#include "flotilla/core/config.h"

namespace flotilla {

struct Schedule {
  enum class Shape : uint8_t { kConstant, kLinear, kCosine };
  Shape shape = Shape::kConstant;
  double first = 0, last = 0;

  // `progress` from 0 (start of the run) to 1 (its end); beyond, the end value.
  double at(double progress) const;

  // Keys "NAME" (the first value), "NAME_schedule" and "NAME_last"; the same behind another name.
  static void add_to(Schema& schema, const std::string& name, double value, Range<double> range,
                     const std::string& help, const std::string& alias = "");
  static Schedule from(const Config& config, const std::string& name);
};

}  // namespace flotilla
