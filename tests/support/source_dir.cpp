#include "source_dir.h"

namespace flotilla::test {

std::string source_dir() { return FLOTILLA_SOURCE_DIR; }

}  // namespace flotilla::test
