// Recorded games of the reference simulator through the code that trains, and Python's generator.
#include "flotilla/domains/cage2/replay.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "flotilla/domains/cage2/python_random.h"
#include "support/error_text.h"
#include "support/golden.h"
#include "unit/domains/cage2/files.h"

namespace flotilla::cage2 {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> recordings() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(golden_folder())) {
    if (entry.path().extension() == ".gz") found.push_back(entry.path());
  }
  return found;
}

TEST(Replay, EveryFactOfEveryRecordedStep) {
  ASSERT_EQ(recordings().size(), 17u);
  for (const fs::path& path : recordings()) {
    const bool legacy = path.filename().string().starts_with("legacy");
    for (const ReplayMode mode : {ReplayMode::kOutcomes, ReplayMode::kSeed}) {
      const ReplayResult result = replay(path, mode, legacy);
      EXPECT_EQ(result.mismatches, 0) << path << ": " << result.first_mismatch;
      EXPECT_GE(result.episodes, 4);
      EXPECT_EQ(result.steps, 100 * result.episodes);
    }
  }
}

TEST(Replay, TheVersionsDiffer) {
  for (const ReplayMode mode : {ReplayMode::kOutcomes, ReplayMode::kSeed}) {
    const ReplayResult result =
        replay(golden_folder() / "legacy21_bline_random.jsonl.gz", mode, false);
    EXPECT_GT(result.mismatches, 0);
    EXPECT_TRUE(result.first_mismatch.starts_with("line ")) << result.first_mismatch;
  }
}

class DamagedRecording : public testing::Test {
 protected:
  DamagedRecording()
      : path_(fs::temp_directory_path() / ("flotilla-recording-" + std::to_string(getpid()))) {}
  ~DamagedRecording() override { fs::remove(path_); }
  std::string refusal(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return test::error_text(ErrorCode::kData,
                            [&] { cage2::replay(path_, ReplayMode::kOutcomes, false); });
  }
  const fs::path path_;
};

TEST_F(DamagedRecording, NamesLineAndField) {
  const std::string row =
      R"([0,2,-1,"SLP",-1,"",2,-1,-1,"0000000000000",0.0,"0000000020000","0000000000000",)"
      R"("0000000000000","0000000010000","0000000000000","00000000000000000000000000",)"
      R"("4177111122445",1])";
  const std::string head = R"({"seed":1,"red":"sleep","green":"off","steps":[)";
  const std::string good = head + row + "]}\n";
  const std::string where = path_.string();
  EXPECT_EQ(refusal(good + "{\n"), where + ":2: is not a JSON object");
  EXPECT_EQ(refusal(good + "\n" + good), where + ":2: is not a JSON object");
  EXPECT_EQ(refusal(R"({"seed":-1})"),
            where + ":1: field 'seed': expected an integer from 0 to 4294967295");
  EXPECT_EQ(refusal(R"({"seed":1,"red":"blue"})"),
            where + ":1: field 'red': expected bline, meander or sleep");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return refusal(good + text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(changed("[0,2", "[145,2"),
            where + ":2: step 1, field 'blue action': expected an integer from 0 to 144");
  EXPECT_EQ(changed("\"SLP\"", "\"NAP\""),
            where + ":2: step 1, field 'red action': expected one of DRS, DNS, ERS, PE, IMP, SLP");
  EXPECT_EQ(changed("\"0000000000000\",0.0", "\"000\",0.0"),
            where + ":2: step 1, field 'observation': expected a text of 13 characters");
  EXPECT_EQ(changed(",1]", "]"), where + ":2: step 1: expected an array of 19 or 20 fields");
}

TEST(PythonRandom, DrawsWhatPythonDraws) {
  const Json vectors = test::golden_json("cage2/rng_vectors.json");
  ASSERT_GT(vectors.size(), 2u);
  for (const Json& each : vectors) {
    const auto seed = each["seed"].get<uint32_t>();
    PythonRandom words(seed);
    for (const Json& value : each["getrandbits32"]) {
      EXPECT_EQ(words.bits(32), value.get<uint64_t>());
    }
    PythonRandom uniform(seed);
    for (const Json& value : each["random"]) EXPECT_EQ(uniform.uniform(), value.get<double>());
    PythonRandom below(seed);
    for (const Json& value : each["randrange32768"]) {
      EXPECT_EQ(below.below(32768), value.get<uint64_t>());
    }
    for (const Json& value : each["then_randrange49152_60000"]) {
      EXPECT_EQ(49152 + below.below(10848), value.get<uint64_t>());
    }
    PythonRandom shuffle(seed);
    std::vector<int> items(13);
    for (int i = 0; i < 13; ++i) items[static_cast<size_t>(i)] = i;
    shuffle.shuffle(items);
    EXPECT_EQ(items, each["shuffle13"].get<std::vector<int>>());
    PythonRandom sample(seed);
    EXPECT_EQ(sample.sample_of_many(4096, 3), each["sample4096_3"].get<std::vector<uint32_t>>());
    EXPECT_EQ(sample.sample_of_few(14, 5), each["then_sample14_5"].get<std::vector<uint32_t>>());
  }
}

}  // namespace
}  // namespace flotilla::cage2
