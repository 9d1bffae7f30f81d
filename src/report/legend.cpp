#include "flotilla/report/legend.h"

#include <array>

namespace flotilla::chart_detail {
namespace {

// Okabe and Ito, "Color Universal Design" (2008); the yellow, hard to see on white, comes last.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#000000", "#f0e442"};
// The number of dashes has no factor in common with that of colours but 2: 24 looks.
constexpr std::array kDashes = {"", "6 2.5", "2 2", "8 2.5 2 2.5", "11 3", "4 2 1.5 2 1.5 2"};

constexpr double kSample = 18;    // length of the piece of line beside a name
constexpr double kSampleGap = 4;  // between it and the name
constexpr double kEntryGap = 10;  // between entries
constexpr double kMiddle = 0.35;  // of small letters, above the base line, in units of the size

template <size_t N>
const char* pick(const std::array<const char*, N>& from, int index) {
  return from[static_cast<size_t>(index < 0 ? 0 : index) % N];
}

void draw_sample(svg::Drawing& drawing, const Series& series, double x, double middle) {
  const svg::Point left{x, middle}, right{x + kSample, middle};
  if (!series.low.empty() && series.kind != Series::Kind::kPoints) {
    const double half = series.kind == Series::Kind::kArea ? 4 : 3.5;
    drawing.rect({x, middle - half, kSample, 2 * half}, band_paint(series));
  }
  if (series.kind == Series::Kind::kArea) return;
  drawing.line(left, right, line_paint(series));
  if (series.kind != Series::Kind::kPoints) return;
  const svg::Point centre{x + kSample / 2, middle};
  drawing.circle(centre, 2, {.fill = colour_of(series)});
  if (series.low.empty()) return;
  drawing.line({centre.x, middle - 4.5}, {centre.x, middle + 4.5},
               {.stroke = colour_of(series), .width = 0.8});
}

}  // namespace

std::string colour_of(const Series& series) {
  return series.look == Series::kGrey ? "#aaaaaa" : pick(kColours, series.look);
}

svg::Paint line_paint(const Series& series) {
  svg::Paint paint{.stroke = colour_of(series), .width = 1.4};
  switch (series.kind) {
    case Series::Kind::kLine:
      paint.dash = pick(kDashes, series.look);
      break;
    case Series::Kind::kFaint:
      paint.width = 0.6;
      paint.opacity = 0.35;
      break;
    case Series::Kind::kPoints:
    case Series::Kind::kArea:
      paint.width = 0.8;
      break;
  }
  return paint;
}

svg::Paint band_paint(const Series& series) {
  const bool area = series.kind == Series::Kind::kArea;
  return {.fill = colour_of(series), .opacity = area ? 0.75 : 0.2};
}

Legend::Legend(const std::vector<Series>& series, double width) {
  double x = 0;
  for (const Series& one : series) {
    if (one.name.empty()) continue;
    const std::string text = svg::fitted(one.name, kLegendSize, width - kSample - kSampleGap);
    const double needed = kSample + kSampleGap + svg::text_width(text, kLegendSize);
    if (lines_.empty() || x + needed > width) {
      lines_.emplace_back();
      x = 0;
    }
    lines_.back().push_back({&one, text, x});
    x += needed + kEntryGap;
  }
}

void Legend::draw(svg::Drawing& drawing, svg::Point top_left) const {
  double base = top_left.y + 0.75 * kLegendLine;
  for (const auto& line : lines_) {
    for (const Entry& entry : line) {
      const double x = top_left.x + entry.x;
      draw_sample(drawing, *entry.series, x, base - kMiddle * kLegendSize);
      drawing.text({x + kSample + kSampleGap, base}, entry.text, {.size = kLegendSize});
    }
    base += kLegendLine;
  }
}

}  // namespace flotilla::chart_detail
