// Crash bundles: written for a failed env, read back, replayed, and refused when damaged.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "flotilla/core/file.h"
#include "flotilla/env/replay.h"
#include "support/batch.h"
#include "support/build.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

using enum Script::Act;
namespace fs = std::filesystem;

class CrashBundles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "flotilla-bundle-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { fs::remove_all(dir_); }

  std::string path(const std::string& name) const { return (dir_ / name).string(); }

  VecOptions options(VecOptions from, OnFailure policy = OnFailure::kStop) const {
    from.crash_dir = path("crashes");
    from.on_failure = policy;
    return from;
  }

  static ReplayResult replayed(const CrashBundle& bundle) {
    return replay(registry().find(bundle.env_name), bundle);
  }

  // The report of the failure this step ends with.
  static FailureReport fail(Batch& batch, const std::vector<int32_t>& acts) {
    try {
      batch.step(acts);
    } catch (const EnvFailure& failure) {
      EXPECT_NE(std::string(failure.what())
                    .find("flotilla check test_script --replay " + failure.report().bundle),
                std::string::npos)
          << failure.what();
      return failure.report();
    }
    ADD_FAILURE() << "the step did not fail";
    return {};
  }

  std::string write(const std::string& text) const {
    const std::string file = path("written.json");
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  // A good bundle: seed 9, env 2, its second episode, the second step of which throws.
  CrashBundle good() const {
    Batch batch("test_script", {}, options(serial(4)));
    batch.reset(9);
    batch.step({kGo, kGo, kEnd, kGo});
    batch.step({kGo, kGo, kGo, kGo});
    return CrashBundle::read(fail(batch, {kGo, kGo, kThrow, kGo}).bundle);
  }

  std::string good_text() const {
    write_file_atomically(path("good.json"), good().text());
    std::ifstream file(path("good.json"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path dir_;
};

TEST_F(CrashBundles, AThrowInAStepIsWrittenReadAndReplayed) {
  for (const Variant& variant : variants(4)) {
    SCOPED_TRACE(variant.name);
    fs::remove_all(path("crashes"));
    Batch batch("test_script", {"time_limit=7"}, options(variant.options));
    batch.reset(9);
    batch.step({kGo, kGo, kEnd, kGo});
    batch.step({kGo, kGo, kGo, kGo});
    const FailureReport report = fail(batch, {kGo, kGo, kThrow, kGo});
    EXPECT_EQ(report.bundle, path("crashes") + "/test_script-seed9-env2-episode1.json");
    const CrashBundle bundle = CrashBundle::read(report.bundle);
    EXPECT_EQ(bundle.env_name, "test_script");
    EXPECT_EQ(bundle.spec_sha256, batch.spec().sha256());
    EXPECT_EQ(bundle.time_limit, 0);
    EXPECT_EQ(bundle.seed, 9u);
    EXPECT_EQ(bundle.env, 2);
    EXPECT_EQ(bundle.episode, 1u);
    EXPECT_EQ(bundle.steps_lost, 0u);
    EXPECT_EQ(bundle.actions, (std::vector<std::vector<double>>{{kGo}, {kThrow}}));
    EXPECT_EQ(bundle.cause, "threw: script: told to throw");
    Rng rng = env_rng(9, 2);  // one reset and one step come before
    rng.below(1000);
    rng.uniform();
    EXPECT_EQ(bundle.episode_start, rng.position());

    const ReplayResult result = replayed(bundle);
    EXPECT_TRUE(result.failed);
    EXPECT_EQ(result.steps, 1u);
    EXPECT_EQ(result.cause, "script: told to throw");
  }
}

TEST_F(CrashBundles, OneOfAnotherRunIsNotReplaced) {
  const auto failed = [this] {
    Batch batch("test_script", {}, options(serial(1)));
    batch.reset(9);
    return fail(batch, {kThrow}).bundle;
  };
  const std::string first = failed();
  write_file_atomically(first, "of another run");
  EXPECT_EQ(failed(), path("crashes") + "/test_script-seed9-env0-episode0-2.json");
  EXPECT_EQ(failed(), path("crashes") + "/test_script-seed9-env0-episode0-3.json");
  EXPECT_EQ(read_whole_file(first, 100), "of another run");
}

TEST_F(CrashBundles, AReplicaIsReplayedWithTheNumbersItHad) {
  VecOptions replicas = options(serial(4));
  replicas.replicas = 2;
  Batch batch("test_script", {}, replicas);
  batch.reset(9);
  const FailureReport report = fail(batch, {kGo, kGo, kGo, kThrow});
  EXPECT_EQ(report.env, 3);
  const CrashBundle bundle = CrashBundle::read(report.bundle);
  EXPECT_EQ(bundle.env, 1);
  EXPECT_TRUE(replayed(bundle).failed);
}

TEST_F(CrashBundles, WrittenIsRead) {
  CrashBundle bundle = good();
  bundle.seed = UINT64_MAX;
  bundle.episode_start = (uint64_t{7} << 40) + 3;
  bundle.steps_lost = 17;
  bundle.time_limit = 12;
  bundle.cause = "threw: \"quoted\"\n\tcaf\xc3\xa9";
  bundle.actions = {{0.1F, -2}, {1e-30, 3}};
  write_file_atomically(path("one.json"), bundle.text());
  const CrashBundle back = CrashBundle::read(path("one.json"));
  EXPECT_EQ(back.env_name, bundle.env_name);
  EXPECT_EQ(back.config_yaml, bundle.config_yaml);
  EXPECT_EQ(back.spec_sha256, bundle.spec_sha256);
  EXPECT_EQ(back.time_limit, 12);
  EXPECT_EQ(back.seed, UINT64_MAX);
  EXPECT_EQ(back.env, 2);
  EXPECT_EQ(back.episode, 1u);
  EXPECT_EQ(back.episode_start, bundle.episode_start);
  EXPECT_EQ(back.steps_lost, 17u);
  EXPECT_EQ(back.cause, bundle.cause);
  EXPECT_EQ(back.actions, bundle.actions);
}

TEST_F(CrashBundles, AThrowInAResetIsReplayed) {
  for (const Variant& variant : variants(2)) {
    SCOPED_TRACE(variant.name);
    Batch batch("test_script", {"reset=auto"}, options(variant.options));
    batch.reset(3);
    batch.step({kGo, kGo});
    const FailureReport report = fail(batch, {kGo, kEnd});
    EXPECT_EQ(report.phase, "reset");
    const CrashBundle bundle = CrashBundle::read(report.bundle);
    EXPECT_TRUE(bundle.actions.empty());
    EXPECT_GT(bundle.episode_start, 0u);
    const ReplayResult result = replayed(bundle);
    EXPECT_TRUE(result.failed);
    EXPECT_EQ(result.steps, 0u);
    EXPECT_EQ(result.cause, "script: told to fail in reset");
  }
}

TEST_F(CrashBundles, AnObserveThatThrowsIsReplayed) {
  Batch batch("test_script", {}, options(serial(1)));
  batch.reset(3);
  batch.step({kEnd});
  batch.step({kGo});
  const CrashBundle bundle = CrashBundle::read(fail(batch, {kBlind}).bundle);
  EXPECT_EQ(bundle.actions, (std::vector<std::vector<double>>{{kGo}, {kBlind}}));
  const ReplayResult result = replayed(bundle);
  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.steps, 1u);
  EXPECT_EQ(result.cause, "script: told to be blind");
}

TEST_F(CrashBundles, AnEpisodeThatBeganAfterAFailureIsReplayed) {
  Batch batch("test_script", {}, options(serial(2), OnFailure::kRestart));
  batch.reset(3);
  batch.step({kGo, kThrow});
  batch.step({kGo, kGo});
  batch.step({kGo, kThrow});
  const auto failures = batch.vec().take_failures();
  ASSERT_EQ(failures.size(), 2u);
  ASSERT_NE(failures[0].bundle, failures[1].bundle);
  const CrashBundle bundle = CrashBundle::read(failures[1].bundle);
  EXPECT_EQ(bundle.episode_start, uint64_t{1} << kFailureLeapBits);
  EXPECT_EQ(bundle.actions.size(), 2u);
  EXPECT_EQ(replayed(bundle).steps, 1u);
  EXPECT_TRUE(replayed(bundle).failed);
}

TEST_F(CrashBundles, RandomFaultsHappenAgainAtTheSameStep) {
  VecOptions from = options(variants(6)[2].options, OnFailure::kRestart);
  from.time_limit = 40;
  Batch batch("faulty", {"fault=throw", "fault_step=1", "fault_probability=0.03"}, from);
  batch.reset(17);
  size_t replays = 0;
  for (uint64_t t = 0; t < 60; ++t) {
    batch.step_randomly(17, t);
    for (const FailureReport& report : batch.vec().take_failures()) {
      if (report.bundle.empty()) continue;
      const CrashBundle bundle = CrashBundle::read(report.bundle);
      EXPECT_EQ(bundle.time_limit, 40);
      ASSERT_EQ(bundle.actions.size(), report.step + 1);
      const ReplayResult result = replayed(bundle);
      EXPECT_TRUE(result.failed);
      EXPECT_EQ(result.steps, report.step);
      EXPECT_EQ("threw: " + result.cause, report.cause);
      ++replays;
    }
  }
  EXPECT_GE(replays, 5u);
}

TEST_F(CrashBundles, ABeginningThatWasNotKeptIsRefused) {
  Batch batch("test_script", {"time_limit=0"}, options(serial(1)));
  batch.reset(3);
  for (int t = 0; t < 5000; ++t) batch.step({kGo});
  const CrashBundle bundle = CrashBundle::read(fail(batch, {kThrow}).bundle);
  EXPECT_EQ(bundle.actions.size() + bundle.steps_lost, 5001u);
  EXPECT_GT(bundle.steps_lost, 0u);
  EXPECT_EQ(bundle.actions.back(), std::vector<double>{kThrow});
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { replayed(bundle); }),
            "crash bundle: the first " + std::to_string(bundle.steps_lost) +
                " actions of the episode were not kept");
}

