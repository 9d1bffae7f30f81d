#include "flotilla/domains/cage2/episode_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "flotilla/domains/cage2/marks.h"
#include "flotilla/report/scale.h"
#include "flotilla/report/svg.h"

namespace flotilla::cage2 {
namespace {

constexpr double kEdge = 6;  // around the figure
constexpr double kTitleSize = 11.5, kTitleHeight = 22;
constexpr double kTextSize = 9, kLabelSize = 10;
constexpr double kTextMiddle = 0.35;  // of small letters, above the base line, in units of the size
constexpr double kLabelWidth = 68, kIndent = 7;
constexpr double kPlotWidth = 520, kLeastCell = 5.2, kLargestCell = kPlotWidth / 30;
constexpr double kSubnetHeight = 13, kHostHeight = 14, kOtGap = 2.5, kOtHeight = 8, kRowGap = 1.5;
constexpr double kRewardGap = 10, kRewardHeight = 76, kTickGap = 4, kTickSpacing = 50;
constexpr double kAxisHeight = 30;  // ticks and label below the plot
constexpr double kLegendLine = 14, kLegendGap = 4, kSampleGap = 4;
constexpr double kBlueLane = 3.8, kRedLane = 10.2;  // in a row: blue acts first, and stands above

// Light to strong also in grey; the marks are dark enough to stand on all of them.
constexpr std::array<const char*, 3> kAccessColours = {"#f1f1f1", "#f9d9a0", "#e69f00"};
constexpr std::array<const char*, 3> kAccessNames = {"none", "user", "privileged"};
constexpr const char* kBlueColour = "#00508c";
constexpr const char* kRedColour = "#8c0d0d";
constexpr const char* kDownColour = "#333333";
constexpr const char* kFrameColour = "#666666";
constexpr const char* kGridColour = "#e4e4e4";

constexpr std::array<const char*, kSubnets> kSubnetNames = {"Enterprise", "Operational", "User"};

struct Mark {
  const char* name;
  Shape shape;
};
enum BlueMark : size_t { kAnalyseMark, kRemoveMark, kRestoreMark, kDecoyMark };
constexpr std::array<Mark, 4> kBlueMarks = {{{"Analyse", Shape::kDown},
                                             {"Remove", Shape::kCross},
                                             {"Restore", Shape::kSquare},
                                             {"Decoy", Shape::kDiamond}}};
enum RedMark : size_t { kScanMark, kExploitMark, kEscalateMark, kImpactMark };
constexpr std::array<Mark, 4> kRedMarks = {{{"scan", Shape::kDisc},
                                            {"exploit", Shape::kRight},
                                            {"escalate", Shape::kUp},
                                            {"impact", Shape::kStar}}};

// Where everything stands. Subnets are in the order in which red gets there.
struct Layout {
  explicit Layout(size_t steps)
      : steps(static_cast<double>(steps)),
        cell(std::clamp(kPlotWidth / std::max(1.0, this->steps), kLeastCell, kLargestCell)) {
    double y = kEdge + kTitleHeight;
    for (const Subnet subnet : {kUser, kEnterprise, kOperational}) {
      subnets[subnet] = y;
      y += kSubnetHeight;
      for (size_t host = 0; host < kHosts; ++host) {
        if (subnet_of(static_cast<int>(host)) != subnet) continue;
        hosts[host] = y;
        y += kHostHeight + kRowGap;
      }
    }
    ot = y + kOtGap;
    reward = {left(), ot + kOtHeight + kRewardGap, width(), kRewardHeight};
  }

  static double left() { return kEdge + kLabelWidth; }
  double width() const { return cell * steps; }
  double right() const { return left() + width(); }
  double x(double time) const { return left() + cell * time; }  // step t lasts from t - 1 to t
  double legend() const { return reward.bottom() + kAxisHeight + kLegendGap; }

