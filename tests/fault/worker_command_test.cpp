// Workers that are another program than the one that started them.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "flotilla/env/worker_process.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

constexpr const char* kMark = "FLOTILLA_TEST_WORKER=another";

VecOptions with_command(std::vector<std::string> command) {
  VecOptions options = serial(5);
  options.backend = Backend::kProcesses;
  options.workers = 2;
  options.worker_command = std::move(command);
  return options;
}

bool has_mark(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/environ", std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  return all.find(kMark) != std::string::npos;
}

// `env` starts the workers, with a mark by which they can be told.
TEST(WorkerCommand, StartsTheWorkers) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  VecOptions options = with_command({"env", kMark, self});
  options.on_failure = OnFailure::kRestart;
  Batch batch("cartpole", {}, options), expected("cartpole", {}, serial(5));
  batch.reset(3);
  expected.reset(3);
  for (uint64_t t = 0; t < 40; ++t) {
    if (t == 20) {  // their successors are started in the same way
      for (const pid_t pid : batch.vec().worker_pids()) kill(pid, SIGKILL);
    }
    batch.step_randomly(5, t);
    expected.step_randomly(5, t);
    ASSERT_EQ(batch.rows(), expected.rows()) << "step " << t;
    for (const pid_t pid : batch.vec().worker_pids()) ASSERT_TRUE(has_mark(pid)) << "step " << t;
  }
  EXPECT_EQ(batch.vec().restarts(), 2);
}

TEST(WorkerCommand, OneForAllIsTakenWhereNoneIsGiven) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  set_worker_program({"env", kMark, self});
  Batch batch("cartpole", {}, with_command({}));
  set_worker_program({self});
  for (const pid_t pid : batch.vec().worker_pids()) EXPECT_TRUE(has_mark(pid));
}

TEST(WorkerCommand, HasToServeAsAWorker) {
  const auto refusal = [](ErrorCode code, const std::vector<std::string>& command) {
    return error_text(code, [&] { Batch("cartpole", {}, with_command(command)); });
  };
  EXPECT_EQ(refusal(ErrorCode::kUsage, {"/nowhere/worker"}),
            "cannot start a worker process with '/nowhere/worker': No such file or directory");
  EXPECT_EQ(refusal(ErrorCode::kEnvironment, {"true"}),
            "worker 0 of 'cartpole' exited with status 0 while starting: 'true' does not serve as "
            "a worker");
  EXPECT_EQ(refusal(ErrorCode::kInternal, {"sh", "-c", "exit 70"}),
            "worker 0 of 'cartpole' exited with status 70 while starting: the system refused it "
            "memory");
}

TEST(WorkerCommand, CannotBeForked) {
  VecOptions options = with_command({"env"});
  options.start_method = StartMethod::kFork;
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { Batch("cartpole", {}, options); }),
            "start_method: expected spawn, for workers are another program");
}

}  // namespace
}  // namespace flotilla::test
