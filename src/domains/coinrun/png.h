// Pictures as PNG files (RFC 2083), eight bits per channel.
#pragma once

#include <string>

#include "flotilla/domains/coinrun/picture.h"

namespace flotilla::coinrun {

std::string to_png(const Picture& picture);

}  // namespace flotilla::coinrun
