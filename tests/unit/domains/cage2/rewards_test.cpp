// Rewards of own games against the statistics of the reference simulator: four ways to play blue,
// all attackers, both versions, after 30, 50 and 100 steps.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "flotilla/core/csv.h"
#include "flotilla/core/rng.h"
#include "flotilla/domains/cage2/cage2_env.h"
#include "support/build.h"
#include "support/source_dir.h"

namespace flotilla::cage2 {
namespace {

constexpr std::array<int, 3> kLengths = {30, 50, 100};
// What blue looks after, the most important first.
constexpr std::array<int, 11> kPriorities = {kOpServer0, kEnterprise2, kEnterprise1, kEnterprise0,
                                             kOpHost0,   kOpHost1,     kOpHost2,     kUser1,
                                             kUser2,     kUser3,       kUser4};
constexpr std::array<int, 20> kDecoysFirst = {55,  43,  44, 29,  107, 61,  37,  76,  51, 91,
                                              131, 113, 90, 130, 102, 120, 116, 115, 35, 126};

int first_believed(const State& s, std::initializer_list<unsigned> beliefs) {
  for (const int host : kPriorities) {
    for (const unsigned belief : beliefs) {
      if (s.belief(host) == belief) return host;
    }
  }
  return -1;
}

int heuristic(const State& s) {
  if (const int host = first_believed(s, {kUnknownAccess, kPrivilegedAccess}); host >= 0) {
    return blue_index(kRestore, host);
  }
  if (const int host = first_believed(s, {kUserAccess}); host >= 0) {
    return blue_index(kRemove, host);
  }
  return 1;
}

int decoys(const State& s, int step, int previous) {
  if (step < 20) return kDecoysFirst[static_cast<size_t>(step)];
  if (const int host = first_believed(s, {kPrivilegedAccess}); host >= 0) {
    return blue_index(kRestore, host);
  }
  if (const int host = first_believed(s, {kUnknownAccess}); host >= 0) {
    const int analyse = blue_index(kAnalyse, host);
    return previous == analyse ? blue_index(kRestore, host) : analyse;
  }
  if (const int host = first_believed(s, {kUserAccess}); host >= 0) {
    return blue_index(kRemove, host);
  }
  return 0;
}

int blue(std::string_view name, const State& s, int step, int previous, Rng& rng) {
  if (name == "sleep") return 0;
  if (name == "random") return static_cast<int>(rng.below(kBlueActions));
  return name == "heur" ? heuristic(s) : decoys(s, step, previous);
}

struct Moments {
  double sum = 0, squares = 0;
  void add(double x) {
    sum += x;
    squares += x * x;
  }
  double mean(int n) const { return sum / n; }
  double variance(int n) const { return (squares - sum * sum / n) / (n - 1); }
};

std::array<Moments, 3> play(const Cage2& env, std::string_view name, int episodes) {
  std::array<Moments, 3> rewards;
  for (int episode = 0; episode < episodes; ++episode) {
    Rng game(2024, stream_of(Purpose::kEnv, static_cast<uint64_t>(episode)));
    Rng own(2024, stream_of(Purpose::kAction, static_cast<uint64_t>(episode)));
    State state;
    env.reset(state, game);
    RandomSource source(game);
    int previous = -1;
    for (int step = 0; step < kLengths.back(); ++step) {
      previous = blue(name, state, step, previous, own);
      env.play(state, previous, source);
      for (size_t i = 0; i < kLengths.size(); ++i) {
        if (step + 1 == kLengths[i]) rewards[i].add(-state.cost / 10.0);
      }
    }
  }
  return rewards;
}

TEST(Rewards, AreThoseOfTheReference) {
  const int episodes = test::kSanitized ? 200 : 5000;
  const CsvTable table = read_csv_file(test::source_dir() + "/tests/golden/cage2/summary.csv");
  ASSERT_EQ(table.rows(), 30u);
  const auto text = [&](size_t row, const char* name) {
    return std::string(table.text(row, table.column(name)));
  };
  for (size_t row = 0; row < table.rows(); ++row) {
    const std::string name = text(row, "blue");
    Config config(Cage2::schema());
    config.set("red", text(row, "red"));
    config.set("green", text(row, "green") == "on" ? "true" : "false");
    config.set("version", text(row, "version") == "head" ? "head" : "legacy");
    const auto rewards = play(Cage2(config), name, episodes);
    const double theirs = table.number(row, table.column("episodes"));
    for (size_t i = 0; i < kLengths.size(); ++i) {
      const std::string length = std::to_string(kLengths[i]);
      const double mean = table.number(row, table.column("mean" + length));
      const double deviation = table.number(row, table.column("std" + length));
      const double error =
          std::sqrt(deviation * deviation / theirs + rewards[i].variance(episodes) / episodes);
      // Printed with three digits.
      EXPECT_NEAR(rewards[i].mean(episodes), mean, 3.5 * error + 5e-4)
          << text(row, "version") << " " << text(row, "red") << " " << name << " green "
          << text(row, "green") << ", " << length << " steps";
    }
  }
}

}  // namespace
}  // namespace flotilla::cage2
