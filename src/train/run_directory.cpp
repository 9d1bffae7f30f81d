#include "train/run_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "core/error.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kData, "cannot write " + path + ": " + reason);
}

// False, and errno, when not all of it could be written.
bool write_all(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    done += static_cast<size_t>(wrote);
  }
  return ::fsync(fd) == 0;
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : path_(path) {
  std::error_code error;
  if (fs::exists(fs::path(path) / "config.yaml", error)) {
    throw Error(ErrorCode::kUsage, "'" + path + "' holds a run already; choose another --out");
  }
  fs::create_directories(path, error);
  if (error) throw Error(ErrorCode::kUsage, "cannot make '" + path + "': " + error.message());
  if (::access(path.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::kUsage, "cannot write to '" + path + "'");
  }
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name, part = path + ".part";
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) cannot_write(path, std::strerror(errno));
  const bool written = write_all(fd, text);
  const int reason = errno;
  const bool closed = ::close(fd) == 0;
  if (written && closed && ::rename(part.c_str(), path.c_str()) == 0) return;
  if (!written) errno = reason;
  const std::string text_of_reason = std::strerror(errno);
  ::unlink(part.c_str());
  cannot_write(path, text_of_reason);
}

std::string make_run_path(const std::string& name, uint64_t seed) {
  const std::time_t now = std::time(nullptr);
  const std::string base =
      fmt::format("runs/{}-seed{}-{:%Y%m%d-%H%M%S}", name, seed, fmt::localtime(now));
  std::error_code error;
  fs::create_directories("runs", error);
  std::string path = base;
  // False without an error: somebody else made it.
  for (int next = 2; !fs::create_directory(path, error) && !error; ++next) {
    path = fmt::format("{}-{}", base, next);
  }
  return path;  // after an error, RunDirectory will say what is wrong with it
}

}  // namespace flotilla
