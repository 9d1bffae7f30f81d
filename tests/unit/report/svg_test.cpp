#include "flotilla/report/svg.h"
#include "flotilla/report/curve.h"

#include <gtest/gtest.h>
#include <cmath>

#include <limits>
#include <string>

#include "support/error_text.h"

namespace flotilla::test {
namespace {

TEST(Svg, EmptyDrawing) {
  EXPECT_EQ(svg::Drawing(100, 50.5, "a < b").str(),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"50.5\" "
            "viewBox=\"0 0 100 50.5\" font-family=\"Helvetica, Arial, 'Liberation Sans', "
            "'DejaVu Sans', sans-serif\" stroke-linejoin=\"round\">\n"
            "<title>a &lt; b</title>\n"
            "<rect width=\"100\" height=\"50.5\" fill=\"#ffffff\"/>\n"
            "</svg>\n");
}

TEST(Svg, ShapesInTheirOrder) {
  svg::Drawing drawing(10, 10);
  drawing.line({1, 2}, {3, 4.125}, {.stroke = "#000000", .width = 0.5, .dash = "4 2"});
  drawing.circle({5, 5}, 2, {.fill = "red", .opacity = 0.25});
  const std::vector<svg::Point> points = {{0, 0}, {1.005, -0.001}, {100, 1}};
  drawing.polyline(points, {.stroke = "blue"});
  drawing.polygon(points, {.fill = "blue"});
  drawing.rect({1, 2, 3, 4}, {.fill = "none"}, 1.5);
  drawing.text({1, 2}, "x & y",
               {.size = 9, .anchor = svg::Anchor::kEnd, .bold = true, .turn = -90});
  const std::string text = drawing.str();
  const std::string expected =
      "<line x1=\"1\" y1=\"2\" x2=\"3\" y2=\"4.12\" fill=\"none\" stroke=\"#000000\" "
      "stroke-width=\"0.5\" stroke-dasharray=\"4 2\"/>\n"
      "<circle cx=\"5\" cy=\"5\" r=\"2\" fill=\"red\" opacity=\"0.25\"/>\n"
      "<polyline points=\"0,0 1,0 100,1\" fill=\"none\" stroke=\"blue\" stroke-width=\"1\"/>\n"
      "<polygon points=\"0,0 1,0 100,1\" fill=\"blue\"/>\n"
      "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" rx=\"1.5\" fill=\"none\"/>\n"
      "<text x=\"1\" y=\"2\" font-size=\"9\" fill=\"#222222\" text-anchor=\"end\" "
      "font-weight=\"bold\" transform=\"rotate(-90 1 2)\">x &amp; y</text>\n";
  EXPECT_NE(text.find(expected), text.npos) << text;
}

TEST(Svg, GroupsNest) {
  svg::Drawing drawing(10, 10);
  drawing.begin_moved({1, 2});
  drawing.begin_clipped({0, 0, 5, 6});
  drawing.end();
  EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { drawing.str(); }),
            "svg: a begin without its end()");
  drawing.end();
  EXPECT_NE(drawing.str().find("<g transform=\"translate(1 2)\">\n"
                               "<svg x=\"0\" y=\"0\" width=\"5\" height=\"6\" viewBox=\"0 0 5 6\" "
                               "overflow=\"hidden\">\n</svg>\n</g>\n"),
            std::string::npos);
  EXPECT_EQ(error_text(ErrorCode::kInternal, [&] { drawing.end(); }), "svg: end() without a begin");
}

TEST(Svg, AGroupHasItsToolTip) {
  svg::Drawing drawing(10, 10);
  drawing.begin_titled("a < b");
  drawing.end();
  EXPECT_NE(drawing.str().find("<g><title>a &lt; b</title>\n</g>\n"), std::string::npos);
}

TEST(Svg, NumbersThatCannotBeWritten) {
  svg::Drawing drawing(10, 10);
  drawing.line({kNaN, HUGE_VAL}, {-HUGE_VAL, 1e300}, {});
  drawing.rect({0, 0, -5, kNaN}, {});
  EXPECT_NE(drawing.str().find("<line x1=\"0\" y1=\"1000000\" x2=\"-1000000\" y2=\"1000000\""),
            std::string::npos);
  EXPECT_NE(drawing.str().find("width=\"0\" height=\"0\""), std::string::npos);
}

TEST(Svg, EscapesMarkupAndWhatXmlCannotHold) {
  EXPECT_EQ(svg::xml_escaped("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
  EXPECT_EQ(svg::xml_escaped(std::string("a\0b\x1b\tc", 6)), "a\uFFFDb\uFFFD\tc");
  EXPECT_EQ(svg::xml_escaped("\xff\xc3\xa4"), "\uFFFD\u00e4");
  EXPECT_EQ(svg::xml_escaped("\xef\xbf\xbf"), "\uFFFD");  // U+FFFF
}

TEST(Svg, FittedTextIsNotWiderThanAsked) {
  EXPECT_EQ(svg::fitted("short", 10, 100), "short");
  const std::string cut = svg::fitted("a name that is too long for its place", 10, 100);
  EXPECT_TRUE(cut.starts_with("a name that"));
  EXPECT_TRUE(cut.ends_with("..."));
  EXPECT_LE(svg::text_width(cut, 10), 100);
  EXPECT_EQ(svg::fitted("\u00e4\u00e4\u00e4\u00e4\u00e4", 10, 25), "\u00e4\u00e4...");
}

}  // namespace
}  // namespace flotilla::test
