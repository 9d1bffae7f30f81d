// A drawing in SVG: shapes and text in the order they are added.
#pragma once

#include <string>
#include <string_view>

namespace flotilla {

// The text with what XML would read as markup replaced.
std::string xml_escaped(std::string_view text);

}  // namespace flotilla
