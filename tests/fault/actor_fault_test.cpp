// Actors whose worker processes are killed while they run ahead of the learner.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "flotilla/core/rng.h"
#include "flotilla/domains/classic/classic.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"

namespace flotilla {
namespace {

RunConfig run_config(const std::vector<std::string>& more, const std::string& env = "catch") {
  static const Registry registry = [] {
    Program program;
    register_classic(program);
    return program.registry;
  }();
  std::vector<std::string> settings = {"algo=appo",
                                       "backend=actors",
                                       "actors=8",
                                       "num_envs=32",
                                       "n_steps=16",
                                       "async.schedule=fixed",
                                       "async.lag=1",
                                       "net.hidden=16",
                                       "appo.n_epochs=1",
                                       "restart_budget=100000",
                                       "on_env_failure=restart",
                                       "crash_dir="};
  settings.insert(settings.end(), more.begin(), more.end());
  const Config config = load_run_config(registry, env, true, settings);
  return RunConfig(env_of(registry, config), config);
}

pid_t parent_of(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::atoi(line.c_str() + 5));
  }
  return 0;
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  DIR* processes = opendir("/proc");
  while (const dirent* entry = readdir(processes)) {
    const std::string name = entry->d_name;
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    if (parent_of(name) == getpid()) pids.push_back(static_cast<pid_t>(std::stoi(name)));
  }
  closedir(processes);
  return pids;
}

// Kills a child now and then, on its own thread, but of an update at most two: a run gives up where
// the same work is killed again and again.
class Killer {
 public:
  Killer() : thread_([this] { kill_some(); }) {}
  ~Killer() { stop(); }
  void update_is_over() { allowed_ = kKillsOfAnUpdate; }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int kills() const { return kills_; }

 private:
  void kill_some() {
    Rng rng(3, stream_of(Purpose::kTest, 0));
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10 + rng.below(60)));
      const std::vector<pid_t> pids = children();
      if (pids.empty() || allowed_ == 0) continue;
      const pid_t victim = pids[rng.below(static_cast<uint32_t>(pids.size()))];
      if (kill(victim, SIGKILL) != 0) continue;
      --allowed_;
      ++kills_;
    }
  }

  static constexpr int kKillsOfAnUpdate = 2;
  std::atomic<bool> stop_{false};
  std::atomic<int> kills_{0}, allowed_{kKillsOfAnUpdate};
  std::thread thread_;
};

TEST(ActorFaults, KilledWorkersChangeNothing) {
  const char* asked = std::getenv("FLOTILLA_FAULTS");
  const int wanted = std::min(200, asked != nullptr ? std::atoi(asked) : 200);
  std::string found;
  int64_t failures = 0;
  int updates = 0, kills = 0;
  {
    Trainer trainer(run_config({"threads=2", "workers=4"}));
    Killer killer;
    while (killer.kills() < wanted) {
      trainer.iterate();
      killer.update_is_over();
      ++updates;
      ASSERT_LT(updates, 200'000);
    }
    killer.stop();
    kills = killer.kills();
    trainer.iterate();
    ++updates;
    failures = trainer.progress().env_failures;
    found = trainer.params_sha256();
  }
  EXPECT_TRUE(children().empty());
  EXPECT_GT(failures, wanted / 2);  // one that is killed while it starts is not counted
  Trainer twin(run_config({"threads=1"}));
  for (int i = 0; i < updates; ++i) twin.iterate();
  EXPECT_EQ(found, twin.params_sha256());
  std::printf("%d updates, %d kills, %d failures\n", updates, kills, static_cast<int>(failures));
}

// As with processes: the rows of envs that crashed are left out, and this program goes on.
TEST(ActorFaults, AnEnvThatCrashesInAnEvaluationCostsItsRow) {
  const std::vector<std::string> crashing = {"env.fault=segv", "env.fault_step=50",
                                             "env.fault_probability=0.02", "workers=2",
                                             "eval.episodes=6"};
  const auto evaluated = [&](const std::string& backend) {
    std::vector<std::string> settings = crashing;
    settings.push_back(backend);
    return Trainer(run_config(settings, "faulty")).evaluate();
  };
  const Evaluation found = evaluated("backend=actors"), expected = evaluated("backend=processes");
  EXPECT_EQ(found.episodes, 6);
  EXPECT_EQ(found.mean, expected.mean);
  EXPECT_EQ(found.mean_length, expected.mean_length);
}

}  // namespace
}  // namespace flotilla
