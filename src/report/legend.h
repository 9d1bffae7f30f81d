// The looks of series, and the legend that tells them apart.
#pragma once

#include <string>
#include <vector>

#include "flotilla/report/chart.h"
#include "flotilla/report/svg.h"

namespace flotilla::chart_detail {

constexpr double kLegendSize = 9;  // of its type
constexpr double kLegendLine = 13;

std::string colour_of(const Series& series);
svg::Paint line_paint(const Series& series);
svg::Paint band_paint(const Series& series);

class Legend {
 public:
  // Breaks the entries of all named series into lines of at most `width`.
  Legend(const std::vector<Series>& series, double width);
  double height() const { return kLegendLine * static_cast<double>(lines_.size()); }
  void draw(svg::Drawing& drawing, svg::Point top_left) const;

 private:
  struct Entry {
    const Series* series;
    std::string text;
    double x;
  };
  std::vector<std::vector<Entry>> lines_;
};

}  // namespace flotilla::chart_detail
