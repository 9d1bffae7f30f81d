// Workers that are killed, stopped, crash, hang, exit or throw, and what the run makes of it.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "flotilla/core/clock.h"
#include "flotilla/core/rng.h"
#include "flotilla/domains/classic/classic.h"
#include "flotilla/env/random_run.h"
#include "support/build.h"

namespace flotilla {
namespace {

const Registry& registry() {
  static const Registry shipped = [] {
    Program program;
    register_classic(program);
    return program.registry;
  }();
  return shipped;
}

Config faulty_config(const std::vector<std::string>& overrides = {}) {
  Config config(registry().find("faulty").schema);
  for (const std::string& assignment : overrides) config.apply_override(assignment);
  return config;
}

VecOptions processes(int num_envs, int workers, OnFailure on_failure) {
  VecOptions options;
  options.backend = Backend::kProcesses;
  options.num_envs = num_envs;
  options.workers = workers;
  options.on_failure = on_failure;
  options.restart_budget = 10'000;
  options.stopped_grace_s = 0.05;
  return options;
}

RandomRun start(const Config& config, const VecOptions& options, uint64_t seed = 1) {
  return RandomRun(registry().find("faulty"), config, options, seed);
}

// Everything one step says about the envs, as bytes.
std::string image(RandomRun& run) {
  const StepView& v = run.view();
  const auto n = static_cast<size_t>(run.vec().num_envs());
  const EnvSpec& spec = run.vec().spec();
  std::string bytes(reinterpret_cast<const char*>(v.obs), n * spec.obs.row_bytes());
  bytes.append(reinterpret_cast<const char*>(v.reward), n * sizeof(float));
  for (const uint8_t* flags : {v.terminated, v.truncated, v.valid}) {
    bytes.append(reinterpret_cast<const char*>(flags), n);
  }
  return bytes.append(reinterpret_cast<const char*>(v.mask), n * spec.action.mask_size());
}

std::vector<std::string> undisturbed(const Config& config, VecOptions options, int steps) {
  options.backend = Backend::kSerial;
  RandomRun run = start(config, options);
  std::vector<std::string> images;
  for (int t = 0; t < steps; ++t) {
    run.step();
    images.push_back(image(run));
  }
  return images;
}

int open_files() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

bool has_children() { return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD; }

// Whether the process runs: not dead, not stopped. Leaves its state for the parent to collect.
bool is_running(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0) {
    return false;
  }
  return info.si_pid == 0;
}

int from_environment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : fallback;
}

