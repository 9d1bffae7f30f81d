// Recordings of the Procgen library through the code that trains, and what is said about bad ones.
#include "flotilla/domains/coinrun/verify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/core/gzip.h"
#include "flotilla/domains/coinrun/replay.h"
#include "support/error_text.h"
#include "support/source_dir.h"

namespace flotilla::coinrun {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(test::source_dir()) / "tests/golden/coinrun";

TEST(Verify, EveryFactOfTheRecordings) {
  const Verification result = verify(kGolden);
  EXPECT_EQ(result.mismatches, 0) << result.first_mismatch;
  EXPECT_EQ(result.levels, 100);
  EXPECT_EQ(result.episodes, 175);
  EXPECT_EQ(result.traced_steps, 614);
  EXPECT_EQ(result.frames, 103);
  EXPECT_GT(result.facts, 15'000);
}

class OtherRecordings : public testing::Test {
 protected:
  OtherRecordings()
      : folder_(fs::temp_directory_path() / ("flotilla-coinrun-" + std::to_string(getpid()))) {
    fs::create_directory(folder_);
  }
  ~OtherRecordings() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string line(const std::string& recording, size_t number = 1) const {
    const std::string text = read_gzipped(kGolden / recording, size_t{1} << 26);
    size_t from = 0;
    for (size_t i = 1; i < number; ++i) from = text.find('\n', from) + 1;
    return text.substr(from, text.find('\n', from) + 1 - from);
  }
  std::string refusal() const {
    return test::error_text(ErrorCode::kData, [&] { verify(folder_); });
  }
  static std::string changed(std::string text, const std::string& from, const std::string& to) {
    EXPECT_NE(text.find(from), text.npos) << from;
    return text.replace(text.find(from), from.size(), to);
  }

  const fs::path folder_;
};

TEST_F(OtherRecordings, WhatDiffersIsCountedAndNamed) {
  const std::string episode = line("episodes_easy.jsonl.gz");
  write("episodes.jsonl", episode + changed(episode, "\"crc_xy\":\"", "\"crc_xy\":\"0"));
  Verification result = verify(folder_);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_EQ(result.episodes, 2);
  const std::string start = (folder_ / "episodes.jsonl").string() + ", line 2, crc_xy: expected 0";
  EXPECT_TRUE(result.first_mismatch.starts_with(start)) << result.first_mismatch;

  fs::remove(folder_ / "episodes.jsonl");
  const std::string level = line("levels_hard.jsonl.gz", 2);
  write("levels.jsonl", changed(level, "\"grid\":[\"MT", "\"grid\":[\"MM"));
  result = verify(folder_);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_NE(result.first_mismatch.find(", grid: expected MM"), std::string::npos);
}

TEST_F(OtherRecordings, APixelCounts) {
  const std::string name = "frames_mono";
  std::string pixels = read_gzipped(kGolden / (name + ".rgb.gz"), size_t{1} << 26);
  fs::copy(kGolden / (name + ".jsonl.gz"), folder_ / (name + ".jsonl.gz"));
  pixels[5000] = static_cast<char>(pixels[5000] + 1);
  write(name + ".rgb", pixels);
  const Verification result = verify(folder_);
  EXPECT_EQ(result.frames, 103);
  EXPECT_EQ(result.mismatches, 1);
  EXPECT_NE(result.first_mismatch.find("line 1, pixels that differ: expected 0, got 1"),
            std::string::npos)
      << result.first_mismatch;
  write(name + ".rgb", pixels.substr(0, 12288));
  EXPECT_NE(refusal().find("line 2"), std::string::npos) << refusal();
}

TEST_F(OtherRecordings, BadLinesAreNamed) {
  const std::string where = (folder_ / "episodes.jsonl").string() + ", line 1";
  EXPECT_EQ(refusal(), folder_.string() +
                           ": holds no recordings (expected levels*, episodes*, traces* or "
                           "frames*, .jsonl or .jsonl.gz)");
  write("episodes.jsonl", "{\n");
  EXPECT_EQ(refusal(), where + ": expected a JSON object");
  const std::string episode = line("episodes_easy.jsonl.gz");
  write("episodes.jsonl", changed(episode, "\"actions\":\"", "\"actions\":\"f"));
  EXPECT_NE(refusal().find(where), std::string::npos) << refusal();
  write("episodes.jsonl", changed(episode, "\"mode\":\"easy", "\"mode\":\"soft"));
  EXPECT_NE(refusal().find("'mode'"), std::string::npos) << refusal();
  write("episodes.jsonl", changed(episode, "\"level_seed\":", "\"level_seed\":99999999999"));
  EXPECT_NE(refusal().find("'level_seed'"), std::string::npos) << refusal();
  fs::remove(folder_ / "episodes.jsonl");
  write("traces.jsonl", line("traces_easy.jsonl.gz", 2));
  EXPECT_NE(refusal().find("expected the header of an episode first"), std::string::npos);
  write("traces.jsonl", line("traces_easy.jsonl.gz") + line("traces_easy.jsonl.gz", 3));
  EXPECT_NE(refusal().find("'t'"), std::string::npos) << refusal();
}

TEST(Actions, AreHexadecimalDigits) {
  EXPECT_EQ(parse_actions("08\n 4e\r\na", "f"), (std::vector<int>{0, 8, 4, 14, 10}));
  EXPECT_EQ(test::error_text(ErrorCode::kData, [] { parse_actions("88\n8f8\n", "moves.txt"); }),
            "moves.txt: line 2: expected actions as hexadecimal digits from 0 to e, got 'f'");
  EXPECT_EQ(test::error_text(ErrorCode::kData, [] { parse_actions("8,8", "moves.txt"); }),
            "moves.txt: line 1: expected actions as hexadecimal digits from 0 to e, got ','");
}

}  // namespace
}  // namespace flotilla::coinrun
