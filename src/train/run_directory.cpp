#include "flotilla/train/run_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.yaml";

}  // namespace

RunDirectory::RunDirectory(const std::string& path, Mode mode) : path_(path) {
  std::error_code error;
  if (mode == Mode::kNew) {
    require_no_run();
    fs::create_directories(path, error);
    if (error) throw Error(ErrorCode::kUsage, "cannot make '" + path + "': " + error.message());
  } else if (!holds(kConfig)) {
    throw Error(ErrorCode::kUsage, path_exists(path)
                                       ? "'" + path + "' is no run: it has no " + kConfig
                                       : "there is no run '" + path + "'");
  }
  require_writable(path);
  lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw_errno(ErrorCode::kUsage, "cannot open '" + path + "'");
  try {
    lock();
    if (mode == Mode::kNew) require_no_run();  // nobody else can change that any more
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

void RunDirectory::require_no_run() const {
  if (!holds(kConfig)) return;
  throw Error(ErrorCode::kUsage, "'" + path_ + "' holds a run already; go on with it by --resume " +
                                     path_ + ", or choose another --out");
}

void RunDirectory::lock() {
  // Forked workers of a run that was killed hold its lock for a moment longer.
  constexpr int kAttempts = 20;
  constexpr auto kPause = std::chrono::milliseconds(50);
  for (int attempt = 1; ::flock(lock_, LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (attempt == kAttempts) {
      throw Error(ErrorCode::kUsage, "another run is using '" + path_ + "'");
    }
    std::this_thread::sleep_for(kPause);
  }
}

bool RunDirectory::holds(const std::string& name) const { return path_exists(file(name)); }

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

void RunDirectory::require_in_place() const {
  struct stat held, now;
  const bool there = ::fstat(lock_, &held) == 0 && ::stat(path_.c_str(), &now) == 0;
  if (there && held.st_dev == now.st_dev && held.st_ino == now.st_ino) return;
  throw Error(ErrorCode::kData, "the run directory '" + path_ + "' was moved or deleted");
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  require_in_place();
  write_file_atomically(file(name), text);
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
