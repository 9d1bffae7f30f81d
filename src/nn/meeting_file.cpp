#include "flotilla/nn/meeting_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "flotilla/core/clock.h"
#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/sha256.h"

namespace flotilla {
namespace {

constexpr const char* kPrefix = "meeting-";

// A folder of this user's alone, so that nobody else can put anything in its place.
std::string private_folder() {
  const char* base = std::getenv("TMPDIR");
  const std::string path =
      fmt::format("{}/flotilla-{}", base != nullptr ? base : "/tmp", ::getuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    throw_errno(ErrorCode::kInternal, "cannot make " + path);
  }
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) throw_errno(ErrorCode::kInternal, "cannot see " + path);
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::getuid() || (found.st_mode & 077) != 0) {
    throw Error(ErrorCode::kInternal, path + " is not a folder of this user alone");
  }
  return path;
}

// "PID.TIME", the time since the machine's start at which the process began; "" where there is
// none.
std::string birth_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The name, which may hold anything, ends at the last bracket; the state follows.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    fields >> field;
    if (i == 3 && field == "Z") return "";
  }
  return pid + "." + field;
}

bool is_alive(const std::string& birth) {
  return birth_of(birth.substr(0, birth.find('.'))) == birth;
}

// What the names of files of this id begin with.
std::string name_start(const std::string& id) {
  return kPrefix + sha256_hex(id).substr(0, 16) + ".";
}

// Whose processes have ended.
void remove_old(const std::string& folder) {
  for (const std::string& name : Directory(folder).names()) {
    const size_t dot = name.find('.');
    if (!name.starts_with(kPrefix) || dot == std::string::npos) continue;
    if (!is_alive(name.substr(dot + 1))) ::unlink((folder + "/" + name).c_str());
  }
}

// The one of a process that lives; "": there is none.
std::string find_file(const std::string& folder, const std::string& start) {
  for (const std::string& name : Directory(folder).names()) {
    if (name.starts_with(start) && is_alive(name.substr(start.size()))) return folder + "/" + name;
  }
  return "";
}

}  // namespace

MeetingFile::MeetingFile(const Launch& launch, double deadline_s) {
  const std::string folder = private_folder();
  const std::string start = name_start(launch.id);
  if (launch.rank == 0) {
    remove_old(folder);
    path_ = folder + "/" + start + birth_of(std::to_string(::getpid()));
    const int fd = ::open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) throw_errno(ErrorCode::kInternal, "cannot make " + path_);
    ::close(fd);
    return;
  }
  const uint64_t begin = now_ns();
  while ((path_ = find_file(folder, start)).empty()) {
    if (seconds_since(begin) > deadline_s) {
      throw Error(ErrorCode::kEnvironment,
                  fmt::format("rank 0 of {} has not come within {:g} s", launch.size, deadline_s));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool MeetingFile::exists(const std::string& id) {
  return !find_file(private_folder(), name_start(id)).empty();
}

void MeetingFile::remove() const { ::unlink(path_.c_str()); }

}  // namespace flotilla
