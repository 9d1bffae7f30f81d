// Writes TensorBoard event files, so that a script can hold them against TensorBoard's own reader.
//
//   event_file_tool new DIR             a new file with the events that lines on stdin describe
//   event_file_tool resume DIR STEP     cuts the file in DIR behind STEP, then adds the events
//
// Lines: "scalars WALL_TIME STEP [TAG VALUE]..." and "text WALL_TIME STEP TAG TEXT". Tags and texts
// are hexadecimal with an x in front, so that none is empty; numbers are as "%a" or "%g" write
// them. Prints the path of the file.
#include <fmt/format.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/train/event_file.h"

namespace {

using namespace flotilla;

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 1; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void add_lines(EventFile& file) {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind, wall_time, tag, value;
    int64_t step = 0;
    words >> kind >> wall_time >> step;
    if (kind == "text") {
      words >> tag >> value;
      file.add_text(std::stod(wall_time), step, from_hex(tag), from_hex(value));
    } else {
      std::vector<EventFile::Scalar> scalars;
      while (words >> tag >> value) scalars.emplace_back(from_hex(tag), std::stod(value));
      file.add(std::stod(wall_time), step, scalars);
    }
  }
  file.sync();
  fmt::print("{}\n", file.path());
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 2 && words[0] == "new") {
      EventFile file(words[1]);
      add_lines(file);
    } else if (words.size() == 3 && words[0] == "resume") {
      EventFile file = EventFile::reopen(words[1], std::stoll(words[2]));
      add_lines(file);
    } else {
      throw Error(ErrorCode::kUsage, "usage: event_file_tool new DIR | resume DIR STEP");
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
