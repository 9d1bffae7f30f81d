// A comparison for people, as a table with remarks below it, and for programs, as JSON.
#pragma once

#include <string>
#include <vector>

#include "flotilla/core/json.h"
#include "flotilla/report/comparison.h"

namespace flotilla {

std::string to_text(const Comparison& comparison);
Json to_json(const Comparison& comparison);

// Rows of cells in columns, the first row being the header: the first column to the left, the
// others to the right. REQUIRES: rows of the same size.
std::string text_table(const std::vector<std::vector<std::string>>& rows);

// Three digits and a suffix: "312 k", "1.05 M", "47.3".
std::string short_number(double value);
// "0.52 s", "93.1 s", "12.4 min", "3.2 h"
std::string short_time(double seconds);

}  // namespace flotilla
