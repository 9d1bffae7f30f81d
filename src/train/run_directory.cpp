#include "flotilla/train/run_directory.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

}  // namespace

RunDirectory::RunDirectory(const std::string& path) : path_(path) {
  std::error_code error;
  const auto require_free = [&] {
    if (!fs::exists(fs::path(path) / "config.yaml", error)) return;
    throw Error(ErrorCode::kUsage, "'" + path + "' holds a run already; choose another --out");
  };
  require_free();
  fs::create_directories(path, error);
  if (error) throw Error(ErrorCode::kUsage, "cannot make '" + path + "': " + error.message());
  if (::access(path.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::kUsage, "cannot write to '" + path + "'");
  }
  lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw_errno(ErrorCode::kUsage, "cannot open '" + path + "'");
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
      throw Error(ErrorCode::kUsage, "another run is using '" + path + "'; choose another --out");
    }
    require_free();  // nobody else can change that any more
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  write_file_atomically(path_ + "/" + name, text);
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
