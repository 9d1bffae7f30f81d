// The directory of a run: config.yaml before the first step, summary.json at the end, metrics and
// checkpoints in between. It belongs to one process as long as that runs (flock).
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

class RunDirectory {
 public:
  enum class Mode : uint8_t {
    kNew,      // makes the directory; refuses one that holds a run already
    kExisting  // refuses one that holds none
  };
  // Throws Error(kUsage) as the mode says, when another process has a run there, and when it cannot
  // be written.
  RunDirectory(const std::string& path, Mode mode);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  bool holds(const std::string& name) const;
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  // Throws Error(kData) when it was moved or deleted since: what is written now would be half a
  // run.
  void require_in_place() const;
  // Throws Error(kData) that names the file when it cannot be written whole. A reader never sees
  // half of it.
  void write(const std::string& name, const std::string& text) const;

 private:
  void require_no_run() const;
  void lock();

  std::string path_;
  int lock_ = -1;
};

// Makes "runs/cartpole-seed9-20261115-120304" for a run that was given no directory; with "-2" and
// so on behind it where other runs have taken the name.
std::string make_run_path(const std::string& name, uint64_t seed);

}  // namespace flotilla
