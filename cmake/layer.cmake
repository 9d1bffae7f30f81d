# One target per folder of src/, and per folder of src/domains/, in the order of the layer rule.
#
# A target sees the headers of the layers it links and of no other: each layer's include path is a
# directory that holds one symbolic link, to that layer's folder. So `#include "flotilla/env/spec.h"` from
# core does not compile.

include(GNUInstallDirs)
include(cmake/units.cmake)

# For this project alone; who links an installed layer chooses his own warnings.
add_library(flotilla_flags INTERFACE)
target_compile_options(flotilla_flags INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 and 13 see overlaps, bounds errors and unset parts of a std::optional in std::string and
  # fmt that are not there (GCC bug 105651 and its like); the sanitizers look for the real ones.
  target_compile_options(flotilla_flags INTERFACE -Wno-restrict -Wno-array-bounds
                                                  -Wno-maybe-uninitialized
                                                  -Wno-stringop-overflow -Wno-stringop-overread)
endif()
if(FLOTILLA_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU) # it takes what a unit includes for headers
  target_compile_options(flotilla_flags INTERFACE -Wno-subobject-linkage)
endif()
if(FLOTILLA_SANITIZE)
  target_compile_options(flotilla_flags INTERFACE -fsanitize=${FLOTILLA_SANITIZE}
                                                  -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # The address sanitizer reports a null pointer that is used and what lies outside of an object as
  # well; the preset ubsan has every check.
  if(FLOTILLA_SANITIZE MATCHES address)
    target_compile_options(flotilla_flags
                           INTERFACE -fno-sanitize=null,object-size,alignment,vptr)
  endif()
  target_link_options(flotilla_flags INTERFACE -fsanitize=${FLOTILLA_SANITIZE})
  if(FLOTILLA_SANITIZE MATCHES "address|thread") # only g++ says so by itself
    target_compile_definitions(flotilla_flags INTERFACE FLOTILLA_SANITIZED)
  endif()
  if(FLOTILLA_SANITIZE MATCHES thread)
    target_compile_definitions(flotilla_flags INTERFACE FLOTILLA_THREAD_SANITIZED)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU) # its checks confuse the warning, in std::regex for one
    target_compile_options(flotilla_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()

# For code that is not hot: half the time to compile.
set(FLOTILLA_COLD_FLAGS $<$<CONFIG:Release>:-O1>)
# g++ takes precompiled headers for files that differ in -O, but not in this, which -O2 brings on x86.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops FLOTILLA_UNROLLS_SMALL_LOOPS)
if(FLOTILLA_UNROLLS_SMALL_LOOPS)
  add_compile_options(-munroll-only-small-loops)
endif()

function(flotilla_expose target folder)
  set(view ${PROJECT_BINARY_DIR}/layers/${folder})
  get_filename_component(parent ${folder} DIRECTORY)
  file(MAKE_DIRECTORY ${view}/flotilla/${parent})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/src/${folder} ${view}/flotilla/${folder} SYMBOLIC)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${view}>
                                              $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# flotilla_files(RESULT FOLDER PATTERNS...): the files of src/FOLDER that match.
function(flotilla_files result folder)
  set(all)
  foreach(pattern ${ARGN})
    file(GLOB files ${PROJECT_SOURCE_DIR}/src/${folder}/${pattern})
    if(NOT files)
      message(FATAL_ERROR "flotilla_layer(${folder}): there is no ${pattern}")
    endif()
    list(APPEND all ${files})
  endforeach()
  set(${result} ${all} PARENT_SCOPE)
endfunction()

# flotilla_layer(FOLDER LINK ... [WITHOUT folders in it that are targets of their own]
#                [COLD files in it that read settings and files, describe or draw]
#                [HOT files that compute so much that they are optimised under a sanitizer, too]
#                [TEMPLATES files that are mostly those of a large library: not ours to check])
# The target of domains/NAME is flotilla_NAME: the last folder gives the name. Commands are cold.
function(flotilla_layer folder)
  cmake_parse_arguments(ARG "" "" "LINK;WITHOUT;COLD;HOT;TEMPLATES" ${ARGN})
  get_filename_component(name ${folder} NAME)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  foreach(other ${ARG_WITHOUT})
    list(FILTER sources EXCLUDE REGEX "^${PROJECT_SOURCE_DIR}/src/${folder}/${other}/")
  endforeach()
  flotilla_files(cold ${folder} ${ARG_COLD})
  flotilla_files(hot ${folder} ${ARG_HOT})
  flotilla_files(templates ${folder} ${ARG_TEMPLATES})
  set(commands ${sources})
  list(FILTER commands INCLUDE REGEX "/commands(/.*)?\\.cpp$")
  list(APPEND cold ${commands})
  if(FLOTILLA_SANITIZE)
    list(REMOVE_ITEM cold ${hot} ${templates})
  else()
    set(hot)
    set(templates)
  endif()
  set(kernels ${sources}) # each has flags of its own
  list(FILTER kernels INCLUDE REGEX "/kernel_[a-z0-9]+\\.cpp$")
  set(other ${sources})
  list(REMOVE_ITEM other ${cold} ${hot} ${templates} ${kernels})

  flotilla_units(cold ${name}_cold ${cold})
  flotilla_units(hot ${name}_hot ${hot})
  flotilla_units(other ${name} ${other})
  add_library(flotilla_${name} STATIC ${cold} ${hot} ${templates} ${kernels} ${other})
  set_source_files_properties(${cold} ${templates} PROPERTIES COMPILE_OPTIONS
                                                              "${FLOTILLA_COLD_FLAGS}")
  flotilla_hot_files(flotilla_hot ${hot})
  if(FLOTILLA_SANITIZE MATCHES undefined AND templates)
    set_property(SOURCE ${templates} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=undefined)
  endif()
  flotilla_expose(flotilla_${name} ${folder})
  flotilla_precompile(flotilla_${name} flotilla_core ${FLOTILLA_STANDARD_HEADERS})
  target_link_libraries(flotilla_${name} PUBLIC ${ARG_LINK}
                        PRIVATE $<BUILD_INTERFACE:flotilla_flags>)
  set_target_properties(flotilla_${name} PROPERTIES ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                                                    EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_LAYERS ${name}) # for cmake/install.cmake
endfunction()

# flotilla_domain(NAME LINK ... [WITHOUT ...]): the layer domains/NAME, one problem with all that
# belongs to it. It is part of every program that links flotilla_domains.
function(flotilla_domain name)
  flotilla_layer(domains/${name} ${ARGN})
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_DOMAINS ${name})
endfunction()
