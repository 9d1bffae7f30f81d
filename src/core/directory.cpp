#include "flotilla/core/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "flotilla/core/error.h"
#include "flotilla/core/file_detail.h"
#include "flotilla/core/refusal.h"

namespace flotilla {
namespace {

using detail::cannot_read;
using detail::cannot_write;

// What an error of open() means for a file that must not be a link.
std::string reason(int error) {
  return error == ELOOP ? "it is a symbolic link" : reason_of(error);
}

void require_name(const std::string& name) {
  const bool one = !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
                   name.find('\0') == name.npos;
  if (!one) throw Error(ErrorCode::kInternal, "'" + name + "' is not the name of a file");
}

bool is_regular(int fd, struct stat& facts) {
  return ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
}

bool leads_to(const std::string& path, int fd) {
  struct stat held, now;
  return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &now) == 0 && held.st_dev == now.st_dev &&
         held.st_ino == now.st_ino;
}

int open_directory(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return;
  const bool dangles = std::filesystem::is_symlink(path) && !std::filesystem::exists(path);
  throw Error(ErrorCode::kUsage,
              "cannot make '" + path +
                  "': " + (dangles ? "it is a link that leads nowhere" : error.message()));
}

Directory::Directory(const std::string& path)
    : Directory(path, std::make_shared<const Descriptor>(open_directory(path))) {
  if (!descriptor_->is_open()) throw_errno(ErrorCode::kUsage, "cannot open '" + path + "'");
}

Directory::Directory(std::string path, std::shared_ptr<const Descriptor> descriptor)
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

Directory Directory::make(const std::string& path) {
  make_directories(path);
  return path;
}

std::string Directory::path(const std::string& name) const {
  if (path_ == ".") return name;
  return path_.ends_with('/') ? path_ + name : path_ + "/" + name;
}

bool Directory::in_place() const { return leads_to(path_, fd()); }

std::string Directory::place() const {
  if (in_place()) return path_;
  std::error_code error;
  const std::string now =
      std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", fd()), error).string();
  return leads_to(now, fd()) ? now : "";
}

void Directory::require_writable() const {
  if (::faccessat(fd(), ".", W_OK | X_OK, AT_EACCESS) == 0) return;
  throw_errno(ErrorCode::kUsage, "cannot write to '" + path_ + "'");
}

bool Directory::holds(const std::string& name) const {
  require_name(name);
  struct stat facts;
  if (::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno == ENOENT) return false;
  throw_errno(ErrorCode::kUsage, "cannot look at '" + path(name) + "'");
}

std::vector<std::string> Directory::names() const {
  // Another description of the same directory, with a place of its own in the list.
  Descriptor own(::openat(fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.is_open()) cannot_read(path_, reason(errno));
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::fdopendir(own.get()), ::closedir);
  if (list == nullptr) cannot_read(path_, reason(errno));
  own.release();
  std::vector<std::string> names;
  const auto next = [&list] {
    errno = 0;  // every time: memory that was had in the end may leave an ENOMEM behind
    return ::readdir(list.get());
  };
  while (const dirent* entry = next()) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) cannot_read(path_, reason(errno));
  std::ranges::sort(names);
  return names;
}

Directory Directory::folder(const std::string& name) const {
  require_name(name);
  const int opened = ::openat(fd(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (opened < 0) {
    const int error = errno;
    struct stat facts;
    const bool link =
        ::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(facts.st_mode);
    cannot_read(path(name), reason(link ? ELOOP : error));
  }
  return {path(name), std::make_shared<const Descriptor>(opened)};
}

Directory Directory::make_folder(const std::string& name) const {
  require_name(name);
  if (::mkdirat(fd(), name.c_str(), 0777) != 0 && errno != EEXIST) {
    throw_errno(ErrorCode::kData, "cannot make " + path(name));
  }
  return folder(name);
}

std::string Directory::read(const std::string& name, size_t limit) const {
  return detail::read_all(open_to_read(name), path(name), limit);
}

Descriptor Directory::open_to_read(const std::string& name) const {
  require_name(name);
  Descriptor file(
      ::openat(fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.is_open()) cannot_read(path(name), reason(errno));
  struct stat facts;
  if (!is_regular(file.get(), facts)) cannot_read(path(name), "not a regular file");
  return file;
}

Descriptor Directory::open_to_write(const std::string& name, Place place) const {
  require_name(name);
  const int where = place == Place::kAtEnd ? O_APPEND : 0;
  Descriptor file(
      ::openat(fd(), name.c_str(),
               O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | where, 0644));
  // A named pipe nobody reads from and some devices cannot even be opened.
  if (!file.is_open() && errno == ENXIO) cannot_write(path(name), "not a regular file");
  if (!file.is_open()) cannot_write(path(name), reason(errno));
  struct stat facts;
  if (!is_regular(file.get(), facts)) cannot_write(path(name), "not a regular file");
  if (facts.st_nlink > 1) {
    cannot_write(path(name), "it has other names (hard links), whose file would change as well");
  }
  return file;
}

Descriptor Directory::create(const std::string& name) const {
  require_name(name);
  Descriptor file(::openat(fd(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file.is_open()) cannot_write(path(name), errno);
  return file;
}

void Directory::write(const std::string& name, std::string_view bytes) const {
  require_name(name);
  struct stat facts;
  if (::fstatat(fd(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(facts.st_mode) &&
      !S_ISLNK(facts.st_mode)) {
    cannot_write(path(name), "not a regular file");
  }
  detail::replace_file(fd(), name, path(name), bytes);
}

void Directory::remove_unfinished() const {
  for (const std::string& name : names()) {
    if (detail::is_part(name)) remove_file(name);
  }
}

void Directory::write_new(const std::string& name, std::string_view bytes, bool sync) const {
  Descriptor file = create(name);
  const bool written =
      detail::write_all(file.get(), bytes) && (!sync || ::fsync(file.get()) == 0) && file.close();
  if (!written) cannot_write(path(name), errno);
}

void Directory::rename(const std::string& from, const std::string& to) const {
  require_name(from);
  require_name(to);
  if (::renameat(fd(), from.c_str(), fd(), to.c_str()) != 0) cannot_write(path(to), errno);
}

bool Directory::remove_file(const std::string& name) const {
  require_name(name);
  return ::unlinkat(fd(), name.c_str(), 0) == 0 || errno == ENOENT;
}

bool Directory::remove_empty_folder(const std::string& name) const {
  require_name(name);
  return ::unlinkat(fd(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void Directory::sync() const {
  if (!detail::sync_entries(fd())) cannot_write(path_, errno);
}

}  // namespace flotilla
