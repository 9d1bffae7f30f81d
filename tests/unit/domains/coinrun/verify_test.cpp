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
    return lines(recording, number, 1);
  }
  std::string lines(const std::string& recording, size_t number, size_t count) const {
    const std::string text = read_gzipped(kGolden / recording, size_t{1} << 26);
    size_t from = 0;
    for (size_t i = 1; i < number; ++i) from = text.find('\n', from) + 1;
    size_t end = from;
    for (size_t i = 0; i < count; ++i) end = text.find('\n', end) + 1;
    return text.substr(from, end - from);
  }
  std::string refusal() const {
    return test::error_text(ErrorCode::kData, [&] { verify(folder_); });
  }
  // What is said of a recording, without the folder.
  std::string refusal(const std::string& name, const std::string& text) const {
    write(name, text);
    return changed(refusal(), (folder_ / "").string(), "");
  }
  std::string difference(const std::string& name, const std::string& text) const {
    write(name, text);
    const std::string first = verify(folder_).first_mismatch;
    return first.empty() ? "none" : changed(first, (folder_ / "").string(), "");
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

TEST_F(OtherRecordings, AnEpisodeHasAsManyEntriesAsWerePlayed) {
  const std::string name = "episodes.jsonl", at = name + ", line 1, number of ";
  const std::string episode = line("episodes_easy.jsonl.gz", 2);  // 47 steps to the coin
  EXPECT_EQ(difference(name, episode), "none");
  EXPECT_EQ(difference(name, changed(episode, "[[47,10]]", "[]")),
            at + "rewards: expected 0, got 1");
  EXPECT_EQ(difference(name, changed(episode, "[[47,10]]", "[[47,10],[48,10]]")),
            at + "rewards: expected 2, got 1");
  EXPECT_EQ(difference(name, changed(episode, "\"}", "888\"}")),
            at + "actions: expected 50, got 47");
  EXPECT_EQ(difference(name, changed(episode, "\"xy10\":", "\"xy10\":[],\"rest\":")),
            at + "xy10: expected 0, got 5");
  EXPECT_EQ(
      difference(name, changed(episode, "\"xy10\":[", "\"xy10\":[[1.5,1.57870007]],\"rest\":[")),
      at + "xy10: expected 1, got 5");
  EXPECT_EQ(refusal(name, changed(episode, "\"rewards\":[[47,10]]", "\"rewards\":[47]")),
            name + ", line 1: 'rewards' is missing or wrong");
}

TEST_F(OtherRecordings, ATraceIsWhole) {
  const std::string name = "traces.jsonl", recording = "traces_hard.jsonl.gz";
  const std::string header = line(recording, 201), states = lines(recording, 202, 39);  // 38 steps
  EXPECT_EQ(difference(name, header + states), "none");
  const std::string expected =
      ", line 1: expected t from 0 to 38 on 39 lines after this header, got ";
  EXPECT_EQ(refusal(name, header), name + expected + "0");
  EXPECT_EQ(refusal(name, header + lines(recording, 202, 5)), name + expected + "5");
  EXPECT_EQ(refusal(name, header + lines(recording, 202, 5) + header + states),
            name + expected + "5");
  EXPECT_EQ(refusal(name, changed(header, "\"steps\":38", "\"steps\":37") + states),
            name + ", line 40: expected another header, this trace has 37 steps");
  EXPECT_EQ(difference(name, changed(header, "death", "goal") + states),
            name + ", line 1, end: expected goal, got death");
  EXPECT_EQ(difference(name, changed(header, "\"}", "777\"}") + states),
            name + ", line 1, number of actions: expected 41, got 38");
  EXPECT_EQ(difference(name, changed(header, "\"actions\":\"777", "\"actions\":\"77a") + states),
            name + ", line 5, a: expected 10, got 7");
}

// A recording of other rules is no damaged file: it may go on where the game is over here, and end
// where it goes on.
TEST_F(OtherRecordings, ATraceMayEndElsewhere) {
  const std::string name = "traces.jsonl", recording = "traces_hard.jsonl.gz";
  const std::string header = line(recording, 201), state = line(recording, 239);
  const std::string longer =
      changed(changed(header, "\"steps\":38", "\"steps\":39"), "\"}", "7\"}");
  EXPECT_EQ(difference(name, longer + lines(recording, 202, 38) + changed(state, ":37,", ":38,") +
                                 changed(state, ":37,", ":39,")),
            name + ", line 40, d: expected 0, got 1");
  EXPECT_GE(verify(folder_).mismatches, 3);
  const std::string shorter =
      changed(changed(header, "\"steps\":38", "\"steps\":37"), "7\"}", "\"}");
  EXPECT_EQ(difference(name, shorter + lines(recording, 202, 37) +
                                 changed(line(recording, 240), ":38,", ":37,")),
            name + ", line 1, end: expected death, got cut");
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

TEST_F(OtherRecordings, AFrameIsComparedWithAllThatIsSaidOfIt) {
  constexpr size_t kNumber = 94, kBytes = 12288;
  const std::string name = "frames.jsonl", at = name + ", line 1, ";
  const std::string pixels = read_gzipped(kGolden / "frames_mono.rgb.gz", size_t{1} << 26);
  write("frames.rgb", pixels.substr(kNumber * kBytes, kBytes));
  // With what the complete recording says of the things in it: a crate, trails, agent and enemy.
  const std::string things =
      "[[20,2,9.5,4.5,0.5,0.5],[59,0,12.6500015,8.27000046,0.330749989,0.220499977],"
      "[59,0,12.8000031,8.26000023,0.314999998,0.209999993],"
      "[59,0,12.9500046,8.25,0.300000012,0.200000003],"
      "[12,3,1.83564007,5.47870064,0.5,0.578700006],[6,2,12.9500046,8.5,0.5,0.5]]";
  const std::string small = line("frames_mono.jsonl.gz", kNumber + 1);
  const std::string frame = changed(small, "\"actions\"", "\"draw\":" + things + ",\"actions\"");
  EXPECT_EQ(difference(name, small), "none");
  EXPECT_EQ(difference(name, frame), "none");
  const auto differs = [&](const std::string& from, const std::string& to) {
    return difference(name, changed(frame, from, to));
  };
  EXPECT_EQ(differs("\"support\":0", "\"support\":1"), at + "support: expected 1, got 0");
  EXPECT_EQ(differs("\"wall_theme\":0", "\"wall_theme\":5"), at + "wall_theme: expected 5, got 0");
  EXPECT_EQ(differs(",[6,2,12.9500046,8.5,0.5,0.5]", ""), at + "number of draw: expected 5, got 6");
  EXPECT_EQ(differs("[20,2,9.5", "[20,3,9.5"),
            at + "draw: expected [20.0,3.0,9.5,4.5,0.5,0.5], got [20.0,2.0,9.5,4.5,0.5,0.5]");
  write("frames.rgb", pixels.substr(kNumber * kBytes, kBytes) + "more");
  EXPECT_EQ(refusal(name, frame),
            "frames.rgb: expected 12288 bytes, 12288 for each line of frames.jsonl, got 12292");
}

TEST_F(OtherRecordings, AFileOfNothingIsNoSuccess) {
  write("episodes.jsonl", line("episodes_easy.jsonl.gz"));
  EXPECT_EQ(refusal("levels.jsonl", ""),
            "levels.jsonl: expected a JSON object on each line, is empty");
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
  write("episodes.jsonl", changed(episode, "\"level_seed\":3", "\"level_seed\":2147483647"));
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