  double steps, cell;
  std::array<double, kSubnets> subnets{};  // tops of rows
  std::array<double, kHosts> hosts{};
  double ot = 0;
  svg::Box reward;
};

// Calls draw(value, first, last) for every stretch of steps with the same value.
template <class Value, class Draw>
void for_stretches(const Episode& episode, const Value& value, const Draw& draw) {
  const auto& steps = episode.steps;
  for (size_t first = 0, last = 0; first < steps.size(); first = last) {
    while (last < steps.size() && value(steps[last]) == value(steps[first])) ++last;
    draw(value(steps[first]), static_cast<double>(first), static_cast<double>(last));
  }
}

void draw_label(svg::Drawing& drawing, double x, double middle, const char* text,
                bool bold = false) {
  drawing.text({x, middle + kTextMiddle * kTextSize}, text, {.size = kTextSize, .bold = bold});
}

void draw_hosts(svg::Drawing& drawing, const Layout& layout, const Episode& episode) {
  for (size_t host = 0; host < kHosts; ++host) {
    const double top = layout.hosts[host];
    draw_label(drawing, kEdge + kIndent, top + kHostHeight / 2, kHostNames[host]);
    for_stretches(
        episode, [host](const EpisodeStep& step) { return step.access[host]; },
        [&](Access access, double first, double last) {
          drawing.rect({layout.x(first), top, layout.cell * (last - first), kHostHeight},
                       {.fill = kAccessColours[static_cast<size_t>(access)]});
        });
  }
}

void draw_subnets(svg::Drawing& drawing, const Layout& layout) {
  for (size_t subnet = 0; subnet < kSubnets; ++subnet) {
    draw_label(drawing, kEdge, layout.subnets[subnet] + kSubnetHeight / 2, kSubnetNames[subnet],
               true);
  }
}

void draw_service(svg::Drawing& drawing, const Layout& layout, const Episode& episode) {
  draw_label(drawing, kEdge + kIndent, layout.ot + kOtHeight / 2, "OT service");
  for_stretches(
      episode, [](const EpisodeStep& step) { return step.ot_running; },
      [&](bool running, double first, double last) {
        drawing.rect({layout.x(first), layout.ot, layout.cell * (last - first), kOtHeight},
                     {.fill = running ? kAccessColours[0] : kDownColour});
      });
}

// Nothing for Sleep and Monitor.
std::optional<BlueMark> mark_of(int blue) {
  if (blue == kSleep || blue == kMonitor) return std::nullopt;
  switch (blue_action(blue).group) {
    case kAnalyse:
      return kAnalyseMark;
    case kRemove:
      return kRemoveMark;
    case kRestore:
      return kRestoreMark;
    default:
      return kDecoyMark;
  }
}

std::optional<RedMark> mark_of(RedAction red) {
  switch (red) {
    case RedAction::kDiscoverSystems:
    case RedAction::kDiscoverServices:
      return kScanMark;
    case RedAction::kExploit:
      return kExploitMark;
    case RedAction::kEscalate:
      return kEscalateMark;
    case RedAction::kImpact:
      return kImpactMark;
    case RedAction::kSleep:
      break;
  }
  return std::nullopt;
}

void draw_blue(svg::Drawing& drawing, const Layout& layout, const EpisodeStep& step, size_t index) {
  const auto mark = mark_of(step.blue);
  if (!mark) return;
  const auto [group, target] = blue_action(step.blue);
  const auto host = static_cast<size_t>(target);
  const std::string kind =
      *mark == kDecoyMark
          ? fmt::format("Decoy {}", kDecoyNames[static_cast<size_t>(group - kFirstDecoy)])
          : kBlueMarks[*mark].name;
  drawing.begin_titled(fmt::format("step {}: blue, {}, {}", index + 1, kind, kHostNames[host]));
  draw_mark(drawing, kBlueMarks[*mark].shape,
            {layout.x(static_cast<double>(index) + 0.5), layout.hosts[host] + kBlueLane},
            kBlueColour);
  drawing.end();
}

void draw_red(svg::Drawing& drawing, const Layout& layout, const EpisodeStep& step, size_t index) {
  const auto mark = mark_of(step.red.action);
  if (!mark) return;
  const bool of_subnet = step.red.action == RedAction::kDiscoverSystems;
  const auto target = static_cast<size_t>(step.red.target);
  const double y =
      of_subnet ? layout.subnets[target] + kSubnetHeight / 2 : layout.hosts[target] + kRedLane;
  const std::string where =
      of_subnet ? fmt::format("{} subnet", kSubnetNames[target]) : kHostNames[target];
  const bool failed = step.red_result == Success::kFail;
  drawing.begin_titled(fmt::format("step {}: red, {}, {}{}", index + 1, kRedMarks[*mark].name,
                                   where, failed ? ", failed" : ""));
  draw_mark(drawing, kRedMarks[*mark].shape, {layout.x(static_cast<double>(index) + 0.5), y},
            kRedColour, failed);
  drawing.end();
}

std::vector<Tick> time_ticks(const Layout& layout) {
  return Scale(Scale::Kind::kLinear, 0, std::max(1.0, layout.steps))
      .ticks(std::max(1, static_cast<int>(layout.width() / kTickSpacing)));
}

// White on the rows of hosts.
void draw_time_grid(svg::Drawing& drawing, const Layout& layout) {
  for (const Tick& tick : time_ticks(layout)) {
    const double x = layout.x(tick.value);
    drawing.line({x, layout.hosts[kUser0]}, {x, layout.ot + kOtHeight},
                 {.stroke = "#ffffff", .width = 0.8});
  }
}

void draw_time_axis(svg::Drawing& drawing, const Layout& layout) {
  const svg::Box& box = layout.reward;
  for (const Tick& tick : time_ticks(layout)) {
    const double x = layout.x(tick.value);
    drawing.line({x, box.y}, {x, box.bottom()}, {.stroke = kGridColour, .width = 0.6});
    drawing.text({x, box.bottom() + kTickGap + 0.8 * kTextSize}, tick.label,
                 {.size = kTextSize, .anchor = svg::Anchor::kMiddle});
  }
  drawing.text({box.x + box.width / 2, box.bottom() + 24}, "step",
               {.size = kLabelSize, .anchor = svg::Anchor::kMiddle});
}

void draw_reward(svg::Drawing& drawing, const Layout& layout, const Episode& episode) {
  const svg::Box& box = layout.reward;
  // An episode that costs nothing is a line at the top, too.
  const Scale scale = Scale(Scale::Kind::kLinear, std::min(-1.0, episode.total()), 0).widened(0.06);
  const auto y = [&](double reward) { return box.bottom() - scale.place(reward) * box.height; };
  for (const Tick& tick : scale.ticks(5)) {
    drawing.line({box.x, y(tick.value)}, {box.right(), y(tick.value)},
                 {.stroke = kGridColour, .width = 0.6});
    drawing.text({box.x - kTickGap, y(tick.value) + kTextMiddle * kTextSize}, tick.label,
                 {.size = kTextSize, .anchor = svg::Anchor::kEnd});
  }
  drawing.rect(box, {.stroke = kFrameColour, .width = 0.8});
  std::vector<svg::Point> points = {{box.x, y(0)}};
  for (const EpisodeStep& step : episode.steps) {
    points.push_back({layout.x(static_cast<double>(points.size())), y(step.total)});
  }
  drawing.polyline(points, {.stroke = "#222222", .width = 1.4});
  drawing.text({kEdge + 0.8 * kLabelSize, box.y + box.height / 2}, "total reward",
               {.size = kLabelSize, .anchor = svg::Anchor::kMiddle, .turn = -90});
}

// What a colour or a mark means.
struct LegendEntry {
  const char* text;
  const char* colour;
  std::optional<Shape> shape = {};  // none: a patch of the colour
  bool hollow = false;
};
struct LegendLine {
  const char* heading;
  std::vector<LegendEntry> entries;
};

// In columns, so that the lines read as a table.
class Legend {
 public:
  Legend() {
    LegendLine access{"red's access", {}};
    for (size_t i = 0; i < kAccessNames.size(); ++i) {
      access.entries.push_back({kAccessNames[i], kAccessColours[i]});
    }
    access.entries.push_back({"service down", kDownColour});
    LegendLine blue{"blue (above)", {}}, red{"red (below)", {}};
    for (const Mark& mark : kBlueMarks) {
      blue.entries.push_back({mark.name, kBlueColour, mark.shape});
    }
    for (const Mark& mark : kRedMarks) red.entries.push_back({mark.name, kRedColour, mark.shape});
    red.entries.push_back({"failed", kRedColour, Shape::kDisc, true});
    lines_ = {access, blue, red};
    place_columns();
  }

