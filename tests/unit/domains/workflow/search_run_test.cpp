// A search from its first choice to its files: when training stops, whose weights are inherited,
// which orders are chosen, and what is left when it was cut short.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "flotilla/core/csv.h"
#include "flotilla/core/file.h"
#include "flotilla/domains/classic/workflows.h"
#include "flotilla/domains/workflow/search.h"
#include "flotilla/train/recipes.h"
#include "support/batch.h"
#include "support/error_text.h"

namespace flotilla::workflow {
namespace {

namespace fs = std::filesystem;
using test::error_text;

TEST(ComplianceStop, NeedsEpisodesOfEveryEnvAndActs) {
  ComplianceStop stop({.threshold = 0.9, .min_episodes = 3, .window = 2, .min_acts = 5}, 2);
  EXPECT_EQ(stop.compliance(), 0);
  for (int i = 0; i < 3; ++i) stop.note(0, 1, 1);
  EXPECT_EQ(stop.compliance(), 1) << "of the env that has played";
  EXPECT_FALSE(stop.reached()) << "the other env has not played";
  stop.note(1, 0, 1);
  stop.note(1, 1, 0);
  EXPECT_DOUBLE_EQ(stop.compliance(), 0.75);
  stop.note(1, 1, 0);  // the first one leaves the window
  EXPECT_EQ(stop.compliance(), 1);
  EXPECT_FALSE(stop.reached()) << "four acts";
  stop.note(1, 0.8, 1);
  EXPECT_DOUBLE_EQ(stop.compliance(), 0.95);
  EXPECT_TRUE(stop.reached());
  stop.note(0, 0.5, 1);
  EXPECT_FALSE(stop.reached()) << "the threshold is judged anew with every episode";
}

class SearchTest : public testing::Test {
 protected:
  SearchTest() { fs::create_directories(root_); }
  ~SearchTest() override { fs::remove_all(root_); }

  static const Domain& corners() { return classic::workflows()[0]; }

  // Short trainings of a small network; `more` are "key=value" of the search, and after a "/" of
  // the training.
  struct Settings {
    Config options{SearchOptions::schema()};
    Config training = load_run_config(
        test::shipped(), "corners-workflow", false,
        {"net.hidden=8", "horizon=32", "env.time_limit=32", "eval.episodes=4", "threads=1"});
    explicit Settings(const std::vector<std::string>& more) {
      for (const char* each : {"n_envs=3", "n_workflows=4", "episodes_per_env=2"}) {
        options.apply_override(each);
      }
      for (const std::string& each : more) {
        if (each.starts_with("/")) {
          training.apply_override(each.substr(1));
        } else {
          options.apply_override(each);
        }
      }
    }
  };
  std::string path(const std::string& name) const { return root_ + "/" + name; }
  Search open(const std::string& name, const std::vector<std::string>& more = {}) const {
    const Settings settings(more);
    return {corners(), test::shipped(), path(name), settings.options, settings.training};
  }
  std::vector<Trained> searched(const std::string& name,
                                const std::vector<std::string>& more) const {
    Search search = open(name, more);
    search.run();
    return search.history();
  }
  std::string bytes(const std::string& file) const {
    return read_whole_file(path(file), size_t{1} << 24u);
  }

