// What an env looks like from outside: spaces, spec, registry and the options of a VecEnv.
#include "flotilla/env/spec.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "flotilla/core/system.h"
#include "flotilla/env/registry.h"
#include "flotilla/env/slot_vec_env.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

EnvSpec sample() {
  EnvSpec spec;
  spec.name = "sample";
  spec.obs = ObsSpace::float32({2, 3}, -1, 1);
  spec.action = ActionSpace::multi_discrete({3, 4});
  spec.has_mask = true;
  spec.time_limit = 100;
  spec.metrics = {"wins", "losses"};
  spec.reward_low = -1;
  spec.reward_high = 2;
  return spec;
}

TEST(ObsSpace, SizesAndBounds) {
  const ObsSpace box = ObsSpace::float32({2, 3}, -1, 1);
  EXPECT_EQ(box.elements(), 6u);
  EXPECT_EQ(box.row_bytes(), 24u);
  EXPECT_EQ(box.low, std::vector<float>(6, -1));
  EXPECT_EQ(box.high, std::vector<float>(6, 1));

  const ObsSpace each = ObsSpace::float32({-1, -kInfinity}, {1, kInfinity});
  EXPECT_EQ(each.shape, std::vector<int>{2});
  EXPECT_EQ(each.row_bytes(), 8u);

  const ObsSpace image = ObsSpace::uint8({64, 64, 3});
  EXPECT_EQ(image.elements(), 12288u);
  EXPECT_EQ(image.row_bytes(), 12288u);
  EXPECT_EQ(image.low[12287], 0);
  EXPECT_EQ(image.high[0], 255);
}

TEST(ActionSpace, SizesAndDescriptions) {
  const ActionSpace discrete = ActionSpace::discrete(2);
  EXPECT_EQ(discrete.dims(), 1u);
  EXPECT_EQ(discrete.mask_size(), 2u);
  EXPECT_EQ(discrete.describe(), "Discrete(2)");
  const ActionSpace multi = ActionSpace::multi_discrete({3, 4});
  EXPECT_EQ(multi.dims(), 2u);
  EXPECT_EQ(multi.mask_size(), 7u);
  EXPECT_EQ(multi.describe(), "MultiDiscrete(3, 4)");
  const ActionSpace box = ActionSpace::box({-2}, {2});
  EXPECT_TRUE(box.is_box());
  EXPECT_EQ(box.dims(), 1u);
  EXPECT_EQ(box.mask_size(), 0u);
  EXPECT_EQ(box.describe(), "Box([-2], [2])");
  EXPECT_EQ(ActionSpace::box({-2, 0}, {2, 0.5F}).describe(), "Box([-2, 0], [2, 0.5])");
}

using Change = std::function<void(EnvSpec&)>;

