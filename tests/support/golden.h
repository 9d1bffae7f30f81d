// Recorded numbers of tests/golden/.
#pragma once

#include <string>

#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "support/source_dir.h"

namespace flotilla::test {

// By its name below tests/golden/.
inline Json golden_json(const std::string& file) {
  return Json::parse(read_whole_file(source_dir() + "/tests/golden/" + file, size_t{1} << 28));
}

}  // namespace flotilla::test
