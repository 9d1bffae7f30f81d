#include "flotilla/report/chart.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "flotilla/report/legend.h"
#include "flotilla/report/scale.h"
#include "flotilla/report/svg.h"

namespace flotilla {
namespace {

using chart_detail::band_paint;
using chart_detail::colour_of;
using chart_detail::Legend;
using chart_detail::line_paint;

constexpr double kPanelWidth = 240, kPlotHeight = 128;
constexpr double kTickSize = 9, kLabelSize = 10, kTitleSize = 10.5;
constexpr double kEdge = 6;  // around the figure
constexpr double kTitleHeight = 18;
constexpr double kTickGap = 4;  // between a tick's label and the axis
constexpr double kLabelHeight = 14;
constexpr double kLegendGap = 4;
constexpr double kRowGap = 10;
constexpr double kMargin = 0.05;       // of the data's height, above and below it
constexpr size_t kCurveColumns = 210;  // that long curves are thinned to
constexpr size_t kMostWhiskers = 60;
constexpr const char* kGridColour = "#e4e4e4";
constexpr const char* kFrameColour = "#666666";

std::optional<Extent> x_extent(const Panel& panel) {
  std::optional<Extent> result;
  for (const Series& series : panel.series) result = united(result, extent(series.curve.x));
  return result;
}

std::optional<Extent> y_extent(const Panel& panel, bool positive_only) {
  std::optional<Extent> result;
  const auto take = [&](const std::vector<double>& values) {
    for (const double value : values) {
      if (!std::isfinite(value) || (positive_only && value <= 0)) continue;
      result = united(result, Extent{value, value});
    }
  };
  for (const Series& series : panel.series) {
    if (series.kind != Series::Kind::kArea) take(series.curve.y);
    take(series.low);
    take(series.high);
  }
  return result;
}

Scale scale_of(const Axis& axis, Extent range) {
  const double margin = axis.tight ? 0 : kMargin;
  // One value alone stands in the middle.
  if (axis.from_zero && range.low > 0 && range.high > range.low) range.low = 0;
  // A curve that begins at 0 stands on the axis.
  const bool at_zero = axis.from_zero && range.low == 0 && range.high > 0;
  const Scale widened = Scale(Scale::Kind::kLinear, range.low, range.high).widened(margin);
  return at_zero ? Scale(Scale::Kind::kLinear, 0, widened.high()) : widened;
}

Scale y_scale(const Panel& panel) {
  const Extent nothing{0, 1};
  const Extent all = y_extent(panel, false).value_or(nothing);
  const bool is_log =
      panel.y.kind == Axis::Kind::kLog ||
      (panel.y.kind == Axis::Kind::kAuto && all.low > 0 && all.high / 100 >= all.low);
  if (!is_log) return scale_of(panel.y, all);
  const Extent positive = y_extent(panel, true).value_or(Extent{0.1, 1});
  return Scale(Scale::Kind::kLog, positive.low, positive.high).widened(kMargin);
}

// As many ticks as stand side by side with some air between their labels.
std::vector<Tick> fitting_x_ticks(const Scale& scale, double width) {
  for (int count = 6; count > 1; --count) {
    std::vector<Tick> ticks = scale.ticks(count);
    double used = 0;
    for (const Tick& tick : ticks) used += svg::text_width(tick.label, kTickSize) + 10;
    if (used <= width * static_cast<double>(ticks.size()) /
                    static_cast<double>(std::max<size_t>(2, ticks.size()) - 1)) {
      return ticks;
    }
  }
  return scale.ticks(1);
}

// A panel with its scales chosen; where it stands comes later.
struct Prepared {
  explicit Prepared(const Panel& panel)
      : panel(panel),
        empty(!x_extent(panel) || !y_extent(panel, panel.y.kind == Axis::Kind::kLog)),
        x(scale_of(panel.x, x_extent(panel).value_or(Extent{0, 1}))),
        y(y_scale(panel)),
        y_ticks(y.ticks(8)) {
    for (const Tick& tick : y_ticks) {
      label_width = std::max(label_width, svg::text_width(tick.label, kTickSize));
    }
  }

