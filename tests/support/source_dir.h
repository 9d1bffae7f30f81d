#pragma once

#include <string>

namespace flotilla::test {

std::string source_dir();  // the root of the checkout, for golden files

}  // namespace flotilla::test
