// Opens the plugins that hold everything of libtorch. Linking it would cost every program 0.7 s
// and 164 MB before main().
#pragma once

#include <string>

namespace flotilla {

// The address of a function in a plugin, a shared object beside the program. Throws Error(kUsage)
// when there is none, or no libtorch.
void* open_torch_plugin(const std::string& name, const char* function);

// From the extension module of an interpreter, in which a package may have loaded another libtorch:
// two of them end the process, so plugins are refused there.
void refuse_second_torch();

}  // namespace flotilla