TEST(EnvSpec, ValidationNamesWhatIsWrong) {
  EXPECT_NO_THROW(sample().validate());
  const auto box = [](EnvSpec& s, std::vector<float> low, std::vector<float> high) {
    s.has_mask = false;
    s.action = ActionSpace::box(std::move(low), std::move(high));
  };
  const std::vector<std::pair<std::string, Change>> cases = {
      {"the observation has no shape", [](EnvSpec& s) { s.obs = {}; }},
      {"observation shape (2, 0) is not positive",
       [](EnvSpec& s) {
         s.obs.shape = {2, 0};
       }},
      {"observation shape (-2, -3) is not positive",
       [](EnvSpec& s) {
         s.obs.shape = {-2, -3};
       }},
      {"the observation is too large",
       [](EnvSpec& s) {
         s.obs.shape = {1 << 20, 1 << 20};
       }},
      {"5 observation bounds for 6 elements", [](EnvSpec& s) { s.obs.low.pop_back(); }},
      {"6 observation bounds for 7 elements", [](EnvSpec& s) { s.obs.shape = {7}; }},
      {"observation bounds of element 4 are out of order", [](EnvSpec& s) { s.obs.low[4] = 1.5F; }},
      {"observation bounds of element 1 are out of order",
       [](EnvSpec& s) { s.obs.high[1] = std::nanf(""); }},
      {"the action has no dimensions", [](EnvSpec& s) { s.action.choices = {}; }},
      {"the action has no dimensions", [&](EnvSpec& s) { box(s, {}, {}); }},
      {"an action has no choices", [](EnvSpec& s) { s.action.choices[1] = 0; }},
      {"an action has no choices", [](EnvSpec& s) { s.action.choices[0] = -3; }},
      {"action bounds of different length",
       [&](EnvSpec& s) {
         box(s, {0, 0}, {1});
       }},
      {"action bounds must be finite", [&](EnvSpec& s) { box(s, {0}, {kInfinity}); }},
      {"action bounds must be finite", [&](EnvSpec& s) { box(s, {std::nanf("")}, {1}); }},
      {"action bounds are out of order", [&](EnvSpec& s) { box(s, {1}, {0}); }},
      {"the time limit is negative", [](EnvSpec& s) { s.time_limit = -1; }},
      {"a box action cannot have advice",
       [&](EnvSpec& s) {
         box(s, {0}, {1});
         s.has_advice = true;
       }},
      {"a box action cannot have a mask",
       [](EnvSpec& s) { s.action = ActionSpace::box({0}, {1}); }},
      {"reward bounds are out of order", [](EnvSpec& s) { s.reward_low = 3; }},
      {"reward bounds are out of order", [](EnvSpec& s) { s.reward_high = std::nanf(""); }},
      {"unnamed metric", [](EnvSpec& s) { s.metrics[1] = ""; }},
      {"metric 'std' has the name of another number of a run",
       [](EnvSpec& s) { s.metrics[1] = "std"; }},
      {"metric 'slips' has the name of another number of a run",
       [](EnvSpec& s) {
         s.metrics = {"slips", "slips"};
       }},
      {"metric 'slips_ci95' has the name of another number of a run",
       [](EnvSpec& s) {
         s.metrics = {"slips_ci95", "slips"};
         s.headline = "slips";
       }},
  };
  for (const auto& [expected, change] : cases) {
    EnvSpec spec = sample();
    change(spec);
    const std::string text = error_text(ErrorCode::kUsage, [&] { spec.validate(); });
    if (expected.starts_with("5 ")) {  // either side may be the one that is counted
      EXPECT_TRUE(text.ends_with("observation bounds for 6 elements")) << text;
    } else {
      EXPECT_EQ(text, "environment 'sample': " + expected);
    }
  }
}

TEST(EnvSpec, HashChangesWithEveryField) {
  const std::vector<Change> changes = {
      [](EnvSpec&) {},
      [](EnvSpec& s) { s.name = "sampl"; },
      [](EnvSpec& s) { s.obs.type = ObsType::kUint8; },
      [](EnvSpec& s) {
        s.obs.shape = {3, 2};
      },
      [](EnvSpec& s) { s.obs.shape = {6}; },
      [](EnvSpec& s) { s.obs.low[5] = -1.0000001F; },
      [](EnvSpec& s) { s.obs.high[0] = 1.0000001F; },
      [](EnvSpec& s) {
        s.action.choices = {4, 3};
      },
      [](EnvSpec& s) {
        s.action.choices = {3, 4, 1};
      },
      [](EnvSpec& s) { s.action = ActionSpace::discrete(3); },
      [](EnvSpec& s) { s.action = ActionSpace::multi_discrete({3}); },
      [](EnvSpec& s) { s.action = ActionSpace::box({0}, {1}); },
      [](EnvSpec& s) { s.action = ActionSpace::box({0.1F}, {1}); },
      [](EnvSpec& s) { s.action = ActionSpace::box({0}, {1.1F}); },
      [](EnvSpec& s) { s.has_mask = false; },
      [](EnvSpec& s) { s.has_advice = true; },
      [](EnvSpec& s) { s.time_limit = 101; },
      [](EnvSpec& s) {
        s.metrics = {"losses", "wins"};
      },
      [](EnvSpec& s) { s.metrics = {"wins"}; },
      [](EnvSpec& s) { s.metrics = {}; },
      [](EnvSpec& s) { s.metrics = {"wins,losses"}; },  // one column, not two
      [](EnvSpec& s) { s.reward_low = -2; },
      [](EnvSpec& s) { s.reward_high = 3; },
  };
  std::set<std::string> seen;
  for (size_t i = 0; i < changes.size(); ++i) {
    EnvSpec spec = sample();
    changes[i](spec);
    const std::string hash = spec.sha256();
    EXPECT_EQ(hash.size(), 64u);
    EXPECT_TRUE(seen.insert(hash).second) << "change " << i << " did not change the hash";
  }
  EXPECT_EQ(sample().sha256(), sample().sha256());
}

