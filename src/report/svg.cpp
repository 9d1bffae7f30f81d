#include "flotilla/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::svg {
namespace {

constexpr const char* kFonts = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
constexpr double kFarthest = 1e6;

// At most two decimals: "12", "0.5", "-3.25".
std::string number(double value) {
  if (std::isnan(value)) value = 0;
  std::string text = fmt::format("{:.2f}", std::clamp(value, -kFarthest, kFarthest));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string attributes(const Paint& paint) {
  std::string text = fmt::format(" fill=\"{}\"", xml_escaped(paint.fill));
  if (paint.stroke != "none") {
    text += fmt::format(" stroke=\"{}\" stroke-width=\"{}\"", xml_escaped(paint.stroke),
                        number(paint.width));
    if (!paint.dash.empty())
      text += fmt::format(" stroke-dasharray=\"{}\"", xml_escaped(paint.dash));
  }
  if (paint.opacity != 1) text += fmt::format(" opacity=\"{}\"", number(paint.opacity));
  return text;
}

std::string joined(std::span<const Point> points) {
  std::string text;
  for (const Point& point : points) {
    if (!text.empty()) text += ' ';
    text += number(point.x) + ',' + number(point.y);
  }
  return text;
}

std::string place(const Box& box) {
  return fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(box.x), number(box.y),
                     number(std::max(0.0, box.width)), number(std::max(0.0, box.height)));
}

// XML 1.0, production 2: the characters that a document can hold.
bool is_xml(char32_t point) {
  return point == 0x09 || point == 0x0A || point == 0x0D || (point >= 0x20 && point <= 0xD7FF) ||
         (point >= 0xE000 && point <= 0xFFFD) || point >= 0x10000;
}

// In units of the font's size.
double character_width(char32_t point) {
  constexpr std::string_view kNarrow = "ijl.,:;'|!", kSlim = " frtI()[]/-\"", kWide = "mwMW%@";
  if (point >= 0x80) return point >= 0x1100 ? 1.0 : 0.65;  // from here on, scripts of full width
  const char c = static_cast<char>(point);
  if (kNarrow.find(c) != kNarrow.npos) return 0.32;
  if (kSlim.find(c) != kSlim.npos) return 0.4;
  if (kWide.find(c) != kWide.npos) return 0.95;
  return c >= 'A' && c <= 'Z' ? 0.7 : 0.62;
}

}  // namespace

Drawing::Drawing(double width, double height, std::string_view title)
    : width_(width), height_(height), title_(title) {}

void Drawing::line(Point from, Point to, const Paint& paint) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", number(from.x),
                       number(from.y), number(to.x), number(to.y), attributes(paint));
}

void Drawing::polyline(std::span<const Point> points, const Paint& paint) {
  body_ += fmt::format("<polyline points=\"{}\"{}/>\n", joined(points), attributes(paint));
}

void Drawing::polygon(std::span<const Point> points, const Paint& paint) {
  body_ += fmt::format("<polygon points=\"{}\"{}/>\n", joined(points), attributes(paint));
}

void Drawing::rect(const Box& box, const Paint& paint, double corner_radius) {
  const std::string corner =
      corner_radius > 0 ? fmt::format(" rx=\"{}\"", number(corner_radius)) : std::string();
  body_ += fmt::format("<rect {}{}{}/>\n", place(box), corner, attributes(paint));
}

void Drawing::circle(Point centre, double radius, const Paint& paint) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}/>\n", number(centre.x),
                       number(centre.y), number(std::max(0.0, radius)), attributes(paint));
}

void Drawing::text(Point at, std::string_view text, const TextStyle& style) {
  std::string more;
  if (style.anchor == Anchor::kMiddle) more += " text-anchor=\"middle\"";
  if (style.anchor == Anchor::kEnd) more += " text-anchor=\"end\"";
  if (style.bold) more += " font-weight=\"bold\"";
  if (style.turn != 0) {
    more += fmt::format(" transform=\"rotate({} {} {})\"", number(style.turn), number(at.x),
                        number(at.y));
  }
  body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n",
                       number(at.x), number(at.y), number(style.size), xml_escaped(style.colour),
                       more, xml_escaped(text));
}

void Drawing::begin_moved(Point by) {
  body_ += fmt::format("<g transform=\"translate({} {})\">\n", number(by.x), number(by.y));
  open_.push_back("</g>\n");
}

// An inner picture whose view is the place it stands at: what is outside is cut off, and what is
// inside stays where it is. A clipPath would need an id.
void Drawing::begin_clipped(const Box& box) {
  body_ += fmt::format("<svg {} viewBox=\"{} {} {} {}\" overflow=\"hidden\">\n", place(box),
                       number(box.x), number(box.y), number(std::max(0.0, box.width)),
                       number(std::max(0.0, box.height)));
  open_.push_back("</svg>\n");
}

void Drawing::begin_titled(std::string_view title) {
  body_ += fmt::format("<g><title>{}</title>\n", xml_escaped(title));
  open_.push_back("</g>\n");
}

void Drawing::end() {
  if (open_.empty()) throw Error(ErrorCode::kInternal, "svg: end() without a begin");
  body_ += open_.back();
  open_.pop_back();
}

std::string Drawing::str() const {
  if (!open_.empty()) throw Error(ErrorCode::kInternal, "svg: a begin without its end()");
  const std::string size =
      fmt::format("width=\"{}\" height=\"{}\"", number(width_), number(height_));
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" {} viewBox=\"0 0 {} {}\" font-family=\"{}\" "
      "stroke-linejoin=\"round\">\n",
      size, number(width_), number(height_), kFonts);
  if (!title_.empty()) text += fmt::format("<title>{}</title>\n", xml_escaped(title_));
  text += fmt::format("<rect {} fill=\"#ffffff\"/>\n", size);
  return text + body_ + "</svg>\n";
}

double text_width(std::string_view text, double size, bool bold) {
  double width = 0;
  while (!text.empty()) width += character_width(next_code_point(text).value_or(U'?'));
  return width * size * (bold ? 1.1 : 1);
}

std::string fitted(std::string_view text, double size, double width) {
  if (text_width(text, size) <= width) return std::string(text);
  const double room = width - text_width("...", size);
  std::string_view rest = text;
  double used = 0;
  size_t kept = 0;
  while (!rest.empty()) {
    used += size * character_width(next_code_point(rest).value_or(U'?'));
    if (used > room) break;
    kept = text.size() - rest.size();
  }
  return std::string(text.substr(0, kept)) + "...";
}

std::string xml_escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view rest = text;
    const std::optional<char32_t> point = next_code_point(text);
    if (!point || !is_xml(*point)) {
      result += "\xEF\xBF\xBD";
    } else if (*point == U'&') {
      result += "&amp;";
    } else if (*point == U'<') {
      result += "&lt;";
    } else if (*point == U'>') {
      result += "&gt;";
    } else if (*point == U'"') {
      result += "&quot;";
    } else {
      result += rest.substr(0, rest.size() - text.size());
    }
  }
  return result;
}

}  // namespace flotilla::svg
