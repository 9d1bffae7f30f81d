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

[[noreturn]] void cannot_write(const std::string& path) {
  throw Error(ErrorCode::kData, "cannot write " + path + ": " + std::strerror(errno));
}

void write_all(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      ::close(fd);
      cannot_write(path);
    }
    done += static_cast<size_t>(wrote);
  }
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : path_(path) {
  namespace fs = std::filesystem;
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
  if (fd < 0) cannot_write(path);
  write_all(fd, text, path);
  const bool synced = ::fsync(fd) == 0;
  if (::close(fd) != 0 || !synced) cannot_write(path);
  if (::rename(part.c_str(), path.c_str()) != 0) cannot_write(path);
}

std::string default_run_path(const std::string& name, uint64_t seed) {
  const std::time_t now = std::time(nullptr);
  return fmt::format("runs/{}-seed{}-{:%Y%m%d-%H%M%S}", name, seed, fmt::localtime(now));
}

}  // namespace flotilla
