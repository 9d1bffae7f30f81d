#include "flotilla/train/sweep.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/train/run.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

// The folder that all runs lie in, removed at the end unless the user named it.
class Folder {
 public:
  explicit Folder(const std::string& path) : path_(path), is_temporary_(path.empty()) {
    if (is_temporary_) {
      path_ = temporary_path("flotilla-sweep");
      if (::mkdtemp(path_.data()) == nullptr)
        throw_errno(ErrorCode::kUsage, "cannot make " + path_);
      return;
    }
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) throw Error(ErrorCode::kUsage, "cannot make '" + path_ + "': " + error.message());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(path_, ignored);
  }

  bool is_temporary() const { return is_temporary_; }
  std::string of(uint64_t seed) const { return fmt::format("{}/seed{}", path_, seed); }
  // A run that nobody is to look at takes no room after its end.
  void drop(uint64_t seed) const {
    std::error_code ignored;
    if (is_temporary_) fs::remove_all(of(seed), ignored);
  }

 private:
  std::string path_;
  bool is_temporary_;
};

SeedResult train_seed(const EnvType& type, Config config, const Algorithms& algorithms,
                      const PolicyFactory& policy_factory, uint64_t seed,
                      const std::string& directory) {
  config.set("seed", std::to_string(seed));
  SeedResult result;
  result.seed = seed;
  try {
    RunConfig of_seed(type, config, algorithms);
    of_seed.policy_factory = policy_factory;
    Run run(of_seed, directory, algorithms);
    run.train();
    run.finish();
    result.score = run.evaluation().mean;
    const EnvSpec& spec = run.trainer().env_spec();
    for (size_t i = 0; i < spec.metrics.size(); ++i) {
      result.metrics.emplace_back(spec.metrics[i], run.evaluation().metrics[i]);
    }
    result.steps = run.trainer().progress().steps;
    result.wall_s = run.wall_s();
    result.kernel = run.trainer().implementation();
    result.config_sha256 = run.config().config.sha256();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInterrupted || error.code() == ErrorCode::kUsage) throw;
    result.error = error.what();
  }
  return result;
}

// What an interrupted run says is of no use where the run is about to be removed.
[[noreturn]] void rethrow(const std::exception_ptr& failure, const Folder& folder) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted || !folder.is_temporary()) throw;
    throw Error(error.code(), "interrupted; the runs are kept only where --out names a directory");
  }
}

}  // namespace

std::vector<SeedResult> sweep(const EnvType& type, const Config& config,
                              const Algorithms& algorithms, const SweepOptions& options,
                              const std::function<void(const SeedResult&)>& after) {
  Config single = config;
  single.set("threads", "1");  // does not change the result
  if (single.get_integer("eval.episodes") == 0) {
    throw Error(ErrorCode::kUsage, "eval.episodes: a score needs at least one");
  }
  const Folder folder(options.directory);
  std::vector<SeedResult> results(static_cast<size_t>(options.seeds));
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (size_t i; (i = next++) < results.size();) {
      const uint64_t seed = options.first_seed + i;
      try {
        results[i] =
            train_seed(type, single, algorithms, options.policy_factory, seed, folder.of(seed));
        folder.drop(seed);
        const std::lock_guard lock(mutex);
        if (after) after(results[i]);
      } catch (...) {
        next = results.size();  // the others end with what they are at
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 1; i < options.at_once; ++i) workers.emplace_back(work);
    work();
  }
  if (failure) rethrow(failure, folder);
  return results;
}

}  // namespace flotilla
