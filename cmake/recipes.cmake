# Turns configs/*.yaml into a source file, so that the program finds its recipes wherever it runs.
# Usage: cmake -DOUT=recipes_data.cpp -DFILES="a.yaml;b.yaml" -P recipes.cmake
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} yaml)
  string(APPEND entries "      {\"${name}\", R\"yaml(${yaml})yaml\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"flotilla/train/recipes.h\"

namespace flotilla {

const std::vector<Recipe>& recipes() {
  static const std::vector<Recipe> all = {
${entries}  };
  return all;
}

}  // namespace flotilla
")
