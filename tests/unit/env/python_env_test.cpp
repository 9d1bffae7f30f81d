// Python environments as this side knows them; tests/python/test_python_envs.py has workers, too.
#include "flotilla/env/python_env.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "flotilla/env/outside_code.h"
#include "flotilla/env/vec_env.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

Json description() {
  return Json::parse(R"({"obs": {"type": "float32", "shape": [2], "low": [-1.5, null],
                                 "high": [1.5, null]},
                         "action": {"kind": "multi_discrete", "choices": [2, 3]},
                         "has_mask": true, "state_bytes": 0})");
}

// The settings of the whole program, as they were before.
class PythonEnv : public testing::Test {
 protected:
  void TearDown() override {
    python_settings() = {};
    outside_code() = {};
  }
};

TEST_F(PythonEnv, IsKnownByItsName) {
  EXPECT_TRUE(is_python_env("gym:CartPole-v1"));
  EXPECT_TRUE(is_python_env("py:a.b:make"));
  EXPECT_FALSE(is_python_env("gymnasium"));
  EXPECT_FALSE(is_python_env("python"));
}

TEST_F(PythonEnv, SpecOfADescription) {
  const auto made = PythonDescription::from(description(), "py:a:b", 7);
  EXPECT_EQ(made.spec.name, "py:a:b");
  EXPECT_EQ(made.spec.time_limit, 7);
  EXPECT_EQ(made.spec.obs.shape, std::vector<int>{2});
  EXPECT_EQ(made.spec.obs.low[0], -1.5f);
  EXPECT_EQ(made.spec.obs.low[1], -INFINITY);
  EXPECT_EQ(made.spec.obs.high[1], INFINITY);
  EXPECT_EQ(made.spec.action.describe(), "MultiDiscrete(2, 3)");
  EXPECT_TRUE(made.spec.has_mask);
  EXPECT_FALSE(made.keeps_states);
  Json kept = description();
  kept["state_bytes"] = 12;
  EXPECT_TRUE(PythonDescription::from(kept, "py:a:b", 0).keeps_states);
}

TEST_F(PythonEnv, AFileDoesNotChooseCode) {
  const Registry registry;
  for (const char* name : {"py:os:system", "gym:some_module:Env-v0"}) {
    EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { registry.find(name); }),
              "'" + std::string(name) +
                  "' is Python code that a file names: to run it, name it behind train as well, or "
                  "give --python");
  }
}

TEST_F(PythonEnv, InsideOfAPythonThatOneIsMeant) {
  const Registry registry;
  python_settings().host = "/bin/true";
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { registry.find("py:os:system"); }),
            "'py:os:system' is Python code that a file names: to run it, give its name to "
            "flotilla.admit()");
  const auto asked = [&] {
    return test::error_text(ErrorCode::kUsage, [&] { registry.find("gym:CartPole-v1"); });
  };
  EXPECT_EQ(asked(), "'gym:CartPole-v1' cannot be made: /bin/true exited with status 0");
  setenv("FLOTILLA_PYTHON", "/bin/false", 1);
  EXPECT_EQ(asked(),
            "no Python with the package 'flotilla': /bin/false has none; install it with 'pip "
            "install .' or give another one by --python");
  unsetenv("FLOTILLA_PYTHON");
}

TEST_F(PythonEnv, NeedsAPythonWithThePackage) {
  const Registry registry;
  python_settings().interpreter = "/bin/false";
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { registry.find("gym:CartPole-v1"); }),
            "no Python with the package 'flotilla': /bin/false has none; install it with 'pip "
            "install .' or give another one by --python");
}

TEST_F(PythonEnv, AnAnswerThatIsNone) {
  const Registry registry;
  python_settings().interpreter = "/bin/true";  // it has every package, and says nothing
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { registry.find("gym:CartPole-v1"); }),
            "'gym:CartPole-v1' cannot be made: /bin/true exited with status 0");
}

TEST_F(PythonEnv, AnAnswerThatTakesTooLong) {
  const std::string python =
      std::filesystem::temp_directory_path() / ("flotilla-python-" + std::to_string(getpid()));
  std::ofstream(python) << "#!/bin/sh\n[ $1 = -c ] || exec sleep 1000\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  python_settings().interpreter = python;
  outside_code().start_timeout_s = 2;  // the package itself is looked for, too
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [] { Registry().find("gym:CartPole-v1"); }),
            "'gym:CartPole-v1' cannot be made: " + python +
                " gave no answer within 2 s (start_timeout_s)");
  std::filesystem::remove(python);
}

// Envs of another program need the back end that has one.
TEST_F(PythonEnv, OtherBackEndsAreRefused) {
  EnvType type;
  type.name = "py:a:b";
  type.worker_command = [](const Config&) { return std::vector<std::string>{"python3"}; };
  VecOptions options;
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { options.validate_for(type); }),
            "backend: expected processes or actors: the environments of 'py:a:b' are in workers of "
            "another "
            "program");
  options.backend = Backend::kProcesses;
  options.validate_for(type);
  options.start_method = StartMethod::kFork;
  EXPECT_EQ(test::error_text(ErrorCode::kUsage, [&] { options.validate_for(type); }),
            "start_method: expected spawn: the environments of 'py:a:b' are in workers of another "
            "program");
}

}  // namespace
}  // namespace flotilla
