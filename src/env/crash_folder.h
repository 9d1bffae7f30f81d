// Where crash bundles go: a folder of any path, or one below a directory that is open already.
#pragma once

#include <optional>
#include <string>

#include "flotilla/core/directory.h"

namespace flotilla {

class CrashFolder {
 public:
  CrashFolder() = default;  // nowhere
  // NOLINTNEXTLINE(google-explicit-constructor): a path is one; "": nowhere
  CrashFolder(std::string path) : name_(std::move(path)) {}
  CrashFolder(Directory parent, std::string name)
      : parent_(std::move(parent)), name_(std::move(name)) {}

  bool empty() const { return name_.empty(); }
  std::string path() const { return parent_ ? parent_->path(name_) : name_; }
  // Makes it where it is not there.
  Directory make() const { return parent_ ? parent_->make_folder(name_) : Directory::make(name_); }

 private:
  std::optional<Directory> parent_;
  std::string name_;
};

}  // namespace flotilla
