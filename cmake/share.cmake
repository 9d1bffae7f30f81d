# Files that the program reads when it runs (find_asset in core/system.h). They are installed to
# share/flotilla, and a build folder, wherever it lies, has links to them at the same place.

# flotilla_share(PATH [NAME]): a file or folder of the project; NAME: what it is found by.
function(flotilla_share path)
  if(ARGC GREATER 1)
    set(name ${ARGV1})
  else()
    get_filename_component(name ${path} NAME)
  endif()
  set(folder ${PROJECT_BINARY_DIR}/share/flotilla)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${path} ${folder}/${name} SYMBOLIC)
  if(FLOTILLA_PYTHON) # in the package itself
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${path})
      install(DIRECTORY ${PROJECT_SOURCE_DIR}/${path}/ DESTINATION flotilla/share/${name}
              COMPONENT python)
    else()
      install(FILES ${PROJECT_SOURCE_DIR}/${path} DESTINATION flotilla/share RENAME ${name}
              COMPONENT python)
    endif()
  endif()
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${path})
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${path}/
            DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla/${name})
  else()
    install(FILES ${PROJECT_SOURCE_DIR}/${path} DESTINATION ${CMAKE_INSTALL_DATADIR}/flotilla
            RENAME ${name})
  endif()
endfunction()
