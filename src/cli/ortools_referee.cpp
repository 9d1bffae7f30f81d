#include "flotilla/cli/ortools_referee.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/domains/dvrp/instance_file.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

fs::path own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

std::string run(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw Error(ErrorCode::kInternal, "cannot run " + command);
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    output.append(buffer, n);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(ErrorCode::kUsage, "the referee failed: " + command);
  }
  return output;
}

// A line per instance, in a file of its own as long as it is needed.
class InstanceFile {
 public:
  explicit InstanceFile(std::span<const dvrp::Instance> instances) {
    std::string text, name = (fs::temp_directory_path() / "flotilla-referee-XXXXXX").string();
    for (const dvrp::Instance& instance : instances) {
      text += nlohmann::json::parse(encode_full_instance(instance)).dump() + "\n";
    }
    const int fd = mkstemp(name.data());
    if (fd < 0) throw Error(ErrorCode::kInternal, "cannot make a temporary file");
    ::close(fd);
    path_ = name;
    write_file(path_, text, false);
  }
  ~InstanceFile() { std::remove(path_.c_str()); }
  InstanceFile(const InstanceFile&) = delete;
  InstanceFile& operator=(const InstanceFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<double> ask(const OrToolsOptions& options, std::span<const dvrp::Instance> instances,
                        uint64_t seed) {
  const InstanceFile file(instances);
  const std::string data = options.data.empty() ? "" : "--data " + quoted(options.data);
  const std::string output = run(fmt::format(
      "{} {} {} --seconds {} --seeds {} --first-seed {} --flotilla {} {}", quoted(options.python),
      quoted(options.script), quoted(file.path()), options.seconds, options.seeds,
      seed * static_cast<uint64_t>(options.seeds), quoted(own_program().string()), data));
  std::vector<double> costs;
  for (size_t at = 0; at < output.size();) {
    const size_t end = output.find('\n', at);
    costs.push_back(nlohmann::json::parse(output.substr(at, end - at)).at("cost").get<double>());
    at = end == std::string::npos ? output.size() : end + 1;
  }
  if (costs.size() != instances.size())
    throw Error(ErrorCode::kInternal, "the referee lost instances");
  return costs;
}

}  // namespace

dvrp::Referee make_ortools_referee(OrToolsOptions options) {
  if (options.script.empty()) {
    options.script =
        (own_program().parent_path().parent_path().parent_path() / "bench/peers/ortools_referee.py")
            .string();
  }
  if (!fs::exists(options.script)) {
    throw Error(ErrorCode::kUsage, "there is no referee '" + options.script + "'");
  }
  return [options](std::span<const dvrp::Instance> instances, uint64_t seed) {
    const auto parts = static_cast<size_t>(options.processes);
    std::vector<std::future<std::vector<double>>> asked;
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = instances.size() * part / parts,
                   end = instances.size() * (part + 1) / parts;
      if (begin == end) continue;
      asked.push_back(std::async(std::launch::async, [&options, instances, begin, end, seed] {
        return ask(options, instances.subspan(begin, end - begin), seed);
      }));
    }
    std::vector<double> costs;
    for (auto& each : asked) {
      const std::vector<double> part = each.get();
      costs.insert(costs.end(), part.begin(), part.end());
    }
    return costs;
  };
}

}  // namespace flotilla
