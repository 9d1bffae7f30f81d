#include "flotilla/domains/cage2/marks.h"

#include <cmath>
#include <numbers>
#include <vector>

namespace flotilla::cage2 {
namespace {

constexpr double kMarkRadius = 2.4, kOutline = 0.7;

// Corners within the unit circle, or nearly so: the marks of neighbouring steps do not touch.
std::vector<svg::Point> corners(Shape shape) {
  switch (shape) {
    case Shape::kDown:
      return {{-0.95, -0.8}, {0.95, -0.8}, {0, 0.9}};
    case Shape::kUp:
      return {{-0.95, 0.8}, {0.95, 0.8}, {0, -0.9}};
    case Shape::kRight:
      return {{-0.8, -0.95}, {0.9, 0}, {-0.8, 0.95}};
    case Shape::kSquare:
      return {{-0.8, -0.8}, {0.8, -0.8}, {0.8, 0.8}, {-0.8, 0.8}};
    case Shape::kDiamond:
      return {{0, -1.1}, {0.9, 0}, {0, 1.1}, {-0.9, 0}};
    case Shape::kCross: {
      constexpr double kIn = 0.32, kOut = 0.95, kShoulder = kOut - kIn;
      return {{-kOut, -kShoulder}, {-kShoulder, -kOut}, {0, -kIn},
              {kShoulder, -kOut},  {kOut, -kShoulder},  {kIn, 0},
              {kOut, kShoulder},   {kShoulder, kOut},   {0, kIn},
              {-kShoulder, kOut},  {-kOut, kShoulder},  {-kIn, 0}};
    }
    case Shape::kStar: {
      std::vector<svg::Point> points;
      for (int i = 0; i < 10; ++i) {
        const double radius = i % 2 == 0 ? 1.1 : 0.48, angle = i * std::numbers::pi / 5;
        points.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
      }
      return points;
    }
    case Shape::kDisc:
      break;
  }
  return {};
}

}  // namespace

void draw_mark(svg::Drawing& drawing, Shape shape, svg::Point centre, const char* colour,
               bool hollow) {
  const svg::Paint paint{.stroke = colour, .width = kOutline, .fill = hollow ? "#ffffff" : colour};
  const double radius = kMarkRadius - kOutline / 2;
  if (shape == Shape::kDisc) return drawing.circle(centre, 0.85 * radius, paint);
  std::vector<svg::Point> points = corners(shape);
  for (svg::Point& each : points) {
    each = {centre.x + radius * each.x, centre.y + radius * each.y};
  }
  drawing.polygon(points, paint);
}

}  // namespace flotilla::cage2
