#include "flotilla/env/libenv/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::libenv {
namespace {

// A name without a slash would be looked for in the system's folders.
std::string as_path(const std::string& path) {
  return path.find('/') == std::string::npos ? "./" + path : path;
}

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(dlsym(library, name));
}

template <class F>
void require(void* library, const std::string& path, const char* name, F*& function) {
  find(library, name, function);
  if (function != nullptr) return;
  throw Error(ErrorCode::kData,
              fmt::format("library {} is no libenv: it has no function {}", in_quotes(path), name));
}

}  // namespace

Library::Library(const std::string& path) : path_(path) {
  void* library = dlopen(as_path(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorCode::kData,
                fmt::format("library {} cannot be opened: {}", in_quotes(path), dlerror()));
  }
  require(library, path, "libenv_version", version);
  if (const int found = version(); found != kVersion) {
    throw Error(ErrorCode::kData, fmt::format("library {} has version {} of libenv, expected {}",
                                              in_quotes(path), found, kVersion));
  }
  require(library, path, "libenv_make", make);
  require(library, path, "libenv_get_tensortypes", get_tensortypes);
  require(library, path, "libenv_set_buffers", set_buffers);
  require(library, path, "libenv_observe", observe);
  require(library, path, "libenv_act", act);
  require(library, path, "libenv_close", close);
  find(library, "get_state", get_state);
  find(library, "set_state", set_state);
}

}  // namespace flotilla::libenv
