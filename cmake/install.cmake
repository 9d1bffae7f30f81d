# What `cmake --install` copies: the program, the layers with their headers, and a CMake package for
# programs that bring environments of their own: find_package(flotilla), flotilla::flotilla.
# Nothing in it names the folder it was built or installed in: the whole may be moved.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/flotilla)
get_property(layers GLOBAL PROPERTY FLOTILLA_LAYERS)

# Everything under one name; CMake puts the layers below it in the order a linker wants.
add_library(flotilla_library INTERFACE)
set_target_properties(flotilla_library PROPERTIES EXPORT_NAME flotilla)
target_link_libraries(flotilla_library INTERFACE flotilla_cli flotilla_domains)
install(TARGETS flotilla_library EXPORT flotilla)
install(FILES include/flotilla/flotilla.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flotilla)

foreach(layer ${layers})
  install(TARGETS flotilla_${layer} EXPORT flotilla)
endforeach()
# The folders left out are the insides of one policy each, and of the Python module.
install(DIRECTORY src/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flotilla
        FILES_MATCHING PATTERN *.h PATTERN fused EXCLUDE PATTERN torch EXCLUDE
                                  PATTERN python EXCLUDE)

# Programs that only act find it without looking for what the layers link; or they take the source.
install(TARGETS flotilla_inference EXPORT flotilla_inference)
install(FILES src/inference/inference.h src/inference/inference.cpp
        DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/inference)

install(TARGETS flotilla)

# What is opened by its bare name is looked for in the run path of the program: of ours, and of every
# program that links the package.
file(RELATIVE_PATH bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(flotilla PROPERTIES INSTALL_RPATH $ORIGIN/${bin_to_lib})
target_link_options(flotilla_library INTERFACE
                    $<INSTALL_INTERFACE:LINKER:-rpath,$<INSTALL_PREFIX>/${CMAKE_INSTALL_LIBDIR}>)
if(TARGET flotilla_alloc_count)
  install(TARGETS flotilla_alloc_count)
endif()
flotilla_plugins(plugins)
if(plugins)
  # libtorch may lie outside of the folders that every program searches.
  set_target_properties(${plugins} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS ${plugins})
endif()

install(EXPORT flotilla_inference NAMESPACE flotilla:: FILE flotillaInferenceTargets.cmake
        DESTINATION ${package_dir})
install(EXPORT flotilla NAMESPACE flotilla:: FILE flotillaTargets.cmake DESTINATION ${package_dir})
# Until 1.0 a new minor version may change the interface.
write_basic_package_version_file(flotillaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/flotillaConfig.cmake ${PROJECT_BINARY_DIR}/flotillaConfigVersion.cmake
        DESTINATION ${package_dir})
