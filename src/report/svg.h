// A drawing in SVG: shapes and text in the order they are added, on a white ground. Units are those
// of the viewBox; in a paper one unit is one point at the drawing's own size. No scripts, no
// external fonts, and no ids, so that several drawings can stand in one HTML page.
//
// Numbers are written with two decimals. Coordinates that are not finite or far away are drawn at
// the nearest place that can be written, so the text is a valid document whatever it is given.
//
// Determinism: the same calls give the same bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::svg {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

// How a shape looks. Colours are SVG's own ("none", "#0072b2").
struct Paint {
  std::string stroke = "none";
  double width = 1;
  std::string dash = {};  // lengths of strokes and gaps, "4 2"; empty: solid
  std::string fill = "none";
  double opacity = 1;
};

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 10;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  double turn = 0;  // degrees, clockwise, about the anchor
  std::string colour = "#222222";
};

class Drawing {
 public:
  // `title` names the drawing to screen readers and as a tool tip; it is not drawn.
  Drawing(double width, double height, std::string_view title = {});

  void line(Point from, Point to, const Paint& paint);
  void polyline(std::span<const Point> points, const Paint& paint);
  void polygon(std::span<const Point> points, const Paint& paint);
  void rect(const Box& box, const Paint& paint, double corner_radius = 0);
  void circle(Point centre, double radius, const Paint& paint);
  // `at` is on the base line.
  void text(Point at, std::string_view text, const TextStyle& style = {});

  // What is added until the matching end() is moved by `by`, or cut off outside of `box`.
  void begin_moved(Point by);
  void begin_clipped(const Box& box);
  // What is added until the matching end() has this tool tip.
  void begin_titled(std::string_view title);
  void end();

  double width() const { return width_; }
  double height() const { return height_; }
  // The whole document. REQUIRES: every begin has its end.
  std::string str() const;

 private:
  double width_, height_;
  std::string title_, body_;
  std::vector<const char*> open_;  // closing tags of what has begun
};

// The width of a text, for layout. Readers' fonts differ, so it is that of a wide one.
double text_width(std::string_view text, double size, bool bold = false);
// The text, or as much of its beginning as fits, with "..." behind it.
std::string fitted(std::string_view text, double size, double width);

// The text with what XML would read as markup replaced, and with U+FFFD for what XML cannot hold.
std::string xml_escaped(std::string_view text);

}  // namespace flotilla::svg