  const std::string root_ =
      fs::temp_directory_path() / ("flotilla-search-" + std::to_string(getpid()));
};

std::vector<int> orders_of(const std::vector<Trained>& history) {
  std::vector<int> orders;
  for (const Trained& each : history) orders.push_back(each.order);
  return orders;
}

TEST_F(SearchTest, ChoosesAsItsMethodSays) {
  EXPECT_EQ(orders_of(searched("exhaustive", {"acquisition=exhaustive"})),
            (std::vector<int>{0, 1, 2, 3}));
  const auto random = orders_of(searched("random", {"acquisition=random", "n_workflows=24"}));
  EXPECT_EQ(std::set<int>(random.begin(), random.end()).size(), 24u) << "none twice";
  EXPECT_NE(random,
            orders_of(searched("random1", {"acquisition=random", "n_workflows=24", "seed=1"})));
}

// In the earlier system a workflow that missed the gate was never told to the search, which chose
// it again for ever.
TEST_F(SearchTest, TheGateKeepsFailuresFromTheOldScoring) {
  EXPECT_EQ(orders_of(searched("gated", {"acquisition=legacy"})), (std::vector<int>{0, 0, 0, 0}));
  EXPECT_NE(orders_of(searched("open", {"acquisition=legacy", "gate=false"})),
            (std::vector<int>{0, 0, 0, 0}));
}

TEST_F(SearchTest, InheritsTheWeightsItIsToldTo) {
  // Nothing is learnt, so that weights show where they come from.
  const auto weights = [this](const std::string& inherit) {
    Search search = open(
        inherit, {"acquisition=exhaustive", "inherit=" + inherit, "/ppo.lr=0", "n_workflows=26"});
    search.run();
    std::vector<std::string> sha;
    for (const Trained& each : search.history()) sha.push_back(each.params_sha256);
    return sha;
  };
  const auto distinct = [](const std::vector<std::string>& sha) {
    return std::set<std::string>(sha.begin(), sha.end()).size();
  };
  EXPECT_EQ(distinct(weights("none")), 26u);
  EXPECT_EQ(distinct(weights("previous")), 1u);
  EXPECT_EQ(distinct(weights("nearest")), 1u) << "there is always one that is nearest";
  const auto own = weights("own");
  EXPECT_EQ(distinct(own), 24u);
  EXPECT_EQ(own[24], own[0]);
  EXPECT_EQ(own[25], own[1]);
}

TEST(Inheritance, IsOfTheLastTheNearestOrItsOwn) {
  using Inherit = SearchOptions::Inherit;
  const Orders orders(3);  // 012 021 102 120 201 210
  std::vector<Trained> history;
  const auto from = [&](int order, Inherit inherit) -> int {
    const auto source = inherited(orders, history, order, inherit);
    return source ? static_cast<int>(*source) : -1;
  };
  for (const Inherit each : {Inherit::kNone, Inherit::kPrevious, Inherit::kNearest}) {
    EXPECT_EQ(from(0, each), -1) << "nothing was trained";
  }
  for (const int order : {5, 1, 2, 5}) history.emplace_back().order = order;
  EXPECT_EQ(from(0, Inherit::kNone), -1);
  EXPECT_EQ(from(0, Inherit::kPrevious), 3);
  EXPECT_EQ(from(0, Inherit::kNearest), 1) << "021 and 102 are as near: the earlier one";
  EXPECT_EQ(from(4, Inherit::kNearest), 0) << "210 and 021 are as near: the earlier one";
  EXPECT_EQ(from(5, Inherit::kNearest), 3) << "of its own the last";
  EXPECT_EQ(from(5, Inherit::kOwn), 3);
  EXPECT_EQ(from(0, Inherit::kOwn), -1);
}

TEST_F(SearchTest, EndsWithItsBudgetOfEpisodes) {
  Search search = open("budget", {"n_workflows=0", "episodes=13"});
  search.run();
  EXPECT_EQ(search.history().size(), 3u) << "six or a few more episodes each";
  EXPECT_GE(search.episodes_used(), 13);
  EXPECT_NE(error_text(ErrorCode::kUsage, [&] { open("none", {"n_workflows=0"}); }).find("0 work"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("none"))) << "nothing is left of what is refused";
}

TEST_F(SearchTest, TheLogsAgreeWithTheHistory) {
  const auto history = searched("logs", {});
  const CsvTable choices = read_csv_file(path("logs/gp_sampling_log.csv"));
  ASSERT_EQ(choices.rows(), history.size());
  const CsvTable training = read_csv_file(path("logs/training_log.csv"));
  int64_t episodes = 0, complete = 0;
  for (size_t row = 0; row < training.rows(); ++row) {
    const auto type = training.text(row, training.column("Type"));
    episodes += type == "episode" ? 1 : 0;
    if (type != "workflow_complete") continue;
    const Trained& trained = history[static_cast<size_t>(complete++)];
    EXPECT_NEAR(training.number(row, training.column("Eval_Reward")), trained.value, 0.0051);
    EXPECT_NEAR(training.number(row, training.column("Compliance")), trained.compliance, 5.1e-5);
  }
  EXPECT_EQ(complete, 4);
  int64_t trained = 0;
  for (const Trained& each : history) trained += each.episodes;
  EXPECT_EQ(episodes, trained);
  EXPECT_TRUE(fs::exists(path("logs/policies/4.safetensors")));
}

TEST_F(SearchTest, GoesOnAsIfItHadNotBeenKilled) {
  searched("whole", {"inherit=nearest"});
  open("cut", {"inherit=nearest", "n_workflows=2"}).run();
  // What a kill in the middle of the third workflow may leave.
  std::ofstream(path("cut/training_log.csv"), std::ios::app) << "3,half a row";
  std::ofstream(path("cut/gp_sampling_log.csv"), std::ios::app) << "3,";
  std::ofstream(path("cut/policies/3.safetensors")) << "torn";
  const auto longer = [](Config& options, Config&) { options.set("n_workflows", "4"); };
  Search::resume(corners(), test::shipped(), path("cut"), longer)->run();
  for (const char* file : {"search.json", "search.yaml", "training_log.csv", "gp_sampling_log.csv",
                           "policies/3.safetensors", "policies/4.safetensors"}) {
    EXPECT_EQ(bytes(std::string("cut/") + file), bytes(std::string("whole/") + file)) << file;
  }
}

TEST_F(SearchTest, DoesNotDependOnTheLayout) {
  open("serial", {"/backend=serial"}).run();
  open("threads", {"/backend=threads", "/threads=3"}).run();
  open("processes", {"/backend=processes", "/workers=2"}).run();
  EXPECT_EQ(bytes("threads/search.json"), bytes("serial/search.json"));
  EXPECT_EQ(bytes("processes/search.json"), bytes("serial/search.json"));
}

TEST_F(SearchTest, RefusesWhatItCannotGoOnWith) {
  open("one", {"n_workflows=1"}).run();
  const auto refusal = [this](ErrorCode code, const Search::Adjust& adjust = {}) {
    return error_text(code,
                      [&] { Search::resume(corners(), test::shipped(), path("one"), adjust); });
  };
  EXPECT_NE(refusal(ErrorCode::kUsage, [](Config& options, Config&) { options.set("beta", "3"); })
                .find("cannot change beta from"),
            std::string::npos);
  EXPECT_NE(
      refusal(ErrorCode::kUsage, [](Config&, Config& training) { training.set("ppo.lr", "0.5"); })
          .find("ppo.learning_rate"),
      std::string::npos);

  // Without its checksum, as older programs wrote it.
  const std::string whole =
      std::regex_replace(bytes("one/search.json"), std::regex(",\\s*\"sha256\": \"\\w+\""), "");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    std::ofstream(path("one/search.json")) << text.replace(at, from.size(), to);
    return refusal(ErrorCode::kData);
  };
  EXPECT_NE(with("{", "[").find("search.json: is not JSON"), std::string::npos);
  EXPECT_NE(with("\"format\": 1", "\"format\": 9").find("format 9"), std::string::npos);
  EXPECT_NE(with("\"corners\"", "\"maze\"").find("'maze'"), std::string::npos);
  EXPECT_NE(with("\"success\": false", "\"success\": 3").find("iteration 1: 'success'"),
            std::string::npos);
  EXPECT_NE(with("\"training_log.csv\": ", "\"training_log.csv\": 1").find("training_log.csv"),
            std::string::npos);
}

}  // namespace
}  // namespace flotilla::workflow