TEST(Registry, FindsSuggestsAndRefusesDoubles) {
  Registry registry = test::shipped();
  EXPECT_EQ(registry.find("cartpole").name, "cartpole");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { registry.find("cartpol"); }),
            "unknown environment 'cartpol'; did you mean 'cartpole'? ('flotilla list' shows all)");
  EXPECT_EQ(error_text(ErrorCode::kUsage, [&] { registry.find("zzzzzzzzzz"); }),
            "unknown environment 'zzzzzzzzzz' ('flotilla list' shows all)");
  const size_t count = registry.types().size();
  EXPECT_EQ(error_text(ErrorCode::kInternal,
                       [&] { registry.add(env_type<test::Script>("cartpole", "again")); }),
            "environment 'cartpole' is registered twice");
  EXPECT_EQ(registry.types().size(), count);
}

TEST(Registry, RecipesAreInTheOrderOfTheirFilesWhoeverAddsThem) {
  Registry registry;
  for (const char* name : {"maze", "cage-far", "cage", "cab"}) registry.add_recipe({name, "text"});
  std::vector<std::string> names;
  for (const Recipe& recipe : registry.recipes()) names.push_back(recipe.name);
  EXPECT_EQ(names, (std::vector<std::string>{"cab", "cage-far", "cage", "maze"}));
  EXPECT_EQ(registry.find_recipe("cage")->name, "cage");
  EXPECT_EQ(registry.find_recipe("cag"), nullptr);
  EXPECT_EQ(error_text(ErrorCode::kInternal,
                       [&] {
                         registry.add_recipe({"cage", ""});
                       }),
            "recipe 'cage' is registered twice");
}

TEST(Registry, AKindOfDirectoryIsKnownOnce) {
  Registry registry;
  for (int i = 0; i < 2; ++i) registry.add_foreign_directory({"other.yaml", "another", "go on"});
  ASSERT_EQ(registry.foreign_directories().size(), 1u);
  EXPECT_EQ(registry.foreign_directories()[0].file, "other.yaml");
}

TEST(Registry, TheTypesNameIsTheSpecsName) {
  Registry registry;
  registry.add(env_type<test::Script>("another_name", "the same env"));
  const EnvType& type = registry.find("another_name");
  EXPECT_EQ(type.spec(Config(type.schema)).name, "another_name");
}

TEST(Registry, KernelsTakeTheTimeLimitTheyAreGiven) {
  const EnvType& type = test::registry().find("cartpole");
  const Config config(type.schema);
  EXPECT_EQ(type.spec(config).time_limit, 500);
  EXPECT_EQ(type.spec(config, 7).time_limit, 7);
  EXPECT_EQ(type.spec(config, 9000).time_limit, 9000);
}

TEST(Registry, ABadSpecIsRefusedWhenTheKernelIsMade) {
  const EnvType& type = test::registry().find("test_broken");
  const auto refusal = [&](const char* defect) {
    const Config config = test::config_of(type, {defect});
    return error_text(ErrorCode::kUsage, [&] { type.make_loop(config, 0); });
  };
  const std::string head = "environment 'test_broken': ";
  EXPECT_EQ(refusal("defect=none"), "no error");
  EXPECT_EQ(refusal("defect=bad_spec"), head + "reward bounds are out of order");
  EXPECT_EQ(refusal("defect=mask_unsaid"), head + "has mask(), but its spec leaves has_mask unset");
  EXPECT_EQ(refusal("defect=metrics_unsaid"),
            head + "has metrics(), but its spec leaves metrics unset");
}