  // Of what stands left of the axis.
  double left() const {
    return kEdge + (panel.y.label.empty() ? 0 : kLabelHeight) + label_width + kTickGap;
  }

  const Panel& panel;
  bool empty;
  Scale x, y;
  std::vector<Tick> y_ticks;
  double label_width = 0;
};

// The values at those places that are numbers and do not go back.
Curve ascending(const std::vector<double>& x, const std::vector<double>& y) {
  Curve result;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (std::isfinite(x[i]) && (result.empty() || x[i] >= result.x.back())) result.add(x[i], y[i]);
  }
  return result;
}

// The points of a series on the paper, in pieces between gaps.
std::vector<std::vector<svg::Point>> pieces_of(const Curve& curve, const Prepared& panel,
                                               const svg::Box& box) {
  std::vector<std::vector<svg::Point>> pieces(1);
  for (size_t i = 0; i < curve.size(); ++i) {
    const double x = panel.x.place(curve.x[i]), y = panel.y.place(curve.y[i]);
    if (std::isfinite(x) && std::isfinite(y)) {
      pieces.back().push_back({box.x + x * box.width, box.bottom() - y * box.height});
    } else if (!pieces.back().empty()) {
      pieces.emplace_back();
    }
  }
  if (pieces.back().empty()) pieces.pop_back();
  return pieces;
}

void draw_line(svg::Drawing& drawing, const Series& series, const Prepared& panel,
               const svg::Box& box) {
  const svg::Paint paint = line_paint(series);
  const Curve line = thinned(ascending(series.curve.x, series.curve.y), kCurveColumns);
  for (const auto& piece : pieces_of(line, panel, box)) {
    if (piece.size() > 1) {
      drawing.polyline(piece, paint);
    } else {  // a line of one point is not seen
      drawing.circle(piece[0], 1.6 * paint.width, {.fill = paint.stroke, .opacity = paint.opacity});
    }
  }
}

// One edge of a band. What a log scale does not have lies at its lower end.
Curve band_edge(const Series& series, std::vector<double> values, const Scale& scale) {
  for (double& value : values) {
    if (scale.kind() == Scale::Kind::kLog && value <= 0) value = scale.low();
  }
  return thinned(ascending(series.curve.x, values), kCurveColumns);
}

// REQUIRES: the edges are missing at the same places.
void draw_band(svg::Drawing& drawing, const Series& series, const Prepared& panel,
               const svg::Box& box) {
  const auto lows = pieces_of(band_edge(series, series.low, panel.y), panel, box);
  const auto highs = pieces_of(band_edge(series, series.high, panel.y), panel, box);
  for (size_t i = 0; i < std::min(lows.size(), highs.size()); ++i) {
    std::vector<svg::Point> outline = highs[i];
    outline.insert(outline.end(), lows[i].rbegin(), lows[i].rend());
    drawing.polygon(outline, band_paint(series));
    if (series.kind != Series::Kind::kArea) continue;
    // Areas of similar grey are told apart by the line between them.
    drawing.polyline(highs[i], {.stroke = "#ffffff", .width = 0.6});
  }
}

void draw_points(svg::Drawing& drawing, const Series& series, const Prepared& panel,
                 const svg::Box& box) {
  const svg::Paint whisker{.stroke = colour_of(series), .width = 0.8};
  const bool many = series.curve.size() > kMostWhiskers;
  if (!series.low.empty() && many) draw_band(drawing, series, panel, box);
  draw_line(drawing, series, panel, box);
  if (many) return;
  for (size_t i = 0; i < series.curve.size(); ++i) {
    const double x = box.x + panel.x.place(series.curve.x[i]) * box.width;
    const auto height = [&](double y) { return box.bottom() - panel.y.place(y) * box.height; };
    if (!std::isfinite(x) || !std::isfinite(height(series.curve.y[i]))) continue;
    drawing.circle({x, height(series.curve.y[i])}, 2, {.fill = colour_of(series)});
    if (series.low.empty()) continue;
    const double low = height(series.low[i]), high = height(series.high[i]);
    if (std::isfinite(low) && std::isfinite(high)) drawing.line({x, low}, {x, high}, whisker);
  }
}

void draw_series(svg::Drawing& drawing, const Prepared& panel, const svg::Box& box) {
  const auto draw_all = [&](auto&& draw, auto... kinds) {
    for (const Series& series : panel.panel.series) {
      if (((series.kind == kinds) || ...)) draw(drawing, series, panel, box);
    }
  };
  using Kind = Series::Kind;
  const auto band = [](auto& drawing, const Series& series, auto& panel, auto& box) {
    if (!series.low.empty()) draw_band(drawing, series, panel, box);
  };
  // What is pale stands behind what is not.
  draw_all(band, Kind::kArea, Kind::kLine, Kind::kFaint);
  draw_all(draw_line, Kind::kFaint);
  draw_all(draw_line, Kind::kLine);
  draw_all(draw_points, Kind::kPoints);
}

void draw_y_axis(svg::Drawing& drawing, const Prepared& panel, const svg::Box& box) {
  for (const Tick& tick : panel.y_ticks) {
    const double y = box.bottom() - panel.y.place(tick.value) * box.height;
    drawing.line({box.x, y}, {box.right(), y}, {.stroke = kGridColour, .width = 0.6});
    drawing.text({box.x - kTickGap, y + 0.35 * kTickSize}, tick.label,
                 {.size = kTickSize, .anchor = svg::Anchor::kEnd});
  }
}

void draw_x_axis(svg::Drawing& drawing, const Prepared& panel, const svg::Box& box) {
  for (const Tick& tick : fitting_x_ticks(panel.x, box.width)) {
    const double x = box.x + panel.x.place(tick.value) * box.width;
    drawing.line({x, box.y}, {x, box.bottom()}, {.stroke = kGridColour, .width = 0.6});
    drawing.text({x, box.bottom() + kTickGap + 0.8 * kTickSize}, tick.label,
                 {.size = kTickSize, .anchor = svg::Anchor::kMiddle});
  }
}

void draw_titles(svg::Drawing& drawing, const Panel& panel, const svg::Box& box, double left) {
  const svg::TextStyle style{.size = kLabelSize, .anchor = svg::Anchor::kMiddle};
  const double middle = box.x + box.width / 2;
  if (!panel.title.empty()) {
    drawing.text({middle, box.y - 6}, svg::fitted(panel.title, 1.1 * kTitleSize, box.width),
                 {.size = kTitleSize, .anchor = svg::Anchor::kMiddle, .bold = true});
  }
  drawing.text({middle, box.bottom() + kLabelHeight + kLabelSize},
               svg::fitted(panel.x.label, kLabelSize, box.width), style);
  if (!panel.y.label.empty()) {
    svg::TextStyle turned = style;
    turned.turn = -90;
    drawing.text({box.x - left + kEdge + 0.8 * kLabelSize, box.y + box.height / 2},
                 svg::fitted(panel.y.label, kLabelSize, box.height), turned);
  }
}

// `left`: the width of what stands left of the axes.
void draw_panel(svg::Drawing& drawing, const Prepared& panel, const svg::Box& box, double left) {
  draw_titles(drawing, panel.panel, box, left);
  if (panel.empty) {
    drawing.rect(box, {.stroke = kFrameColour, .width = 0.8});
    drawing.text({box.x + box.width / 2, box.y + box.height / 2}, "no data",
                 {.size = kLabelSize, .anchor = svg::Anchor::kMiddle, .colour = kFrameColour});
  } else {
    draw_y_axis(drawing, panel, box);
    draw_x_axis(drawing, panel, box);
    drawing.rect(box, {.stroke = kFrameColour, .width = 0.8});
    // With room for dots and thick lines at the edge.
    drawing.begin_clipped({box.x - 3, box.y - 3, box.width + 6, box.height + 6});
    draw_series(drawing, panel, box);
    drawing.end();
  }
}

// Names explain themselves when there is one only, which is what the axis says anyway.
bool needs_legend(const Panel& panel) {
  return std::ranges::count_if(panel.series, [](const Series& s) { return !s.name.empty(); }) > 1;
}

// Where the panels stand: all have the same size, and those of a row the same height of legend.
class Layout {
 public:
  explicit Layout(const Figure& figure) : one_legend_(figure.one_legend) {
    const int panels = static_cast<int>(figure.panels.size());
    columns_ = static_cast<size_t>(std::clamp(figure.columns, 1, std::max(1, panels)));
    for (const Panel& panel : figure.panels) {
      panels_.emplace_back(panel);
      left_ = std::max(left_, panels_.back().left());
      if (!panel.title.empty()) title_height_ = kTitleHeight;
    }
    bottom_ = kEdge + (figure.title.empty() ? 0 : kTitleHeight);
    for (size_t row = 0; row < panels_.size(); row += columns_) add_row(row);
  }

