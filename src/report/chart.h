// Line charts for papers: panels in a grid, each with axes, a light grid, and a legend below it
// that never covers the data. Colours are told apart by colour-blind readers, dashes by those of a
// black-and-white print. Long curves are thinned, with their extremes kept; curves may have gaps,
// be constant, have one point or none.
//
// Determinism: the same figure gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "flotilla/report/curve.h"

namespace flotilla {

struct Series {
  enum class Kind {
    kLine,    // with its band, if it has one
    kFaint,   // thin and pale, to stand behind a smoothed line
    kPoints,  // dots on a thin line; the band is drawn as whiskers where dots are few
    kArea     // the band alone, filled; for shares that are stacked
  };

  std::string name = {};  // in the legend; empty: not there
  Curve curve = {};
  std::vector<double> low = {},
                      high = {};  // a band around it: one number per point, or none at all
  Kind kind = Kind::kLine;
  static constexpr int kGrey = -1;
  int look = 0;  // which colour and which dash
};

struct Axis {
  enum class Kind {
    kLinear,
    kLog,   // values that are not positive are gaps
    kAuto,  // log where all values are positive and the largest is 100 times the least, or more
  };
  std::string label = {};
  Kind kind = Kind::kLinear;
  bool from_zero = false;  // begins at 0 where all values are above it
  bool tight = false;      // ends where the values end
};

struct Panel {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Series> series = {};
};

struct Figure {
  std::string title = {};  // drawn above the panels
  std::vector<Panel> panels = {};
  int columns = 2;
  bool one_legend = false;  // the panels show the same series: one legend, below all of them
};

// Panels are 240 wide: a figure of two columns fills the text width of a paper with 10-point type.
std::string render_svg(const Figure& figure);

}  // namespace flotilla