TEST(ProcessFaults, RandomFaultsLeaveTheTrajectoryAlone) {
  // FLOTILLA_FAULTS: fewer for slow builds such as sanitizers.
  const int wanted = from_environment("FLOTILLA_FAULTS", 500);
  const Config config = faulty_config({"fault=throw", "fault_step=20", "fault_probability=0.001"});
  VecOptions options = processes(64, 4, OnFailure::kRestart);
  options.step_timeout_s = 30;
  const int files_before = open_files();
  int from_outside = 0, threw = 0, steps = 0;
  std::map<int, int> sent;
  std::set<pid_t> struck;
  std::vector<std::string> images;
  {
    RandomRun run = start(config, options);
    Rng rng(7, stream_of(Purpose::kTest, 0));
    const auto count_failures = [&] {
      for (const FailureReport& failure : run.vec().take_failures()) {
        failure.repeated ? ++from_outside : ++threw;
      }
    };
    while (from_outside + threw < wanted) {
      ASSERT_LT(steps, 200'000);
      // Half of the faults hit a worker at work: started here, finished below.
      if (rng.chance(0.2)) {
        const int kind = std::array{SIGKILL, SIGSEGV, SIGSTOP}[rng.below(3)];
        const std::vector<pid_t> pids = run.vec().worker_pids();
        const pid_t target = pids[rng.below(static_cast<uint32_t>(pids.size()))];
        // On a busy machine a signal takes a while: none is sent behind another one.
        if (is_running(target) && struck.insert(target).second) {
          ASSERT_EQ(kill(target, kind), 0);
          ++sent[kind];
        }
      }
      run.step();
      images.push_back(image(run));
      ++steps;
      count_failures();
    }
    // Faults that struck an idle worker show at its next step; nothing may be left over.
    for (int t = 0; t < 3; ++t, ++steps) {
      run.step();
      images.push_back(image(run));
    }
    count_failures();
    EXPECT_EQ(run.vec().restarts(), from_outside + threw);
  }
  EXPECT_EQ(from_outside, sent[SIGKILL] + sent[SIGSEGV] + sent[SIGSTOP]);
  EXPECT_GT(sent[SIGKILL], 0);
  EXPECT_GT(sent[SIGSEGV], 0);
  EXPECT_GT(sent[SIGSTOP], 0);
  EXPECT_GT(threw, 0);
  EXPECT_EQ(open_files(), files_before);
  EXPECT_FALSE(has_children());
  // Exceptions are part of the trajectory: the same in a serial run that nobody disturbs.
  EXPECT_EQ(images, undisturbed(config, options, steps));
  std::printf("%d steps, %d SIGKILL, %d SIGSEGV, %d SIGSTOP, %d exceptions\n", steps, sent[SIGKILL],
              sent[SIGSEGV], sent[SIGSTOP], threw);
}

// Kills that arrive in the middle of a step, in both groups.
TEST(ProcessFaults, KillsDuringAStepAreRepeated) {
  VecOptions options = processes(512, 2, OnFailure::kRestart);
  options.groups = 2;
  const Config config = faulty_config();
  ArenaLayout layout;
  const EnvType& type = registry().find("faulty");
  const EnvSpec spec = type.spec(config);
  const StepFields fields(layout, spec, options.num_envs, 1);
  const auto vec = make_vec_env(type, config, options, layout);
  const StepView view = fields.view(vec->arena(), 0);
  std::byte* actions = fields.actions(vec->arena(), 0);
  VecOptions serial = options;
  serial.backend = Backend::kSerial;
  RandomRun expected(type, config, serial, 3);
  Rng rng(8, stream_of(Purpose::kTest, 0));
  vec->reset(3, view);
  const auto n = static_cast<size_t>(options.num_envs);
  for (uint64_t t = 0; t < 60; ++t) {
    random_actions(spec, {0, options.num_envs}, 3, t, view.mask, actions);
    for (int g = 0; g < 2; ++g) vec->begin(g, {actions}, view);
    usleep(rng.below(60));
    kill(vec->worker_pids()[rng.below(2)], SIGKILL);
    for (const int g : {1, 0}) vec->wait(g);
    expected.step();
    ASSERT_EQ(std::memcmp(view.obs, expected.view().obs, n * spec.obs.row_bytes()), 0) << t;
    ASSERT_EQ(std::memcmp(view.reward, expected.view().reward, n * sizeof(float)), 0) << t;
    ASSERT_EQ(std::count(view.valid, view.valid + n, 1), options.num_envs) << t;
  }
  EXPECT_GT(vec->restarts(), 30);
}

struct OwnFault {
  const char* fault;
  const char* cause;
};
class OwnFaults : public testing::TestWithParam<OwnFault> {};

// An env that takes its worker down: its row is invalid, the others' are as if nothing happened.
TEST_P(OwnFaults, CostOneRow) {
  const Config config = faulty_config(
      {std::string("fault=") + GetParam().fault, "fault_step=10", "fault_probability=0.02"});
  VecOptions options = processes(6, 2, OnFailure::kRestart);
  if (std::string(GetParam().fault) == "hang") options.step_timeout_s = 0.5;
  RandomRun run = start(config, options);
  int failures = 0;
  // Exceptions fail at the same draws and recover the same way, so they are the twin.
  const Config twin = faulty_config({"fault=throw", "fault_step=10", "fault_probability=0.02"});
  VecOptions serial = options;
  serial.backend = Backend::kSerial;
  RandomRun expected = start(twin, serial);
  for (int t = 0; t < 40; ++t) {
    run.step();
    expected.step();
    ASSERT_EQ(image(run), image(expected)) << "step " << t;
    for (const FailureReport& failure : run.vec().take_failures()) {
      if (failure.repeated) continue;  // a worker that kills itself looks killed at first
      ++failures;
      EXPECT_NE(failure.cause.find(GetParam().cause), std::string::npos) << failure.cause;
      EXPECT_EQ(run.view().valid[failure.env], 0);
      EXPECT_GE(failure.step, 9u);
      EXPECT_NE(failure.action, "-");
    }
  }
  EXPECT_GT(failures, 0);
  EXPECT_EQ(failures, static_cast<int>(expected.vec().take_failures().size()));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, OwnFaults,
    testing::Values(OwnFault{"segv", "killed by signal 11 (SIGSEGV) at address 0x0"},
                    OwnFault{"abort", "killed by signal 6 (SIGABRT)"},
                    OwnFault{"exit", "exited with status 7"}, OwnFault{"hang", "hung for 0.5 s"},
                    OwnFault{"kill", "killed by signal 9 (SIGKILL)"},
                    OwnFault{"throw", "threw: faulty"}),
    [](const auto& info) { return std::string(info.param.fault); });

TEST(ProcessFaults, StopNamesTheEnvAndLeavesTheBatchUsable) {
  const Config config = faulty_config({"fault=segv", "fault_step=5"});
  RandomRun run = start(config, processes(3, 2, OnFailure::kStop), 42);
  for (int t = 0; t < 4; ++t) run.step();
  try {
    run.step();
    FAIL() << "no EnvFailure";
  } catch (const EnvFailure& failure) {
    EXPECT_EQ(failure.code(), ErrorCode::kEnvironment);
    EXPECT_EQ(failure.report().seed, 42u);
    EXPECT_EQ(failure.report().step, 4u);
    EXPECT_EQ(failure.report().episode, 0u);
    EXPECT_EQ(failure.report().phase, "step");
    const std::string text = failure.what();
    EXPECT_NE(text.find("SIGSEGV"), std::string::npos) << text;
    EXPECT_NE(text.find("seed=42"), std::string::npos) << text;
  }
  // All three were told to crash at their fifth step; a reset brings everything back.
  run.vec().reset(43, run.view());
  EXPECT_EQ(std::count(run.view().valid, run.view().valid + 3, 1), 3);
}

// Under `stop` nothing counts restarts, and still a worker that kills itself ends the run.
TEST(ProcessFaults, StopEndsARunWhoseWorkerKillsItself) {
  const Config config = faulty_config({"fault=kill", "fault_step=3"});
  RandomRun run = start(config, processes(3, 1, OnFailure::kStop));
  run.step();
  run.step();
  EXPECT_THROW(run.step(), EnvFailure);
}

// The group that is waited for is not the one that failed: action and bundle are the culprit's.
TEST(ProcessFaults, AFailureIsTheOneOfItsOwnGroup) {
  VecOptions options = processes(2, 1, OnFailure::kStop);
  options.groups = 2;
  options.crash_dir = testing::TempDir() + "flotilla-groups-" + std::to_string(getpid());
  const Config config = faulty_config({"fault=segv", "fault_step=3"});
  const EnvType& type = registry().find("faulty");
  const EnvSpec spec = type.spec(config);
  ArenaLayout layout;
  const StepFields fields(layout, spec, 2, 1);
  const auto vec = make_vec_env(type, config, options, layout);
  const StepView view = fields.view(vec->arena(), 0);
  auto* actions = reinterpret_cast<int32_t*>(fields.actions(vec->arena(), 0));
  const ActionView shown{reinterpret_cast<std::byte*>(actions)};
  vec->reset(0, view);
  // Group 0 is two steps ahead of group 1 when it fails. Choice 1 is masked after one step.
  for (const int choice : {0, 2}) {
    actions[0] = choice;
    vec->begin(0, shown, view);
    vec->wait(0);
  }
  actions[0] = 1;
  actions[1] = 2;
  vec->begin(0, shown, view);
  vec->begin(1, shown, view);
  // The worker may take either group first; mostly its death is noticed while group 1 is waited
  // for.
  for (const int g : {1, 0}) {
    try {
      vec->wait(g);
    } catch (const EnvFailure&) {
    }
  }
  const std::vector<FailureReport> failures = vec->take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].env, 0);
  EXPECT_EQ(failures[0].action, "1");
  EXPECT_EQ(failures[0].step, 2u);
  EXPECT_EQ(CrashBundle::read(failures[0].bundle).actions,
            (std::vector<std::vector<double>>{{0}, {2}, {1}}));
  std::filesystem::remove_all(options.crash_dir.path());
}