// Says more in its spec than it has.
struct Boaster {
  struct State {};
  static Schema schema() {
    Schema schema;
    schema.choice("claim", "mask", {"mask", "advice", "metrics"}, "what it says it has");
    return schema;
  }
  explicit Boaster(const Config& config) {
    spec_.obs = ObsSpace::float32({1}, 0, 1);
    spec_.action = ActionSpace::discrete(2);
    const std::string& claim = config.get_text("claim");
    if (claim == "metrics") spec_.metrics = {"wins"};
    spec_.has_mask = claim == "mask";
    spec_.has_advice = claim == "advice";
  }
  const EnvSpec& spec() const { return spec_; }
  void reset(State&, Rng&) const {}
  Outcome step(State&, ActionRow, Rng&) const { return {}; }
  void observe(const State&, ObsRow row) const { row.f32()[0] = 0; }
  EnvSpec spec_;
};

// What a policy reads is the same, so what was saved with the one loads with the other.
TEST(EnvSpec, AdviceAloneHasTheHashOfAMaskAlone) {
  EnvSpec masked = sample(), advised = sample();
  advised.has_mask = false;
  advised.has_advice = true;
  EXPECT_TRUE(masked.masked());
  EXPECT_TRUE(advised.masked());
  EXPECT_EQ(advised.sha256(), masked.sha256());
}

TEST(Registry, ASpecThatPromisesTooMuchIsRefused) {
  const EnvType type = env_type<Boaster>("boaster", "");
  const auto refusal = [&](const char* override_text) {
    const Config config = test::config_of(type, {override_text});
    return error_text(ErrorCode::kUsage, [&] { type.make_loop(config, 0); });
  };
  EXPECT_EQ(refusal("claim=mask"),
            "environment 'boaster': sets has_mask in its spec, but has no mask()");
  EXPECT_EQ(refusal("claim=advice"),
            "environment 'boaster': sets has_advice in its spec, but has no advice()");
  EXPECT_EQ(refusal("claim=metrics"),
            "environment 'boaster': sets metrics in its spec, but has no metrics()");
}

TEST(VecOptions, AreReadFromAConfig) {
  Config config(VecOptions::schema());
  VecOptions plain = VecOptions::from(config);
  EXPECT_EQ(plain.backend, Backend::kSerial);
  EXPECT_EQ(plain.num_envs, 1);
  EXPECT_EQ(plain.threads, 1) << "never more than there are envs";
  EXPECT_EQ(plain.on_failure, OnFailure::kStop);
  EXPECT_EQ(plain.restart_budget, 100);
  EXPECT_EQ(plain.step_timeout_s, 60);

  for (const char* each :
       {"backend=processes", "num_envs=1000", "groups=2", "workers=5", "threads=3",
        "start_method=fork", "on_env_failure=drop", "restart_budget=7", "step_timeout_s=0.5",
        "start_timeout_s=2", "crash_dir=elsewhere"}) {
    config.apply_override(each);
  }
  const VecOptions options = VecOptions::from(config);
  EXPECT_EQ(options.backend, Backend::kProcesses);
  EXPECT_EQ(options.num_envs, 1000);
  EXPECT_EQ(options.groups, 2);
  EXPECT_EQ(options.workers, 5);
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.start_method, StartMethod::kFork);
  EXPECT_EQ(options.on_failure, OnFailure::kDrop);
  EXPECT_EQ(options.restart_budget, 7);
  EXPECT_EQ(options.step_timeout_s, 0.5);
  EXPECT_EQ(options.start_timeout_s, 2);
  EXPECT_EQ(options.crash_dir.path(), "elsewhere");
  config.apply_override("workers=0");
  EXPECT_EQ(VecOptions::from(config).workers, cpu_count());
}

