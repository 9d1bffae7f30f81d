#include "flotilla/train/run_directory.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <thread>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

bool matches(const std::string& name, const std::string& pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

void require_none_of(const RunDirectory::Names& names, const Directory& directory) {
  const std::vector<std::string> there = directory.names();
  for (const std::string& pattern : names) {
    const auto found =
        std::ranges::find_if(there, [&](const auto& name) { return matches(name, pattern); });
    if (found == there.end()) continue;
    const std::string& path = directory.path();
    throw Error(ErrorCode::kUsage,
                directory.holds(kConfigFile)
                    ? fmt::format("'{}' holds a run already; resume it with --resume {}, or "
                                  "choose another --out",
                                  path, path)
                    : fmt::format("'{}' holds {} already, which would mix with what is written "
                                  "there: choose another --out",
                                  path, in_quotes(*found)));
  }
}

void lock(const Directory& directory) {
  // Forked workers of a run that was killed hold its lock for a moment longer.
  constexpr int kAttempts = 20;
  constexpr auto kPause = std::chrono::milliseconds(50);
  for (int attempt = 1; ::flock(directory.fd(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (attempt == kAttempts) {
      throw Error(ErrorCode::kUsage, "another run is using '" + directory.path() + "'");
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace

RunDirectory::RunDirectory(Directory directory) : directory_(std::move(directory)) {
  directory_.require_writable();
  lock(directory_);
}

void RunDirectory::require_free(const std::string& path, const Names& names) {
  if (path_exists(path) && fs::is_directory(path)) require_none_of(names, path);
}

RunDirectory RunDirectory::make(const std::string& path, const Names& names) {
  require_free(path, names);
  RunDirectory made(Directory::make(path));
  require_none_of(names, made.directory_);  // nobody else can change that any more
  return made;
}

RunDirectory RunDirectory::open(const std::string& path) {
  if (!path_exists(path)) throw Error(ErrorCode::kUsage, "there is no run '" + path + "'");
  const Directory directory(path);
  if (!directory.holds(kConfigFile)) {
    throw Error(ErrorCode::kUsage, "'" + path + "' is no run: it has no " + kConfigFile);
  }
  return RunDirectory(directory);
}

void RunDirectory::require_in_place() const {
  if (directory_.in_place()) return;
  const std::string now = directory_.place();
  throw Error(ErrorCode::kData, "the run directory '" + path() + "' was " +
                                    (now.empty() ? "deleted" : "moved to '" + now + "'"));
}

void RunDirectory::write(const std::string& name, const std::string& text) const {
  require_in_place();
  directory_.write(name, text);
}

std::string make_run_path(std::string name, uint64_t seed) {
  std::ranges::replace(name, '/', '-');  // ids of Gymnasium have some
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
