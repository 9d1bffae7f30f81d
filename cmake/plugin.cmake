# Shared objects that bring libtorch and are opened on first use. A layer or a domain declares its
# plugin; src/nn/torch builds all of them, for libtorch is known there alone.

# flotilla_plugin(NAME SOURCE LAYER): with the layers of the target LAYER inside.
function(flotilla_plugin name source layer)
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_PLUGINS ${name})
  set_property(GLOBAL PROPERTY ${name}_SOURCE ${PROJECT_SOURCE_DIR}/src/${source})
  set_property(GLOBAL PROPERTY ${name}_LAYER ${layer})
endfunction()

# flotilla_plugins(OUT): those that this build makes.
function(flotilla_plugins out)
  get_property(names GLOBAL PROPERTY FLOTILLA_PLUGINS)
  set(built "")
  foreach(name ${names})
    if(TARGET ${name})
      list(APPEND built ${name})
    endif()
  endforeach()
  set(${out} ${built} PARENT_SCOPE)
endfunction()
