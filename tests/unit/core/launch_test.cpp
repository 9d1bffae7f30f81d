// What launchers say by variables.
#include "flotilla/core/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "support/error_text.h"

namespace flotilla::test {
namespace {

using Set = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Set& set) {
  return launch_from([&](const char* name) -> std::optional<std::string> {
    const auto found = set.find(name);
    if (found == set.end()) return std::nullopt;
    return found->second;
  });
}

TEST(Launch, IsNoneWhereOneProcessWasStarted) {
  EXPECT_FALSE(launch_of({}));
  EXPECT_FALSE(launch_of({{"WORLD_SIZE", "1"}, {"RANK", "0"}}));
  EXPECT_FALSE(launch_of({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}));
  // A batch script of Slurm, in which no step runs.
  EXPECT_FALSE(launch_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(Launch, OfTorchrun) {
  const auto launch = launch_of({{"RANK", "3"},
                                 {"WORLD_SIZE", "4"},
                                 {"LOCAL_WORLD_SIZE", "2"},
                                 {"LOCAL_RANK", "1"},
                                 {"MASTER_ADDR", "10.0.0.1"},
                                 {"MASTER_PORT", "29500"},
                                 {"TORCHELASTIC_RUN_ID", "none"},
                                 {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->local_size, 2);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->address, "10.0.0.1");
  EXPECT_EQ(launch->port, 29500);
  EXPECT_FALSE(launch->one_host());
  EXPECT_TRUE(launch->id.starts_with("none.2.29500."));
}

TEST(Launch, OfMpirunOnOneHostNeedsNoAddress) {
  const auto launch = launch_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                 {"OMPI_COMM_WORLD_SIZE", "3"},
                                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}});
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_TRUE(launch->one_host());
}

TEST(Launch, OfSrun) {
  Set set = {{"SLURM_PROCID", "2"},   {"SLURM_STEP_NUM_TASKS", "6"},
             {"SLURM_STEP_ID", "0"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
             {"SLURM_JOB_ID", "99"},  {"MASTER_ADDR", "node1"},
             {"MASTER_PORT", "29500"}};
  const auto launch = launch_of(set);
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 2);
  EXPECT_EQ(launch->size, 6);
  EXPECT_EQ(launch->local_size, 2);
  set.erase("MASTER_ADDR");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { launch_of(set); }),
            "MASTER_ADDR is not set, though SLURM_STEP_ID is");
}

TEST(Launch, ProcessesOfAHostShareItsGpus) {
  EXPECT_EQ(own_gpu(0, {}, 0), std::nullopt) << "no GPU";
  EXPECT_EQ(own_gpu(3, {}, 1), std::nullopt) << "all take the one that there is";
  EXPECT_EQ(own_gpu(0, {}, 4), "0");
  EXPECT_EQ(own_gpu(5, {}, 4), "1") << "more processes than GPUs";
  EXPECT_EQ(own_gpu(1, "3,GPU-5f", 8), "GPU-5f") << "of those that may be used";
  EXPECT_EQ(own_gpu(1, "3", 8), std::nullopt) << "the launcher gave each its own";
  EXPECT_EQ(own_gpu(1, "", 8), std::nullopt) << "none may be used";
}

TEST(Launch, HasTheIdThatItWasGiven) {
  const Set set = {{"RANK", "0"},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_WORLD_SIZE", "2"},
                   {"FLOTILLA_START_ID", "of mine"}};
  EXPECT_EQ(launch_of(set)->id, "of mine");
}

TEST(Launch, ByHandOnLoopbackIsOneHost) {
  Set set = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}};
  EXPECT_TRUE(launch_of(set)->one_host());
  set["MASTER_ADDR"] = "192.168.0.7";
  EXPECT_FALSE(launch_of(set)->one_host());
}

TEST(Launch, NamesWhatIsMissingOrNoNumber) {
  const auto refusal = [](const Set& set) {
    return error_text(ErrorCode::kUsage, [&] { launch_of(set); });
  };
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}}), "RANK is not set, though WORLD_SIZE is");
  EXPECT_EQ(refusal({{"RANK", "1"}, {"MASTER_ADDR", "a"}}),
            "WORLD_SIZE is not set, though RANK is");
  EXPECT_FALSE(launch_of({{"RANK", "1"}})) << "a variable of somebody else, as it seems";
  EXPECT_EQ(refusal({{"WORLD_SIZE", "two"}}),
            "WORLD_SIZE: expected a number from 1 to 1048576, not 'two'");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}, {"RANK", "2"}}),
            "RANK: expected a number from 0 to 1, not '2'");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}, {"RANK", "1"}}),
            "MASTER_ADDR is not set, though WORLD_SIZE is");
  EXPECT_EQ(
      refusal({{"WORLD_SIZE", "2"}, {"RANK", "1"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "0"}}),
      "MASTER_PORT: expected a number from 1 to 65535, not '0'");
}

}  // namespace
}  // namespace flotilla::test