TEST(VecOptions, ActorsAreTwoPerThreadOrOneOfFewEnvs) {
  const auto actors = [](int num_envs, int threads) {
    Config config(VecOptions::schema());
    for (const std::string& each :
         {std::string("backend=actors"), "num_envs=" + std::to_string(num_envs),
          "threads=" + std::to_string(threads)}) {
      config.apply_override(each);
    }
    return VecOptions::from(config).groups;
  };
  EXPECT_EQ(actors(64, 4), 8);
  EXPECT_EQ(actors(64, 16), 16);
  EXPECT_EQ(actors(40, 4), 5);
  EXPECT_EQ(actors(3, 4), 3);
}

TEST(VecOptions, HowItIsRunDoesNotChangeTheHash) {
  Config config(VecOptions::schema());
  const std::string hash = config.sha256();
  for (const char* each : {"backend=threads", "groups=2", "threads=3", "workers=3",
                           "start_method=fork", "step_timeout_s=1", "crash_dir=x"}) {
    config.apply_override(each);
  }
  EXPECT_EQ(config.sha256(), hash);
  config.apply_override("num_envs=2");
  EXPECT_NE(config.sha256(), hash);
}

TEST(VecOptions, ImpossibleOnesAreRefused) {
  const auto text = [](const std::function<void(VecOptions&)>& change) {
    VecOptions options;
    options.num_envs = 8;
    change(options);
    return error_text(ErrorCode::kUsage, [&] { options.validate(); });
  };
  EXPECT_EQ(text([](VecOptions&) {}), "no error");
  EXPECT_EQ(text([](VecOptions& o) { o.num_envs = 0; }),
            "num_envs: expected an integer from 1 to 1000000, got 0");
  EXPECT_EQ(text([](VecOptions& o) { o.num_envs = kMaxEnvs + 1; }),
            "num_envs: expected an integer from 1 to 1000000, got 1000001");
  EXPECT_EQ(text([](VecOptions& o) { o.groups = 3; }),
            "groups: expected an integer from 1 to 2, got 3");
  EXPECT_EQ(text([](VecOptions& o) { o.num_envs = 1, o.groups = 2; }),
            "groups: expected an integer from 1 to 1 (num_envs), got 2");
  EXPECT_EQ(text([](VecOptions& o) { o.backend = Backend::kThreads, o.threads = 0; }),
            "threads: expected an integer from 1 to 1024, got 0");
  EXPECT_EQ(text([](VecOptions& o) { o.backend = Backend::kProcesses, o.workers = 9; }),
            "workers: expected an integer from 1 to 8 (num_envs), got 9");
  EXPECT_EQ(text([](VecOptions& o) { o.backend = Backend::kProcesses, o.workers = 0; }),
            "workers: expected an integer from 1 to 8 (num_envs), got 0");
}

TEST(Spans, GroupsAndLanesCoverTheEnvsOnce) {
  for (const int envs : {1, 2, 7, 16, 31, 64, 65, 200, 1000}) {
    for (int groups = 1; groups <= std::min(envs, 2); ++groups) {
      for (const int lanes : {1, 2, 3, 5, 16}) {
        std::vector<int> times(static_cast<size_t>(envs));
        std::vector<int> busy(static_cast<size_t>(lanes));  // groups that a lane has envs of
        for (int g = 0; g < groups; ++g) {
          const Span group = group_span(envs, groups, g);
          EXPECT_GT(group.size(), 0);
          for (int lane = 0; lane < lanes; ++lane) {
            const Span mine = lane_span(group, g, lanes, lane);
            ASSERT_TRUE(mine.size() == 0 || (mine.begin >= group.begin && mine.end <= group.end));
            for (int env = mine.begin; env < mine.end; ++env) ++times[static_cast<size_t>(env)];
            busy[static_cast<size_t>(lane)] += mine.size() > 0 ? 1 : 0;
          }
        }
        ASSERT_EQ(times, std::vector<int>(static_cast<size_t>(envs), 1));
        if (lanes % 2 == 0 && envs <= lanes) {
          EXPECT_LE(std::ranges::max(busy), 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace flotilla
