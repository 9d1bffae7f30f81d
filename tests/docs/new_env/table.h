// The table of docs/autoreset.md, made by stepping Climb.
#pragma once

#include "flotilla/env/registry.h"

void print_autoreset_table(const flotilla::EnvType& climb);
