// Whole files: read with a limit, written so that nobody ever sees half of one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "flotilla/core/descriptor.h"
#include "flotilla/core/directory.h"

namespace flotilla {

// Whether there is something at `path`. Throws Error(kUsage) with the reason where that cannot be
// told: folders on the way that may not be entered, links that go round.
bool path_exists(const std::string& path);

// What mkdtemp() and mkstemp() take: "NAME-XXXXXX" in the folder for temporary files. Throws
// Error(kUsage) where there is none, for TMPDIR names something else.
std::string temporary_path(const std::string& name);

// A file in the folder of this program or the one above it, where test programs look for what lies
// beside the program they test, or in code_folder(); "" where there is none.
std::string find_beside_program(const std::string& name);

// The folder of the shared object that this code is a part of, such as the extension module of an
// interpreter; "" where that is unknown.
std::string code_folder();

// The bytes of a regular file. Throws Error(kData) that names the file when it cannot be read, is
// no regular file, or has more than `limit` bytes; never allocates much more than the file has.
std::string read_whole_file(const std::string& path, size_t limit);

// Writes a temporary file in the same directory, ".flotilla-PID-N.part", syncs it, renames it to
// `path` and syncs the directory: after a crash of the program or the machine there is the old
// file or the new one. A symbolic link at `path` is replaced, not followed; a device or a pipe is
// refused.
//
// Throws Error(kData) that names the file and the reason; then what was at `path` is still there,
// and the temporary file is gone. Only a process that is killed leaves one behind; it hinders
// nobody and may be deleted.
//
// Thread safety: any number of writers, also of the same file; the last rename wins.
void write_file_atomically(const std::string& path, std::string_view bytes);

// The same for the --out of a report. Throws Error(kUsage) where there is a file already whose name
// ends otherwise, ".svg" say: a slip must not cost a file of a run, or the table that was read.
void write_report(const std::string& path, std::string_view ending, std::string_view bytes);
// Before the work that a report takes: throws what write_report() would throw behind it.
void require_report_place(const std::string& path, std::string_view ending);

// A file of a directory that grows at its end. Bytes are collected and written at flush(), or when
// there are many. Every failure is an Error(kData) that names the file.
class AppendFile {
 public:
  // Opens the file, or makes it.
  AppendFile(const Directory& directory, const std::string& name);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  const std::string& path() const { return path_; }
  void append(std::string_view bytes);
  void flush();
  void sync() const;  // what was flushed is on the disk

 private:
  std::string path_;
  std::string pending_;
  Descriptor file_;
};

}  // namespace flotilla
