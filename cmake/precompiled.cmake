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

# Compilers take precompiled headers only for files that are optimised where they were, or not where they
# were not. flotilla_hot_headers(HOT HEADERS...): a target with headers for files that are.
function(flotilla_hot_headers hot)
  set(nothing ${CMAKE_CURRENT_BINARY_DIR}/${hot}.cpp)
  file(WRITE ${nothing} "")
  add_library(${hot} OBJECT EXCLUDE_FROM_ALL ${nothing})
  target_compile_options(${hot} PRIVATE -O1)
  flotilla_precompile(${hot} ${hot} ${ARGN})
endfunction()

# flotilla_hot_files(HOT FILES...): files that are optimised and have those headers.
function(flotilla_hot_files hot)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
  if(FLOTILLA_PCH AND TARGET ${hot})
    get_property(folder TARGET ${hot} PROPERTY BINARY_DIR)
    set(headers ${folder}/CMakeFiles/${hot}.dir/cmake_pch.hxx)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      set(compiled ${headers}.gch)
      set(include -include ${headers})
    else()
      set(compiled ${headers}.pch)
      set(include -include-pch ${compiled})
    endif()
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O1;${include}"
                                                   OBJECT_DEPENDS ${compiled})
  endif()
endfunction()
