// A text of lines of numbers, with what is wrong named by file and line: what standard instances
// and what lies beside them are made of.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::dvrp::standard {

constexpr size_t kMostStops = 2001;  // of 1000 requests and the depot

struct Line {
  int number = 0;
  std::vector<double> fields;
};

class Lines {
 public:
  // Empty lines are left out. Throws Error(kData) for what is no number, and for more lines than
  // stops and a head need.
  Lines(const std::string& text, const std::string& path);

  std::span<const Line> all() const { return lines_; }

  // Throw Error(kData).
  [[noreturn]] void refuse(const Line& line, const std::string& why) const;
  int whole(const Line& line, size_t field, const char* what, int least, int most) const;
  double number(const Line& line, size_t field, const char* what, double least) const;

 private:
  void add(std::string_view text, int number);

  const std::string path_;
  std::vector<Line> lines_;
};

// What lies beside an instance: its name up to the first dot, with another ending.
std::string path_beside(const std::string& instance_path, const char* ending);

// A text, and the file it is of.
struct NamedText {
  std::string text, path;
};

}  // namespace flotilla::dvrp::standard