TEST_F(CrashBundles, AnEpisodeThatBeganBeforeALoadIsRefused) {
  Batch original("test_script", {}, serial(1));
  original.reset(3);
  original.step({kGo});
  original.step({kGo});
  Batch batch("test_script", {}, options(serial(1)));
  batch.load(original.saved());
  const CrashBundle bundle = CrashBundle::read(fail(batch, {kThrow}).bundle);
  EXPECT_EQ(bundle.actions, (std::vector<std::vector<double>>{{kThrow}}));
  EXPECT_EQ(bundle.steps_lost, 2u);
  EXPECT_THROW(replayed(bundle), Error);
}

TEST_F(CrashBundles, AMessageThatIsNotUtf8IsNoObstacle) {
  Batch batch("test_script", {}, options(serial(1)));
  batch.reset(3);
  const FailureReport report = fail(batch, {kThrowBytes});
  ASSERT_NE(report.bundle, "");
  EXPECT_TRUE(CrashBundle::read(report.bundle).cause.starts_with("threw: script: caf"));
  EXPECT_TRUE(replayed(CrashBundle::read(report.bundle)).failed);
}

TEST_F(CrashBundles, BoxActionsAreReplayed) {
  const EnvType& type = registry().find("pendulum");
  const Config config(type.schema);
  CrashBundle bundle;
  bundle.env_name = "pendulum";
  bundle.config_yaml = config.to_yaml();
  bundle.spec_sha256 = type.spec(config).sha256();
  bundle.seed = 1;
  bundle.actions = {{0.5}, {-2}, {2}};
  const ReplayResult result = replayed(bundle);
  EXPECT_FALSE(result.failed);
  EXPECT_EQ(result.steps, 3u);
  for (const double wrong : {2.5, -1e300, 1e300}) {
    bundle.actions[1] = {wrong};
    error_text(ErrorCode::kData, [&] { replayed(bundle); });
  }
}