  double width() const { return kPanelWidth * static_cast<double>(columns_) + kEdge; }
  double bottom() const { return bottom_; }
  size_t count() const { return panels_.size(); }
  const Prepared& panel(size_t i) const { return panels_[i]; }
  const svg::Box& box(size_t i) const { return boxes_[i]; }
  double left() const { return left_; }
  // Of the panel alone; has no lines where there is nothing to tell apart.
  Legend legend(size_t i) const {
    static const std::vector<Series> kNone;
    const bool needed = !one_legend_ && needs_legend(panels_[i].panel);
    return {needed ? panels_[i].panel.series : kNone, boxes_[i].width + left_ - 2 * kEdge};
  }
  svg::Point legend_corner(size_t i) const {
    return {boxes_[i].x - left_ + 2 * kEdge, boxes_[i].bottom() + 2 * kLabelHeight + kLegendGap};
  }

 private:
  void add_row(size_t first) {
    const double top = bottom_ + title_height_;
    double legend_height = 0;
    for (size_t i = first; i < std::min(first + columns_, panels_.size()); ++i) {
      const double column = kPanelWidth * static_cast<double>(i - first);
      boxes_.push_back({column + left_, top, kPanelWidth - left_ - 2 * kEdge, kPlotHeight});
      legend_height = std::max(legend_height, legend(i).height());
    }
    bottom_ = top + kPlotHeight + 2 * kLabelHeight + legend_height + kRowGap;
    if (legend_height > 0) bottom_ += kLegendGap;
  }

