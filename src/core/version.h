// The program's version and commit, for people and reports.
#pragma once

namespace flotilla {
extern const char* const kVersionLine;
}