  double width() const { return columns_.back(); }
  double height() const { return kLegendLine * static_cast<double>(lines_.size()); }

  void draw(svg::Drawing& drawing, svg::Point top_left) const {
    double middle = top_left.y + kLegendLine / 2;
    for (const LegendLine& line : lines_) {
      draw_label(drawing, top_left.x, middle, line.heading, true);
      for (size_t i = 0; i < line.entries.size(); ++i) {
        draw_entry(drawing, {top_left.x + columns_[i], middle}, line.entries[i]);
      }
      middle += kLegendLine;
    }
  }

 private:
  static constexpr double kColumnGap = 14, kPatch = 9;

  static void draw_entry(svg::Drawing& drawing, svg::Point at, const LegendEntry& entry) {
    if (entry.shape) {
      draw_mark(drawing, *entry.shape, {at.x + kPatch / 2, at.y}, entry.colour, entry.hollow);
    } else {
      drawing.rect({at.x, at.y - kPatch / 2, kPatch, kPatch},
                   {.stroke = kFrameColour, .width = 0.4, .fill = entry.colour});
    }
    draw_label(drawing, at.x + kPatch + kSampleGap, at.y, entry.text);
  }

  void place_columns() {
    std::vector<double> widths(1);
    for (const LegendLine& line : lines_) {
      widths[0] = std::max(widths[0], svg::text_width(line.heading, kTextSize, true));
      widths.resize(std::max(widths.size(), line.entries.size() + 1));
      for (size_t i = 0; i < line.entries.size(); ++i) {
        const double text = svg::text_width(line.entries[i].text, kTextSize);
        widths[i + 1] = std::max(widths[i + 1], kPatch + kSampleGap + text);
      }
    }
    double x = 0;
    for (const double width : widths) columns_.push_back(x += width + kColumnGap);
  }

