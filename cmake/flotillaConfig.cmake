# Read by find_package(flotilla): what the layers link, then the layers.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(spdlog)
find_dependency(yaml-cpp)
find_dependency(ZLIB)
include(${CMAKE_CURRENT_LIST_DIR}/flotillaTargets.cmake)
