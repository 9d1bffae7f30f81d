# The headers of the standard library and of fmt, which almost every file includes, are read once and
# kept as the compiler has understood them: half of the time of a build. None of our own is among
# them, so the layers see of each other what they did.
option(FLOTILLA_PCH "Precompile the headers of the standard library" ON)
# A file with other flags than these were compiled with reads the headers as they are.
set(CMAKE_PCH_WARN_INVALID OFF)

set(FLOTILLA_STANDARD_HEADERS
    <algorithm> <array> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
    <memory> <optional> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

# flotilla_precompile(TARGET FIRST HEADERS...): the headers as they are compiled for the target
# FIRST, which must have the same flags.
function(flotilla_precompile target first)
  if(NOT FLOTILLA_PCH)
    return()
  endif()
  if(target STREQUAL first)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
  if(CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL GNU) # the cache must see that they are used
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
