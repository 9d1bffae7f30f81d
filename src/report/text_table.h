// Tables for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace flotilla {

// Rows of cells in columns, the first row being the header: the first column to the left, the
// others to the right. Where it is wider than `width`, columns that have no room follow below, with
// the first column again; where not even one has room beside it, each row is a list. 0: any width.
// REQUIRES: rows of the same size.
std::string text_table(const std::vector<std::vector<std::string>>& rows, size_t width = 0);

}  // namespace flotilla