// Stopped for longer than the deadline and then continued, as by Ctrl-Z and fg: not a hang.
TEST(ProcessFaults, AStoppedWorkerThatGoesOnIsNotHung) {
  VecOptions options = processes(2, 1, OnFailure::kStop);
  options.step_timeout_s = 0.3;
  options.stopped_grace_s = 30;
  RandomRun run = start(faulty_config(), options);
  run.step();
  const pid_t worker = run.vec().worker_pids()[0];
  kill(worker, SIGSTOP);
  std::thread waker([worker] {
    usleep(600'000);
    kill(worker, SIGCONT);
  });
  EXPECT_NO_THROW(run.step());
  waker.join();
  EXPECT_EQ(run.vec().restarts(), 0);
}

TEST(ProcessFaults, AnIgnoredSigchldDoesNotHideTheCause) {
  std::signal(SIGCHLD, SIG_IGN);
  RandomRun run =
      start(faulty_config({"fault=segv", "fault_step=1"}), processes(1, 1, OnFailure::kStop));
  try {
    run.step();
    FAIL() << "no EnvFailure";
  } catch (const EnvFailure& failure) {
    EXPECT_NE(failure.report().cause.find("SIGSEGV"), std::string::npos) << failure.what();
  }
}

TEST(ProcessFaults, StopAfterAKillFromOutsideKeepsTheStep) {
  RandomRun run = start(faulty_config(), processes(4, 2, OnFailure::kStop));
  const std::vector<std::string> expected =
      undisturbed(faulty_config(), processes(4, 2, OnFailure::kStop), 2);
  run.step();
  kill(run.vec().worker_pids()[1], SIGKILL);
  EXPECT_THROW(run.step(), EnvFailure);
  EXPECT_EQ(image(run), expected[1]);
}

TEST(ProcessFaults, DropGoesOnWithoutTheEnv) {
  const Config config = faulty_config({"fault=exit", "fault_step=10", "fault_probability=0.01"});
  RandomRun run = start(config, processes(8, 3, OnFailure::kDrop));
  std::vector<bool> dropped(8);
  for (int t = 0; t < 60; ++t) {
    run.step();
    for (const FailureReport& failure : run.vec().take_failures()) {
      dropped[static_cast<size_t>(failure.env)] = true;
    }
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(run.view().valid[i], dropped[i] ? 0 : 1);
  }
  EXPECT_GT(std::ranges::count(dropped, true), 0);
  EXPECT_LT(std::ranges::count(dropped, true), 8);
}

TEST(ProcessFaults, BudgetEndsARunThatKeepsDying) {
  VecOptions options = processes(2, 1, OnFailure::kRestart);
  options.restart_budget = 3;
  const Config config = faulty_config({"fault=segv", "fault_step=1"});
  RandomRun run = start(config, options);
  try {
    for (int t = 0; t < 10; ++t) run.step();
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kEnvironment);
    EXPECT_NE(std::string(error.what()).find("the restart budget of 3 is used up"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(run.vec().restarts(), 4);
  // Who looks again finds no worker, and collects no child of others.
  const pid_t other = fork();
  if (other == 0) _exit(7);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(other), &info, WEXITED | WNOWAIT);
  EXPECT_THROW(run.vec().look_after(), Error);
  int status = 0;
  EXPECT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

// A crash in the reset that follows an episode's end inside a step.
TEST(ProcessFaults, CrashInResetIsRecovered) {
  const std::vector<std::string> rest = {"where=reset", "fault_probability=0.1", "time_limit=5"};
  const auto with_fault = [&rest](const char* fault) {
    std::vector<std::string> all = rest;
    all.insert(all.begin(), fault);
    return faulty_config(all);
  };
  const VecOptions options = processes(6, 2, OnFailure::kRestart);
  const std::vector<std::string> expected = undisturbed(with_fault("fault=throw"), options, 60);
  RandomRun run = start(with_fault("fault=segv"), options);
  int in_reset = 0;
  for (const std::string& step : expected) {
    run.step();
    ASSERT_EQ(image(run), step);
  }
  for (const FailureReport& failure : run.vec().take_failures()) {
    EXPECT_EQ(failure.phase, "reset");
    EXPECT_EQ(failure.action, "-");
    ++in_reset;
  }
  EXPECT_GT(in_reset, 3);
}

TEST(ProcessFaults, AnEnvThatCannotBeBuiltIsAStartError) {
  // The parent checks first, so the worker's own start is made to fail: a spec it cannot meet.
  VecOptions options = processes(2, 1, OnFailure::kRestart);
  options.start_timeout_s = 60;
  const EnvType& real = registry().find("faulty");
  EnvType unknown = real;
  unknown.name = "known_to_the_parent_only";
  ArenaLayout layout;
  try {
    make_vec_env(unknown, Config(real.schema), options, layout);
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("could not start: unknown environment"),
              std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(has_children());
}

TEST(ProcessFaults, CreateAndDestroyLeaveNothing) {
  const int files_before = open_files();
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    for (int i = 0; i < (test::kSanitized ? 4 : 10); ++i) {
      VecOptions options = processes(4, 2, OnFailure::kStop);
      options.start_method = method;
      RandomRun run = start(faulty_config(), options);
      run.step();
    }
  }
  EXPECT_EQ(open_files(), files_before);
  EXPECT_FALSE(has_children());
}

}  // namespace
}  // namespace flotilla