  std::vector<LegendLine> lines_;
  std::vector<double> columns_;  // where entries begin, and where the last ones end
};

}  // namespace

std::string episode_svg(const Episode& episode) {
  const Layout layout(episode.steps.size());
  const Legend legend;
  const std::string title = summary(episode);
  const double width = std::max({layout.right() + 2 * kEdge, legend.width() + 2 * kEdge,
                                 svg::text_width(title, kTitleSize, true) + 2 * kEdge});
  svg::Drawing drawing(width, layout.legend() + legend.height() + kEdge, title);
  drawing.text({width / 2, kEdge + kTitleSize}, title,
               {.size = kTitleSize, .anchor = svg::Anchor::kMiddle, .bold = true});
  draw_subnets(drawing, layout);
  draw_hosts(drawing, layout, episode);
  draw_service(drawing, layout, episode);
  draw_time_grid(drawing, layout);
  for (size_t i = 0; i < episode.steps.size(); ++i) {
    draw_blue(drawing, layout, episode.steps[i], i);
    draw_red(drawing, layout, episode.steps[i], i);
  }
  draw_time_axis(drawing, layout);
  draw_reward(drawing, layout, episode);
  legend.draw(drawing, {kEdge, layout.legend()});
  return drawing.str();
}

}  // namespace flotilla::cage2
