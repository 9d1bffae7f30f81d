# Recipes are built in, so that the program finds them wherever it runs.
#
# As a script it turns YAML files into a source file:
#   cmake -DOUT=recipes.cpp -DDOMAIN=classic -DFILES="a.yaml;b.yaml" -P recipes.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(entries "")
  foreach(file IN LISTS FILES)
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} yaml)
    string(APPEND entries "  registry.add_recipe({\"${name}\", R\"yaml(${yaml})yaml\"});\n")
  endforeach()
  file(WRITE ${OUT} "#include \"flotilla/env/registry.h\"

namespace flotilla {

void add_${DOMAIN}_recipes(Registry& registry);

void add_${DOMAIN}_recipes(Registry& registry) {
${entries}}

}  // namespace flotilla
")
  return()
endif()

# flotilla_recipes(DOMAIN FILE...): gives the library of a domain, or whatever target is named so,
# a function add_DOMAIN_recipes(Registry&) that registers these files of the project's folder.
function(flotilla_recipes domain)
  cmake_parse_arguments(ARG "" "TARGET" "" ${ARGN})
  if(NOT ARG_TARGET)
    set(ARG_TARGET flotilla_${domain})
  endif()
  set_property(GLOBAL APPEND PROPERTY FLOTILLA_RECIPES ${ARG_UNPARSED_ARGUMENTS})
  list(TRANSFORM ARG_UNPARSED_ARGUMENTS PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  set(out ${PROJECT_BINARY_DIR}/generated/${domain}_recipes.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/recipes.cmake)
  add_custom_command(
    OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DDOMAIN=${domain} "-DFILES=${files}" -P ${script}
    DEPENDS ${files} ${script}
    VERBATIM)
  target_sources(${ARG_TARGET} PRIVATE ${out})
endfunction()
