// metrics.jsonl: what is cut off when a run goes on from a checkpoint.
#include "flotilla/train/metrics.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/error_text.h"

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

class MetricsTest : public testing::Test {
 protected:
  MetricsTest()
      : directory_(fs::temp_directory_path() / ("flotilla-metrics-" + std::to_string(getpid()))) {
    fs::create_directories(directory_);
  }
  ~MetricsTest() override { fs::remove_all(directory_); }

  std::string path() const { return directory_ / "metrics.jsonl"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string read() const { return read_whole_file(path(), 1 << 20); }

  const fs::path directory_;
};

std::string line(int step) {
  return "{\"step\": " + std::to_string(step) + ", \"charts/SPS\": 1e3}\n";
}

TEST_F(MetricsTest, AFileCutAtAnyByteKeepsItsWholeLines) {
  const std::string whole = line(10) + line(20) + line(30) + line(40);
  for (size_t length = 0; length <= whole.size(); ++length) {
    write(whole.substr(0, length));
    cut_metrics(directory_.string(), 30);
    const size_t lines = std::min<size_t>(length / line(10).size(), 3);
    EXPECT_EQ(read(), whole.substr(0, lines * line(10).size())) << "from " << length << " bytes";
  }
}

TEST_F(MetricsTest, NothingBehindTheCheckpointIsKept) {
  for (const char* strange : {"\n", "{}\n", "{\"step\": \"20\"}\n", "[20]\n", "{\"step\": 20\n"}) {
    write(line(10) + strange + line(30));
    cut_metrics(directory_.string(), 10);
    EXPECT_EQ(read(), line(10)) << strange;
  }
}

TEST_F(MetricsTest, ADamagedLineBeforeItIsRefusedAndNothingLost) {
  for (const char* strange : {"\n", "{}\n", "{\"step\": \"20\"}\n", "[20]\n", "{\"step\": 20\n"}) {
    const std::string text = line(10) + strange + line(30);
    write(text);
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { cut_metrics(directory_.string(), 30); }),
              path() +
                  ":2: is damaged; what is behind it would be lost: mend or remove this line, "
                  "or move the file away");
    EXPECT_EQ(read(), text) << strange;
  }
}

TEST_F(MetricsTest, LinesThatAreThereTwiceOrSwappedAreRefused) {
  const auto refusal = [this](const std::string& text) {
    write(text);
    const std::string error =
        error_text(ErrorCode::kData, [&] { cut_metrics(directory_.string(), 30); });
    EXPECT_EQ(read(), text);
    return error;
  };
  const std::string end = ": mend or remove this line, or move the file away";
  EXPECT_EQ(refusal(line(10) + line(20) + line(20) + line(30)),
            path() + ":3: step 20 comes after step 20" + end);
  EXPECT_EQ(refusal(line(20) + line(10) + line(30)),
            path() + ":2: step 10 comes after step 20" + end);
}

TEST_F(MetricsTest, ALineWithoutEndIsRefusedAndNothingLost) {
  const std::string text = line(10) + "{\"step\": 20, \"" + std::string(17 << 20, 'x') + "\": 1}\n";
  write(text + line(30));
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { cut_metrics(directory_.string(), 30); }),
            path() +
                ":2: is longer than 16777216 bytes: mend or remove this line, or move the file "
                "away");
  EXPECT_EQ(fs::file_size(path()), text.size() + line(30).size());
}

TEST_F(MetricsTest, AReadThatFailsIsNoEndOfTheFile) {
  write(line(10));
  // Nothing is mapped at its beginning, so to read there is an input/output error.
  if (mount("/proc/self/mem", path().c_str(), nullptr, MS_BIND, nullptr) != 0) {
    GTEST_SKIP() << "no file can be mounted here";
  }
  const std::string expected = "cannot read " + path() + ": Input/output error";
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { require_whole_metrics(directory_.string(), 10); }),
            expected);
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { has_metrics(directory_.string()); }), expected);
  umount2(path().c_str(), MNT_DETACH);
}

TEST_F(MetricsTest, WhatIsWrittenIsThere) {
  Progress progress;
  progress.steps = 64;
  progress.updates = 1;
  progress.episodes = 3;
  {
    MetricsLog log(directory_.string(), 0);
    log.write(progress, 0.5, {{"charts/SPS", 128.25}, {"a \"b\"", std::nan("")}});
  }
  const std::string first =
      "{\"step\": 64, \"update\": 1, \"episodes\": 3, \"wall_s\": 0.5, \"charts/SPS\": 128.25, "
      "\"a \\\"b\\\"\": null}\n";
  EXPECT_EQ(read(), first);
  progress.steps = 128;
  progress.updates = 2;
  {
    MetricsLog log(directory_.string(), 64);
    log.write(progress, 0.5, {});
  }
  EXPECT_EQ(read(), first + "{\"step\": 128, \"update\": 2, \"episodes\": 3, \"wall_s\": 0.5}\n");
  MetricsLog again(directory_.string(), 0);
  EXPECT_EQ(read(), "");
}

}  // namespace
}  // namespace flotilla::test
