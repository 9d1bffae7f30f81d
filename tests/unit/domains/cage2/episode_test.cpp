// One episode, played and drawn.
#include "flotilla/domains/cage2/episode.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "flotilla/domains/cage2/cage2_env.h"
#include "flotilla/domains/cage2/episode_figure.h"
#include "support/error_text.h"
#include "support/source_dir.h"
#include "unit/domains/cage2/files.h"

namespace flotilla::cage2 {
namespace {

namespace fs = std::filesystem;

size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(
      std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

template <class Test>
size_t count_steps(const Episode& episode, const Test& test) {
  return static_cast<size_t>(std::ranges::count_if(episode.steps, test));
}

bool in_group(const EpisodeStep& step, int first, int last) {
  return step.blue >= blue_index(first, 0) && step.blue < blue_index(last + 1, 0);
}

// The environment of the policy, against one attacker.
Cage2 env_of(const PolicyFile& file, const std::string& red) {
  Config config(Cage2::schema());
  config.load_yaml_text(file.origin.env_config, file.tensors.origin);
  config.set("red", red);
  return Cage2(config);
}

TEST(Episode, IsTheGameThatItsActionsGive) {
  const PolicyFile file = shipped_defender();
  for (const std::string red : {"bline", "meander", "sleep"}) {
    const Episode episode = play_episode(file, {.seed = 7, .red = red, .steps = {}});
    ASSERT_EQ(episode.steps.size(), 100u);
    const Cage2 env = env_of(file, red);
    Rng rng(7, stream_of(Purpose::kEnv, 0));
    State state{};
    env.reset(state, rng);
    EXPECT_EQ(episode.red, state.red);
    double sum = 0;
    for (const EpisodeStep& step : episode.steps) {
      RandomSource source(rng);
      const Outcome outcome = env.play(state, step.blue, source);
      sum += step.reward;
      EXPECT_FLOAT_EQ(static_cast<float>(step.reward), outcome.reward);
      EXPECT_EQ(step.total, -state.cost / 10.0);
      EXPECT_EQ(step.ot_running, state.ot_running);
      EXPECT_EQ(step.red.action, state.last_action);
      EXPECT_EQ(step.red.target, state.last_target);
      EXPECT_EQ(step.red_result, state.last_result);
      for (size_t host = 0; host < kHosts; ++host) {
        const HostState& h = state.hosts[host];
        const int access = h.privileged > 0 ? 2 : h.flagged + h.unflagged > 0 ? 1 : 0;
        EXPECT_EQ(static_cast<int>(step.access[host]), access);
      }
    }
    EXPECT_NEAR(sum, -state.cost / 10.0, 1e-9);
    EXPECT_EQ(episode.total(), -state.cost / 10.0);
    // The policy has 36 actions; what is recorded is one of the 145.
    EXPECT_EQ(state.restores, count_steps(episode, [](const EpisodeStep& step) {
                return in_group(step, kRestore, kRestore);
              }));
    EXPECT_GT(count_steps(episode,
                          [](const EpisodeStep& step) {
                            return in_group(step, kFirstDecoy, kRestore - 1);
                          }),
              0u);
  }
}

TEST(Episode, WithoutAnAttackerItIsDrawnFromTheMix) {
  const PolicyFile file = shipped_defender();
  std::array<int, 3> found{};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Episode episode = play_episode(file, {.seed = seed, .steps = 1});
    ++found[static_cast<size_t>(episode.red)];
  }
  for (const int each : found) EXPECT_GT(each, 0);
}

TEST(Episode, IsSummedUpInALine) {
  Episode episode{.red = RedAgent::kBLine, .seed = 7, .steps = std::vector<EpisodeStep>(100)};
  episode.steps.back().total = -12.3;
  EXPECT_EQ(summary(episode), "B_line, seed 7, 100 steps: reward -12.3");
  episode.steps.resize(1);
  EXPECT_EQ(summary(episode), "B_line, seed 7, 1 step: reward 0.0");
}

TEST(Episode, IsOfCage2Only) {
  PolicyFile file = shipped_defender();
  file.origin.env = "cartpole";
  EXPECT_NE(
      test::error_text(ErrorCode::kUsage, [&] { play_episode(file, {}); }).find("not of cage2"),
      std::string::npos);
  file.origin.env = "cage2";
  file.origin.env_config = "red: nobody\n";
  EXPECT_NE(test::error_text(ErrorCode::kData, [&] { play_episode(file, {}); }).find("nobody"),
            std::string::npos);
}

// One action of every kind, half of red's without success.
Episode every_action() {
  Episode episode{.red = RedAgent::kMeander, .seed = 1, .steps = {}};
  constexpr int kDecoyTomcat = kFirstDecoy + int{kTomcat};
  const auto add = [&](int blue, RedMove red, Success result) {
    episode.steps.push_back({.blue = blue, .red = red, .red_result = result});
  };
  add(kSleep, {RedAction::kDiscoverSystems, kOperational}, Success::kFail);
  add(kMonitor, {RedAction::kDiscoverServices, kUser1}, Success::kOk);
  add(blue_index(kAnalyse, kUser1), {RedAction::kExploit, kUser1}, Success::kFail);
  add(blue_index(kRemove, kUser1), {RedAction::kExploit, kUser1}, Success::kOk);
  add(blue_index(kDecoyTomcat, kUser3), {RedAction::kEscalate, kUser1}, Success::kOk);
  add(blue_index(kRestore, kDefender), {RedAction::kImpact, kOpServer0}, Success::kOk);
  add(kMonitor, {}, Success::kUnknown);
  return episode;
}

TEST(EpisodeFigure, NamesEveryHostOnce) {
  const std::string svg = episode_svg(every_action());
  for (const char* name : kHostNames) EXPECT_EQ(count(svg, std::string(">") + name + "<"), 1u);
}

TEST(EpisodeFigure, EveryActionHasItsMark) {
  const std::string svg = episode_svg(every_action());
  for (const char* title :
       {"step 1: red, scan, Operational subnet, failed", "step 2: red, scan, User1",
        "step 3: blue, Analyse, User1", "step 3: red, exploit, User1, failed",
        "step 4: blue, Remove, User1", "step 4: red, exploit, User1",
        "step 5: blue, Decoy Tomcat, User3", "step 5: red, escalate, User1",
        "step 6: blue, Restore, Defender", "step 6: red, impact, Op_Server0"}) {
    EXPECT_EQ(count(svg, std::string("<title>") + title + "</title>\n<(polygon|circle) "), 1u)
        << title;
  }
  EXPECT_EQ(count(svg, "<title>step "), 10u);
  // Hollow are those that failed, and the sample in the legend.
  EXPECT_EQ(count(svg, "failed</title>\n<[^>]* fill=\"#ffffff\""), 2u);
  EXPECT_EQ(count(svg, "<(polygon|circle) [^>]*fill=\"#ffffff\""), 3u);
}

TEST(EpisodeFigure, MarksAreAsManyAsActions) {
  const Episode episode =
      play_episode(shipped_defender(), {.seed = 7, .red = "meander", .steps = {}});
  const std::string svg = episode_svg(episode);
  const auto blue = [&](int first, int last) {
    return count_steps(episode,
                       [&](const EpisodeStep& step) { return in_group(step, first, last); });
  };
  const auto red = [&](RedAction action) {
    return count_steps(episode, [&](const EpisodeStep& step) { return step.red.action == action; });
  };
  EXPECT_EQ(count(svg, ": blue, Analyse, "), blue(kAnalyse, kAnalyse));
  EXPECT_EQ(count(svg, ": blue, Remove, "), blue(kRemove, kRemove));
  EXPECT_EQ(count(svg, ": blue, Restore, "), blue(kRestore, kRestore));
  EXPECT_EQ(count(svg, ": blue, Decoy "), blue(kFirstDecoy, kRestore - 1));
  EXPECT_EQ(count(svg, ": red, scan, "),
            red(RedAction::kDiscoverServices) + red(RedAction::kDiscoverSystems));
  EXPECT_EQ(count(svg, ": red, exploit, "), red(RedAction::kExploit));
  EXPECT_EQ(count(svg, ": red, escalate, "), red(RedAction::kEscalate));
  EXPECT_EQ(count(svg, ": red, impact, "), red(RedAction::kImpact));
  EXPECT_GT(red(RedAction::kExploit), 10u);
}

// Stretches of equal cells are one rectangle each.
TEST(EpisodeFigure, CellsAreColouredByAccess) {
  Episode episode = every_action();
  const size_t before = count(episode_svg(episode), "<rect ");
  for (size_t i = 2; i < 5; ++i) episode.steps[i].access[kUser2] = Access::kUser;
  episode.steps[5].access[kUser2] = Access::kPrivileged;
  EXPECT_EQ(count(episode_svg(episode), "<rect "), before + 3);
  for (size_t i = 5; i < 7; ++i) episode.steps[i].ot_running = false;
  EXPECT_EQ(count(episode_svg(episode), "<rect "), before + 4);
}

TEST(EpisodeFigure, IsTheSameBytesTwice) {
  const EpisodeOptions options{.seed = 3, .red = "bline", .steps = 50};
  EXPECT_EQ(episode_svg(play_episode(shipped_defender(), options)),
            episode_svg(play_episode(shipped_defender(), options)));
}

TEST(EpisodeFigure, StaysOnThePaperHoweverLong) {
  for (const size_t steps : {size_t{0}, size_t{1}, size_t{2}, size_t{30}, size_t{1000}}) {
    Episode episode{.red = RedAgent::kSleep, .steps = std::vector<EpisodeStep>(steps)};
    for (size_t i = 0; i < steps; ++i) episode.steps[i].total = -10.0 * static_cast<double>(i);
    const std::string svg = episode_svg(episode);
    std::smatch size;
    ASSERT_TRUE(std::regex_search(svg, size, std::regex("viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
    const double width = std::stod(size[1]), height = std::stod(size[2]);
    const std::regex text("<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\"");
    for (std::sregex_iterator at(svg.begin(), svg.end(), text), end; at != end; ++at) {
      const double x = std::stod((*at)[1]), y = std::stod((*at)[2]);
      EXPECT_TRUE(x >= 0 && x < width && y > 0 && y < height) << at->str();
    }
    EXPECT_EQ(svg.find("nan"), svg.npos);
  }
}

}  // namespace
}  // namespace flotilla::cage2
