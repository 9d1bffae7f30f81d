// The directory of a run, or of what else goes on for hours and can be gone on with: config.yaml
// before the first step, results at the end. It belongs to one process as long as that runs
// (flock), and is opened once (core/directory.h): what is in it cannot lead out of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "flotilla/core/directory.h"

namespace flotilla {

inline constexpr const char* kConfigFile = "config.yaml";

class RunDirectory {
 public:
  // The files that a kind of run writes, which a new one must not find. A '*' at the end stands for
  // any end.
  using Names = std::vector<std::string>;

  // Makes the directory for a new run. Throws Error(kUsage) that says which of the names is there
  // already, when another process has a run there, and when it cannot be written.
  static RunDirectory make(const std::string& path, const Names& names);
  // Opens one that holds a config.yaml; else throws Error(kUsage).
  static RunDirectory open(const std::string& path);
  // Throws as make() would, and changes nothing: for those who have much to do before.
  static void require_free(const std::string& path, const Names& names);

  const std::string& path() const { return directory_.path(); }
  const Directory& directory() const { return directory_; }
  bool holds(const std::string& name) const { return directory_.holds(name); }
  // How a file of it is called in messages.
  std::string file(const std::string& name) const { return directory_.path(name); }
  std::string read(const std::string& name, size_t limit) const {
    return directory_.read(name, limit);
  }
  // Throws Error(kData) when it was moved or deleted since: what is written now would be half a
  // run.
  void require_in_place() const;
  // Throws Error(kData) that names the file when it cannot be written whole. A reader never sees
  // half of it.
  void write(const std::string& name, const std::string& text) const;

 private:
  explicit RunDirectory(Directory directory);  // locks it

  Directory directory_;
};

// Makes "runs/cartpole-seed9-20261115-120304" for a run that was given no directory; with "-2" and
// so on behind it where other runs have taken the name.
std::string make_run_path(std::string name, uint64_t seed);

}  // namespace flotilla
