# One target per folder of src/, in the order of the layer rule.
#
# A target sees the headers of the layers it links and of no other: each layer's include path is a
# directory that holds one symbolic link, to that layer's folder. So `#include "flotilla/env/spec.h"` from
# core does not compile.

include(GNUInstallDirs)

# For this project alone; who links an installed layer chooses his own warnings.
add_library(flotilla_flags INTERFACE)
target_compile_options(flotilla_flags INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 and 13 see overlaps and bounds errors in std::string and fmt that are not there (GCC bug
  # 105651 and its like); the sanitizers look for the real ones.
  target_compile_options(flotilla_flags INTERFACE -Wno-restrict -Wno-array-bounds
                                                  -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(FLOTILLA_SANITIZE)
  target_compile_options(flotilla_flags INTERFACE -fsanitize=${FLOTILLA_SANITIZE}
                                                  -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(flotilla_flags INTERFACE -fsanitize=${FLOTILLA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # its checks confuse the warning, in std::regex for one
    target_compile_options(flotilla_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# For code that is not hot: half the time to compile, under the sanitizers a third.
set(FLOTILLA_COLD_FLAGS $<$<CONFIG:Release>:-O1> $<$<CONFIG:RelWithDebInfo>:-O0>)

function(flotilla_expose target folder)
  set(view ${PROJECT_BINARY_DIR}/layers/${folder})
  file(MAKE_DIRECTORY ${view}/flotilla)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${view}/flotilla/${folder} SYMBOLIC)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${view}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# flotilla_layer(FOLDER LINK ... [WITHOUT folders in it that are targets of their own])
function(flotilla_layer folder)
  cmake_parse_arguments(ARG "" "" "LINK;WITHOUT" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  foreach(other ${ARG_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/src/${folder}/${other}/")
  endforeach()
  add_library(flotilla_${folder} STATIC ${sources})
  flotilla_expose(flotilla_${folder} ${folder})
  target_link_libraries(flotilla_${folder} PUBLIC ${ARG_LINK}
                        PRIVATE $<BUILD_INTERFACE:flotilla_flags>)
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_LAYERS ${folder}) # for cmake/install.cmake
endfunction()