  bool one_legend_;
  size_t columns_ = 1;
  std::vector<Prepared> panels_;
  double left_ = 0;  // the widest of what stands left of an axis
  double title_height_ = 4;
  std::vector<svg::Box> boxes_;
  double bottom_ = 0;
};

}  // namespace

std::string render_svg(const Figure& figure) {
  const Layout layout(figure);
  const double inner = layout.width() - 4 * kEdge;
  const std::vector<Series> none;
  const Legend shared(figure.one_legend && !figure.panels.empty() ? figure.panels[0].series : none,
                      inner);
  svg::Drawing drawing(layout.width(), layout.bottom() + shared.height(), figure.title);
  if (!figure.title.empty()) {
    drawing.text({layout.width() / 2, kEdge + kTitleSize},
                 svg::fitted(figure.title, 1.1 * (kTitleSize + 1), inner),
                 {.size = kTitleSize + 1, .anchor = svg::Anchor::kMiddle, .bold = true});
  }
  for (size_t i = 0; i < layout.count(); ++i) {
    draw_panel(drawing, layout.panel(i), layout.box(i), layout.left());
    layout.legend(i).draw(drawing, layout.legend_corner(i));
  }
  shared.draw(drawing, {2 * kEdge, layout.bottom() - kRowGap / 2});
  return drawing.str();
}

}  // namespace flotilla