TEST_F(CrashBundles, ThereIsAnEndToThem) {
  VecOptions many = options(serial(1), OnFailure::kRestart);
  many.restart_budget = 1000;
  Batch batch("test_script", {}, many);
  batch.reset(1);
  for (int i = 0; i < 60; ++i) batch.step({kThrow});
  const auto count = std::distance(fs::directory_iterator(path("crashes")), {});
  EXPECT_GE(count, 5);
  EXPECT_LE(count, 50);
  EXPECT_EQ(batch.vec().take_failures().size(), 60u);
}

TEST_F(CrashBundles, WithNowhereToWriteTheFailureIsStillReported) {
  write("a file where the directory should be");
  VecOptions blocked = serial(1);
  blocked.crash_dir = path("written.json");
  Batch batch("test_script", {}, blocked);
  batch.reset(1);
  try {
    batch.step({kThrow});
    ADD_FAILURE();
  } catch (const EnvFailure& failure) {
    EXPECT_EQ(failure.report().bundle, "");
  }
}

TEST_F(CrashBundles, OtherEnvironmentsAreRefused) {
  const CrashBundle bundle = good();
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { replay(registry().find("cartpole"), bundle); }),
            "crash bundle: it is of 'test_script', not of 'cartpole'");
  CrashBundle changed = bundle;
  changed.spec_sha256[0] = changed.spec_sha256[0] == '0' ? '1' : '0';
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { replayed(changed); }),
            "crash bundle: the environment's spec has changed since");
  changed = bundle;
  changed.time_limit = 3;
  error_text(ErrorCode::kData, [&] { replayed(changed); });
}

