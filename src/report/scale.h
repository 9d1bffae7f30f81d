// The scale of an axis: from numbers to places, and the ticks between.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace flotilla {

struct Tick {
  double value;
  std::string label;
};

class Scale {
 public:
  enum class Kind { kLinear, kLog };

  // Takes in all numbers from `low` to `high`; where they are the same, some more on both sides.
  // Numbers beyond 1e300 count as 1e300. A log scale takes positive numbers only.
  Scale(Kind kind, double low, double high);

  Kind kind() const { return kind_; }
  double low() const { return low_; }
  double high() const { return high_; }
  // The same scale with `part` of its length added on both sides.
  Scale widened(double part) const;

  // 0 at the low end, 1 at the high end; NaN for what the scale does not have.
  double place(double value) const;
  // Round numbers in the range, about `count` of them: steps of 1, 2 or 5 times a power of ten; on
  // a log scale powers of ten, or 1, 2 and 5 times these where the range is short.
  std::vector<Tick> ticks(int count) const;

 private:
  double position(double value) const;  // the value, or its logarithm
  Kind kind_;
  double low_, high_;
};

// The smallest of 1, 2, 5 times a power of ten that divides `span` into `count` parts or fewer.
double round_step(double span, int count);

// The number as people write it: "1500", "20 k", "1.5 M", "2e-5". As many digits as numbers that
// differ by `step` need. Thousands have their suffix where `largest`, of the axis, is 10,000 or
// more.
std::string tick_label(double value, double step, double largest);

// The least and the greatest of the finite numbers; nothing when there are none.
struct Extent {
  double low, high;
};
std::optional<Extent> extent(std::span<const double> values);
std::optional<Extent> united(std::optional<Extent> a, std::optional<Extent> b);

}  // namespace flotilla
