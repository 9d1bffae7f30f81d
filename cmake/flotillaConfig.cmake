# Read by find_package(flotilla): what the layers link, then the layers. With COMPONENTS inference
# alone, the small target for acting, which links nothing.
set(flotilla_inference_FOUND TRUE)
foreach(component ${flotilla_FIND_COMPONENTS})
  if(flotilla_FIND_REQUIRED_${component} AND NOT component STREQUAL inference)
    set(flotilla_FOUND FALSE)
    set(flotilla_NOT_FOUND_MESSAGE "flotilla has no component '${component}'; it has inference")
    return()
  endif()
endforeach()
include(${CMAKE_CURRENT_LIST_DIR}/flotillaInferenceTargets.cmake)
if("${flotilla_FIND_COMPONENTS}" STREQUAL inference)
  return()
endif()

# The loops over environments are compiled in the user's program.
get_property(flotilla_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT flotilla_multi_config
   AND NOT CMAKE_BUILD_TYPE
   AND NOT CMAKE_CXX_FLAGS MATCHES "-O"
   AND NOT flotilla_FIND_QUIETLY)
  message(WARNING "This project has no build type: environments that are compiled in it are not "
                  "optimised and many times slower. Configure with -DCMAKE_BUILD_TYPE=Release.")
endif()

include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(yaml-cpp)
find_dependency(ZLIB)
include(${CMAKE_CURRENT_LIST_DIR}/flotillaTargets.cmake)
