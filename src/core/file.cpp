#include "flotilla/core/file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "flotilla/core/error.h"
#include "flotilla/core/file_detail.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/text.h"

namespace flotilla {

using detail::cannot_read;
using detail::cannot_write;

namespace {

// A device or a pipe, also at the end of links: to put a file in its place would take it away from
// everybody.
bool is_special(const std::string& path) {
  struct stat facts;
  return ::stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
}

// The system would take a path with a NUL in it for a shorter one.
bool has_nul(const std::string& path) { return path.find('\0') != path.npos; }

// Where a file is to be written, in two parts.
struct Place {
  std::string folder, name;
};

// Throws Error(kData) for what no regular file can take the place of.
Place place_of(const std::string& path) {
  if (has_nul(path)) cannot_write(path.substr(0, path.find('\0')), EINVAL);
  const size_t slash = path.rfind('/');
  Place place{.folder = slash == path.npos ? "." : path.substr(0, slash + 1),
              .name = slash == path.npos ? path : path.substr(slash + 1)};
  if (place.name.empty()) cannot_write(path, path.empty() ? ENOENT : EISDIR);
  if (is_special(path)) cannot_write(path, "not a regular file");
  return place;
}

void refuse_other_file(const std::string& path, std::string_view ending) {
  std::error_code error;
  if (path.ends_with(ending) || !std::filesystem::is_regular_file(path, error)) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("{} is there already and no {} file; give another name", in_quotes(path),
                          ending));
}

}  // namespace

std::string temporary_path(const std::string& name) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (!error) return (folder / (name + "-XXXXXX")).string();
  const char* asked = std::getenv("TMPDIR");
  throw Error(ErrorCode::kUsage, "there is no folder for temporary files: TMPDIR is '" +
                                     std::string(asked != nullptr ? asked : "") + "'");
}

namespace detail {

void cannot_read(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kData, "cannot read " + path + ": " + reason);
}

void cannot_write(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kData, "cannot write " + path + ": " + reason);
}

void cannot_write(const std::string& path, int error) { cannot_write(path, reason_of(error)); }

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

bool sync_entries(int directory) {
  // Some file systems cannot, and say so with EINVAL.
  return ::fsync(directory) == 0 || errno == EINVAL || errno == ENOTSUP;
}

std::string read_all(const Descriptor& file, const std::string& path, size_t limit) {
  const auto reason = [] { return reason_of(errno); };
  struct stat facts;
  if (::fstat(file.get(), &facts) != 0) cannot_read(path, reason());
  if (!S_ISREG(facts.st_mode)) cannot_read(path, "not a regular file");
  const auto too_large = [&] {
    cannot_read(path, fmt::format("it has more than {} bytes", limit));
  };
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size > limit) too_large();

  // The size is a hint only: the file may change, and those of /proc say 0. One byte more than is
  // there, so that the last read() sees the end.
  constexpr size_t kStep = 1u << 16u;
  std::string bytes(static_cast<size_t>(size) + 1, '\0');
  size_t done = 0;
  for (;;) {
    if (done == bytes.size()) bytes.resize(bytes.size() + std::max(kStep, bytes.size() / 2));
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path, reason());
    if (got == 0) break;
    done += static_cast<size_t>(got);
    if (done > limit) too_large();
  }
  bytes.resize(done);
  return bytes;
}

constexpr std::string_view kPartBegin = ".flotilla-", kPartEnd = ".part";

bool is_part(std::string_view name) {
  return name.starts_with(kPartBegin) && name.ends_with(kPartEnd);
}

void replace_file(int directory, const std::string& name, const std::string& path,
                  std::string_view bytes) {
  // Not made from the name, which may be as long as a name can be.
  std::string part;
  const auto create = [&](int number) {
    part = fmt::format("{}{}-{}{}", kPartBegin, ::getpid(), number, kPartEnd);
    return ::openat(directory, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  };
  int fd = create(0);
  // Taken by another thread, or left behind by a process of the same number that was killed.
  for (int number = 1; fd < 0 && errno == EEXIST; ++number) fd = create(number);
  if (fd < 0) cannot_write(path, errno);
  Descriptor file(fd);
  const bool replaced = write_all(file.get(), bytes) && ::fsync(file.get()) == 0 && file.close() &&
                        ::renameat(directory, part.c_str(), directory, name.c_str()) == 0;
  if (!replaced) {
    const int error = errno;
    ::unlinkat(directory, part.c_str(), 0);
    cannot_write(path, error);
  }
  if (!sync_entries(directory)) cannot_write(path, errno);
}

}  // namespace detail

bool path_exists(const std::string& path) {
  struct stat facts;
  if (::stat(path.c_str(), &facts) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  throw_errno(ErrorCode::kUsage, "cannot look at '" + path + "'");
}

std::string find_beside_program(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& place : {folder, folder.parent_path(), fs::path(code_folder())}) {
    if (!place.empty() && fs::exists(place / name, error)) return place / name;
  }
  return "";
}

std::string code_folder() {
  Dl_info facts{};
  if (dladdr(reinterpret_cast<const void*>(&code_folder), &facts) == 0) return "";
  // A program has the name it was called by, which says nothing about a folder unless it is whole.
  const std::filesystem::path file = facts.dli_fname;
  return file.is_absolute() ? file.parent_path().string() : "";
}

std::string read_whole_file(const std::string& path, size_t limit) {
  if (has_nul(path)) cannot_read(path.substr(0, path.find('\0')), "a NUL in its name");
  // A named pipe without a writer would keep a blocking open() waiting.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.is_open()) cannot_read(path, reason_of(errno));
  return detail::read_all(file, path, limit);
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const auto [folder, name] = place_of(path);
  // Everything happens relative to the directory, so that a path of the greatest length will do.
  const Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) cannot_write(path, errno);
  detail::replace_file(directory.get(), name, path, bytes);
}

void write_report(const std::string& path, std::string_view ending, std::string_view bytes) {
  refuse_other_file(path, ending);
  write_file_atomically(path, bytes);
}

void require_report_place(const std::string& path, std::string_view ending) {
  refuse_other_file(path, ending);
  const Place place = place_of(path);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) cannot_write(path, EISDIR);
  const bool may_write = ::faccessat(AT_FDCWD, place.folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  if (!may_write) cannot_write(path, errno);
}

AppendFile::AppendFile(const Directory& directory, const std::string& name)
    : path_(directory.path(name)), file_(directory.open_to_write(name, Directory::Place::kAtEnd)) {}

AppendFile::~AppendFile() {
  detail::write_all(file_.get(), pending_);  // nobody is left to be told
}

void AppendFile::append(std::string_view bytes) {
  constexpr size_t kMany = 1u << 16u;
  pending_ += bytes;
  if (pending_.size() >= kMany) flush();
}

void AppendFile::flush() {
  const bool written = detail::write_all(file_.get(), pending_);
  pending_.clear();
  if (!written) cannot_write(path_, errno);
}

void AppendFile::sync() const {
  if (::fsync(file_.get()) != 0) cannot_write(path_, errno);
}

}  // namespace flotilla
