// A directory that is opened once. What lies below it is reached from there, by a name without a
// slash, and no symbolic link is followed: so a directory that came from somebody else cannot make
// us read or write anything outside of it, and one that is moved meanwhile takes its files along.
//
// Only regular files are opened; a named pipe or a device in the place of one is refused, not
// waited for. A file with several names (hard links) is not written to in place, for one of its
// names may lie elsewhere.
//
// Errors are Error(kData) that name the file, but for those of the directory itself: kUsage.
// Thread safety: any number of threads. Copies share the open directory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flotilla/core/descriptor.h"

namespace flotilla {

class Directory {
 public:
  // Opens one that is there. The path may lead through links, and be one.
  Directory(const std::string& path);  // NOLINT(google-explicit-constructor): a path is one, too
  // Makes it, with those above it, where it is not there.
  static Directory make(const std::string& path);

  const std::string& path() const { return path_; }
  // How a file of it is called in messages.
  std::string path(const std::string& name) const;
  int fd() const { return descriptor_->get(); }
  // Whether the path still leads here.
  bool in_place() const;
  // Where it lies now, be it moved since; "" where it was deleted.
  std::string place() const;
  void require_writable() const;  // throws Error(kUsage) with the reason

  // Whether anything has this name, be it a link that leads nowhere.
  bool holds(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted; without those of itself and its parent

  // A directory in it.
  Directory folder(const std::string& name) const;
  Directory make_folder(const std::string& name) const;  // where it is not there

  // All bytes of a file, at most `limit`.
  std::string read(const std::string& name, size_t limit) const;
  Descriptor open_to_read(const std::string& name) const;
  // To be changed in place, at its end with `append`; made where it is not there.
  enum class Place { kAnywhere, kAtEnd };
  Descriptor open_to_write(const std::string& name, Place place) const;
  Descriptor create(const std::string& name) const;  // refuses what is there already

  // As write_file_atomically(): whole or not at all; a link of that name is replaced.
  void write(const std::string& name, std::string_view bytes) const;
  // A new file that nobody reads before the directory is renamed.
  void write_new(const std::string& name, std::string_view bytes, bool sync) const;

  // Removes what write() left where its process was killed. REQUIRES: nobody writes.
  void remove_unfinished() const;

  // Refuses to replace a directory that is not empty.
  void rename(const std::string& from, const std::string& to) const;
  // Whether it is gone. A link goes, not what it leads to.
  bool remove_file(const std::string& name) const;
  bool remove_empty_folder(const std::string& name) const;
  void sync() const;  // its entries are on the disk

 private:
  Directory(std::string path, std::shared_ptr<const Descriptor> descriptor);

  std::string path_;
  std::shared_ptr<const Descriptor> descriptor_;
};

// Makes a directory and those above it. Throws Error(kUsage).
void make_directories(const std::string& path);

}  // namespace flotilla
