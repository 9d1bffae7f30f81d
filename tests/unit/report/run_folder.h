// Run directories made for a test.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace flotilla::test {

class RunFolder {
 public:
  RunFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "flotilla-report-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~RunFolder() {
    std::error_code error;
    std::filesystem::remove_all(root_, error);
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  std::string path(const std::string& name = "") const { return (root_ / name).string(); }

  // Writes "NAME/FILE", or "FILE" for a table; returns the path of the run.
  std::string write(const std::string& file, std::string_view text) const {
    const std::filesystem::path whole = root_ / file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole, std::ios::binary) << text;
    return whole.parent_path().string();
  }

 private:
  std::filesystem::path root_;
};

// Lines of metrics.jsonl with steps 100, 200, ..., a second each, and these mean returns.
inline std::string lines_of(const std::vector<double>& returns) {
  std::string text;
  for (size_t i = 0; i < returns.size(); ++i) {
    text += fmt::format("{{\"step\": {}, \"wall_s\": {}, \"charts/return_mean_100\": {}}}\n",
                        100 * (i + 1), i + 1, returns[i]);
  }
  return text;
}

}  // namespace flotilla::test
