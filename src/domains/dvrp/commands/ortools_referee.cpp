#include "flotilla/domains/dvrp/commands/ortools_referee.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/subprocess.h"
#include "flotilla/core/system.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/data/instance_file.h"
#include "flotilla/domains/dvrp/routing/routes_file.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScript = "ortools_referee.py";

std::string own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

// Of a line that the referee printed.
dvrp::Tour tour_in(const std::string& line) {
  const Json result = Json::try_parse(line).value_or(Json());
  const Json* cost = result.find("cost");
  if (cost == nullptr || !cost->is_number()) {
    throw Error(ErrorCode::kUsage, "the referee printed no cost but: " + line);
  }
  return {.routes = dvrp::decode_routes(line, "the referee"), .cost = cost->get<double>()};
}

// A line per instance, in a file of its own as long as it is needed.
class InstanceFile {
 public:
  explicit InstanceFile(std::span<const dvrp::Instance> instances) {
    std::string text, name = temporary_path("flotilla-referee");
    for (const dvrp::Instance& instance : instances) {
      text += Json::parse(encode_full_instance(instance)).dump() + "\n";
    }
    const int fd = mkstemp(name.data());
    if (fd < 0) throw Error(ErrorCode::kInternal, "cannot make a temporary file");
    ::close(fd);
    path_ = name;
    if (!(std::ofstream(path_) << text).flush()) {
      throw Error(ErrorCode::kInternal, "cannot write " + path_);
    }
  }
  ~InstanceFile() { std::remove(path_.c_str()); }
  InstanceFile(const InstanceFile&) = delete;
  InstanceFile& operator=(const InstanceFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<dvrp::Tour> ask(const OrToolsOptions& options,
                            std::span<const dvrp::Instance> instances, uint64_t seed) {
  const InstanceFile file(instances);
  std::vector<std::string> command = {options.python, options.script, file.path()};
  const auto add = [&command](const char* option, const std::string& value) {
    command.insert(command.end(), {option, value});
  };
  add("--seconds", fmt::to_string(options.seconds));
  add("--seeds", std::to_string(options.seeds));
  add("--first-seed", std::to_string(seed * static_cast<uint64_t>(options.seeds)));
  add("--flotilla", own_program());
  if (!options.data.empty()) add("--data", options.data);
  const Ended ended = run_to_end(command);
  if (ended.status != 0) {
    throw Error(ErrorCode::kUsage, "the referee failed: " + join(command, " "));
  }
  std::vector<dvrp::Tour> tours;
  std::istringstream lines(ended.output);
  for (std::string line; std::getline(lines, line);) tours.push_back(tour_in(line));
  if (tours.size() != instances.size())
    throw Error(ErrorCode::kInternal, "the referee lost instances");
  return tours;
}

// Before anything is judged, which takes long.
void require_installed(const std::string& python) {
  const char* look =
      "import importlib.util, sys; sys.exit(importlib.util.find_spec('ortools') is None)";
  if (run_to_end({python, "-c", look}).status == 0) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("OR-Tools is not installed for {0}: {0} -m pip install ortools, or name "
                          "a Python that has it with --python",
                          python));
}

}  // namespace

dvrp::Referee make_ortools_referee(OrToolsOptions options) {
  if (options.script.empty()) options.script = find_asset(kScript);
  if (!fs::exists(options.script)) {
    const std::string missing = options.script.empty() ? kScript : options.script;
    throw Error(ErrorCode::kUsage, "there is no referee '" + missing + "'");
  }
  require_installed(options.python);
  return [options](std::span<const dvrp::Instance> instances, uint64_t seed) {
    const auto parts = static_cast<size_t>(options.processes);
    std::vector<std::future<std::vector<dvrp::Tour>>> asked;
    for (size_t part = 0; part < parts; ++part) {
      const size_t begin = instances.size() * part / parts,
                   end = instances.size() * (part + 1) / parts;
      if (begin == end) continue;
      asked.push_back(std::async(std::launch::async, [&options, instances, begin, end, seed] {
        return ask(options, instances.subspan(begin, end - begin), seed);
      }));
    }
    std::vector<dvrp::Tour> tours;
    for (auto& each : asked) {
      const std::vector<dvrp::Tour> part = each.get();
      tours.insert(tours.end(), part.begin(), part.end());
    }
    return tours;
  };
}

}  // namespace flotilla
