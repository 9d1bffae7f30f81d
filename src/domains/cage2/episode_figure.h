// The picture of one episode: a row per host over time, coloured by red's access, with a mark for
// everything that blue and red did to it; whether the OT service ran; and the reward so far. Marks
// carry their names as tool tips.
//
// Determinism: the same episode gives the same bytes.
#pragma once

#include <string>

#include "flotilla/domains/cage2/episode.h"

namespace flotilla::cage2 {

// Episodes of 30 to 100 steps have the same width, that of a page. Longer ones are wider: marks
// never stand on each other.
std::string episode_svg(const Episode& episode);

}  // namespace flotilla::cage2