TEST_F(CrashBundles, WrongContentsAreRefused) {
  const auto refused = [&](const std::function<void(CrashBundle&)>& change) {
    CrashBundle bundle = good();
    change(bundle);
    return error_text(ErrorCode::kData, [&] { replayed(bundle); });
  };
  EXPECT_NE(refused([](CrashBundle& b) { b.env = -1; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.env = kMaxEnvNumber; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {}; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {0, 0}; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {-1}; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {9}; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {1e300}; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.actions[0] = {0.5}; }), "no error") << "half a choice";
  EXPECT_NE(refused([](CrashBundle& b) { b.config_yaml = "time_limit: many\n"; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.config_yaml = "no_such_key: 1\n"; }), "no error");
  EXPECT_NE(refused([](CrashBundle& b) { b.config_yaml = "[[["; }), "no error");
}

TEST_F(CrashBundles, DamagedFilesAreRefused) {
  const std::string text = good_text();
  const auto refused = [&](const std::string& damaged) {
    return error_text(ErrorCode::kData, [&] { CrashBundle::read(write(damaged)); });
  };
  const auto with = [&](const std::string& key, const std::string& value) {
    const size_t at = text.find("\"" + key + "\":");
    EXPECT_NE(at, std::string::npos) << key;
    const size_t from = text.find(':', at) + 1;
    // Values of this bundle hold no commas outside the actions, which come last.
    const size_t to = key == "actions" ? text.rfind('}') : text.find(",\n", from);
    return text.substr(0, from) + " " + value + text.substr(to);
  };
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { CrashBundle::read(path("none.json")); }),
            "cannot read " + path("none.json") + ": No such file or directory");
  EXPECT_NE(error_text(ErrorCode::kData, [&] { CrashBundle::read(dir_.string()); }), "no error");
  ASSERT_NO_THROW(CrashBundle::read(write(with("seed", "10"))));
  for (size_t size = 0; size + 2 < text.size(); size += kSanitized ? 17 : 1) {
    ASSERT_NE(refused(text.substr(0, size)), "no error") << size << " bytes";
  }
  for (const char* other : {"", "{}", "[]", "null", "42", "\"text\"", "not JSON", "\x00\xff\xfe"}) {
    EXPECT_NE(refused(other), "no error") << other;
  }
  EXPECT_NE(refused(std::string(100'000, '[')), "no error");
  EXPECT_EQ(refused(with("format", "\"another\"")),
            path("written.json") + " is not a crash bundle: it has another format");
  EXPECT_EQ(refused(with("version", "2")),
            path("written.json") + " is not a crash bundle: it has another version");
  EXPECT_EQ(refused(std::string(17 << 20, ' ') + text),
            "cannot read " + path("written.json") + ": it has more than 16777216 bytes");
  // Deep enough to use up the stack of whoever writes it out again.
  const std::string deep(1'000'000, '['), end(1'000'000, ']');
  EXPECT_EQ(refused(with("actions", "[" + deep + end + "]\n")),
            path("written.json") +
                " is not a crash bundle: action 0 is a list with something else "
                "in it, not a list of numbers");
  const std::vector<std::pair<const char*, std::vector<const char*>>> wrong = {
      {"env", {"5", "null", "[\"test_script\"]"}},
      {"config", {"5", "{}"}},
      {"spec_sha256", {"5", "null"}},
      {"time_limit", {"\"5\"", "null", "99999999999", "1e300", "true"}},
      {"seed", {"\"9\"", "null", "-1", "1.5", "1e300", "99999999999999999999999"}},
      {"env_index", {"\"2\"", "null", "4294967298", "-4294967294", "1e300", "2.5", "true"}},
      {"episode", {"\"1\"", "null", "-1", "4294967297", "1e300"}},
      {"episode_start", {"\"0\"", "null", "-1", "1e300"}},
      {"steps_lost", {"\"0\"", "null", "-1", "1e300"}},
      {"cause", {"5", "null"}},
      {"actions", {"5", "null", "\"x\"", "[1, 2]", "[[\"0\"]]", "[[null]]", "[[[0]]]", "{}"}},
  };
  for (const auto& [key, values] : wrong) {
    for (const char* value : values) {
      EXPECT_NE(refused(with(key, value)), "no error") << key << ": " << value;
    }
  }
}

TEST_F(CrashBundles, MutatedFilesNeverCrash) {
  const std::string text = good_text();
  Rng rng(6, stream_of(Purpose::kTest, 1));
  const auto below = [&](size_t n) { return rng.below(static_cast<uint32_t>(n)); };
  int refused = 0;
  const int rounds = kSanitized ? 300 : 1000;  // and fuzz_bundle reads many more
  for (int round = 0; round < rounds; ++round) {
    std::string mutated = text;
    for (uint32_t k = 0; k <= rng.below(4); ++k) {
      const size_t at = below(mutated.size());
      switch (rng.below(6)) {
        case 0:
          mutated[at] = static_cast<char>(mutated[at] ^ (1 << rng.below(8)));
          break;
        case 1:
          mutated[at] = static_cast<char>(rng.below(256));
          break;
        case 2:
          mutated.erase(at, 1 + rng.below(20));
          break;
        case 3:
          mutated.insert(at, std::string(1 + rng.below(30), static_cast<char>('0' + below(10))));
          break;
        case 4:
          mutated.insert(at, mutated.substr(below(mutated.size()), rng.below(60)));
          break;
        default:
          mutated.resize(at + 1);
      }
    }
    try {
      const CrashBundle bundle = CrashBundle::read(write(mutated));
      replay(registry().find("test_script"), bundle);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kData) << "round " << round << ": " << error.what() << "\n"
                                                << mutated;
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << "round " << round << ", not an Error: " << error.what() << "\n" << mutated;
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace
}  // namespace flotilla::test
