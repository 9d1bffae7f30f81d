#include "flotilla/core/system.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// The number in a one-number file, or `fallback` for a missing file or a word such as "max".
uint64_t read_number(const std::string& path, uint64_t fallback) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : fallback;
}

uint64_t meminfo_available() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:") return kib * 1024;
    std::getline(file, unit);
  }
  return kUnlimited;
}

uint64_t cgroup_available() {
  const std::string root = "/sys/fs/cgroup/";
  const uint64_t limit = read_number(root + "memory.max", kUnlimited);
  if (limit == kUnlimited) return kUnlimited;
  const uint64_t used = read_number(root + "memory.current", 0);
  return limit > used ? limit - used : 0;
}

std::string& the_program_name() {
  static std::string name = "flotilla";
  return name;
}

std::atomic<int> g_interrupts{0};
std::atomic<unsigned> g_grace_s{0};
std::atomic<const char*> g_notice{nullptr};

// For signal handlers.
void write_now(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

// For SIGINT, SIGTERM, SIGHUP, and the alarm that the first of them sets.
void on_interrupt(int signal) {
  const int error = errno;
  if (g_interrupts.fetch_add(1) > 0) {
    write_now(live_line_end());
    if (signal == SIGALRM) {
      write_now(
          "flotilla: interrupted, but did not end in time: stopped; a run goes on from its last "
          "checkpoint, where it has one (--resume)\n");
    }
    _exit(exit_status(ErrorCode::kInterrupted));
  }
  if (const char* notice = g_notice.load()) {
    const char* end = live_line_end();
    write_now(*end == '\0' ? "\n" : end);  // behind the ^C that a terminal writes
    write_now(notice);
  }
  alarm(g_grace_s.load());
  errno = error;
}

std::mutex g_listening;
int g_listeners = 0;
struct sigaction g_heard_before {};

// Of an InterruptListener. Whoever sees the interrupt finds that those before have heard of it.
void pass_on_interrupt(int signal, siginfo_t* facts, void* context) {
  if ((g_heard_before.sa_flags & SA_SIGINFO) != 0) {
    g_heard_before.sa_sigaction(signal, facts, context);
  } else if (g_heard_before.sa_handler != SIG_DFL && g_heard_before.sa_handler != SIG_IGN) {
    g_heard_before.sa_handler(signal);
  }
  g_interrupts.fetch_add(1);
}

// The cores that servers have; others by their numbers.
std::string arm_model(const std::string& designer, const std::string& part) {
  static const std::map<std::string, std::string> kOfArm = {
      {"0xd08", "Cortex-A72"},  {"0xd0c", "Neoverse-N1"}, {"0xd40", "Neoverse-V1"},
      {"0xd49", "Neoverse-N2"}, {"0xd4f", "Neoverse-V2"}, {"0xd84", "Neoverse-V3"},
      {"0xd8e", "Neoverse-N3"}};
  const auto known = kOfArm.find(part);
  if (designer == "0x41" && known != kOfArm.end()) return "ARM " + known->second;
  return "ARM, designer " + designer + ", part " + part;
}

}  // namespace

std::vector<int> own_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

int cpu_count() { return static_cast<int>(own_cpus().size()); }

void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  std::string designer;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    // An ARM says numbers only.
    if (line.starts_with("CPU implementer")) designer = line.substr(line.find(':') + 2);
    if (line.starts_with("CPU part")) {
      return arm_model(designer, line.substr(line.find(':') + 2));
    }
  }
  return "unknown";
}

std::string gpu_model() {
  std::error_code error;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    std::ifstream file(gpu.path() / "information");
    std::string line;
    while (std::getline(file, line)) {
      if (!line.starts_with("Model:")) continue;
      const size_t at = line.find_first_not_of(" \t", 6);
      return at == std::string::npos ? "" : line.substr(at);
    }
  }
  return "";
}

std::string cpu_features() {
  std::vector<std::string> found;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) found.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) found.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) found.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bw")) found.emplace_back("avx512bw");
#elif defined(__aarch64__)
  found.emplace_back("neon");
#endif
  return found.empty() ? "baseline" : join(found, " ");
}

const std::string& program_name() { return the_program_name(); }
void set_program_name(std::string name) { the_program_name() = std::move(name); }

uint64_t available_memory_bytes() { return std::min(meminfo_available(), cgroup_available()); }

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

std::string find_asset(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  std::vector<fs::path> places;
  if (const char* asked = std::getenv("FLOTILLA_ASSETS")) places.emplace_back(asked);
  // An installation, and a test program of a build; the program in its build folder.
  places.push_back(folder.parent_path() / "share" / "flotilla");
  places.push_back(folder / "share" / "flotilla");
  if (const fs::path code = code_folder(); !code.empty()) places.push_back(code / "share");
  for (const fs::path& place : places) {
    if (fs::exists(place / name, error)) return (place / name).string();
  }
  return "";
}

void require_memory(uint64_t bytes, const std::string& what) {
  const uint64_t available = available_memory_bytes();
  if (bytes > available) {
    throw Error(ErrorCode::kUsage, what + " needs " + human_bytes(bytes) + " of memory; " +
                                       human_bytes(available) + " are available");
  }
}

void install_interrupt_handler(unsigned grace_s) {
  g_grace_s.store(grace_s);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : {SIGINT, SIGTERM, SIGALRM}) sigaction(signal, &action, nullptr);
  struct sigaction before {};
  sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // not under nohup
}

InterruptListener::InterruptListener() {
  const std::lock_guard lock(g_listening);
  if (g_listeners++ > 0) return;
  sigaction(SIGINT, nullptr, &g_heard_before);
  struct sigaction action {};
  action.sa_sigaction = pass_on_interrupt;
  action.sa_flags = SA_SIGINFO | (g_heard_before.sa_flags & SA_ONSTACK);
  sigaction(SIGINT, &action, nullptr);
}

InterruptListener::~InterruptListener() {
  const std::lock_guard lock(g_listening);
  if (--g_listeners > 0) return;
  sigaction(SIGINT, &g_heard_before, nullptr);
  g_interrupts.store(0);
}

void wait_for_interrupted_work(const char* notice) {
  g_grace_s.store(0);  // alarm(0) sets none
  g_notice.store(notice);
}

bool interrupted() { return g_interrupts.load(std::memory_order_relaxed) > 0; }

void stop_if_interrupted() {
  if (interrupted()) throw Error(ErrorCode::kInterrupted, "interrupted");
}

}  // namespace flotilla
