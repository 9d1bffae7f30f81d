#include "flotilla/core/alloc_count.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "flotilla/core/file.h"

namespace flotilla {
namespace {

constexpr const char* kObject = "libflotilla_alloc_count.so";
constexpr const char* kFunction = "flotilla_allocation_count";
constexpr const char* kPreload = "LD_PRELOAD";
// Tells the program that was started anew that it is, and what kPreload was before.
constexpr const char* kStartedAnew = "FLOTILLA_COUNTS_ALLOCATIONS";

#if defined(FLOTILLA_SANITIZED)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

using Count = uint64_t (*)();

Count counter() {
  static const auto found = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, kFunction));
  return found;
}

std::string find_object() {
  const std::string beside = find_beside_program(kObject);
  if (!beside.empty()) return beside;
  // The run path of the program is known to the loader alone.
  void* object = dlopen(kObject, RTLD_LAZY | RTLD_LOCAL);
  if (object == nullptr) return "";
  Dl_info info{};
  const bool known = dladdr(dlsym(object, kFunction), &info) != 0;
  const std::string path = known ? std::filesystem::absolute(info.dli_fname).string() : "";
  dlclose(object);
  return path;
}

void set_or_unset(const char* name, const std::string& value) {
  value.empty() ? unsetenv(name) : setenv(name, value.c_str(), 1);
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string each; std::getline(file, each, '\0');) arguments.push_back(each);
  return arguments;
}

}  // namespace

bool can_count_allocations() { return counter() != nullptr; }

uint64_t allocation_count() { return counter() == nullptr ? 0 : counter()(); }

void start_anew_counting() {
  if (const char* before = std::getenv(kStartedAnew); before != nullptr) {
    set_or_unset(kPreload, before);
    unsetenv(kStartedAnew);
    return;
  }
  if (kSanitized || can_count_allocations()) return;
  const std::string object = find_object();
  // Spaces and colons stand between the names of a list there.
  if (object.empty() || object.find_first_of(" :") != std::string::npos) return;
  const char* listed = std::getenv(kPreload);
  const std::string before = listed != nullptr ? listed : "";
  setenv(kStartedAnew, before.c_str(), 1);
  set_or_unset(kPreload, before.empty() ? object : object + ":" + before);
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execv("/proc/self/exe", argv.data());
  set_or_unset(kPreload, before);
  unsetenv(kStartedAnew);
}

std::string why_not_counted() {
  if (kSanitized) return "not counted under a sanitizer";
  const std::string object = find_object();
  if (object.empty()) {
    return std::string("not counted: no ") + kObject + " beside the program or in its run path";
  }
  return "not counted: " + object + " is not loaded; LD_PRELOAD does it";
}

}  // namespace flotilla
