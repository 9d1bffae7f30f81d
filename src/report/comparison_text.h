// A comparison for people, as a table with remarks below it, and for programs, as JSON.
#pragma once

#include <string>
#include <vector>

#include "flotilla/core/json.h"
#include "flotilla/report/comparison.h"
#include "flotilla/report/text_table.h"

namespace flotilla {

// In lines of at most `width` columns where the table is concerned; 0: any number.
std::string to_text(const Comparison& comparison, size_t width = 0);
Json to_json(const Comparison& comparison);

// Three digits and a suffix: "312 k", "1.05 M", "47.3".
std::string short_number(double value);
// "0.52 s", "93.1 s", "12.4 min", "3.2 h"
std::string short_time(double seconds);

}  // namespace flotilla
