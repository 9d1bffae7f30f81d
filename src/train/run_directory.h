// The directory of a run: config.yaml before the first step, summary.json at the end. It belongs to
// one process as long as that runs (flock).
// Files are written under another name and renamed, so that a reader never sees half of one.
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

class RunDirectory {
 public:
  // Makes the directory. Throws Error(kUsage) when it holds a run already, another process is about
  // to put one there, or it cannot be written.
  explicit RunDirectory(const std::string& path);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  // Throws Error(kData) that names the file when it cannot be written whole.
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
  int lock_ = -1;
};

// Makes "runs/cartpole-seed9-20261115-120304" for a run that was given no directory; with "-2" and
// so on behind it where other runs have taken the name.
std::string make_run_path(const std::string& name, uint64_t seed);

}  // namespace flotilla
