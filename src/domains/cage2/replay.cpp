#include "flotilla/domains/cage2/replay.h"

#include <fmt/format.h>

#include "flotilla/domains/cage2/exact_source.h"

namespace flotilla::cage2 {
namespace {

// The same game twice: with the table of the challenge and with that of the stock wrapper.
template <class Source>
struct Game {
  Game(const RecordedEpisode& episode, bool legacy, Source first)
      : rules{.legacy = legacy, .green = episode.green, .stock_table = false},
        source(std::move(first)) {
    Simulator<Source>(state, rules, source).reset(episode.red);
  }
  StepRecord step(int action) { return Simulator<Source>(state, rules, source).step(action); }

  Rules rules;
  Source source;
  State state{};
};

void compare(const RecordedEpisode& episode, size_t step, const std::vector<std::string>& got,
             ReplayResult& result) {
  const std::vector<std::string>& expected = episode.steps[step].facts;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i]) continue;
    if (result.mismatches++ > 0) continue;
    result.first_mismatch = fmt::format("line {}, step {}, {}: expected {}, got {}", episode.line,
                                        step + 1, fact_names()[i], expected[i], got[i]);
  }
}

template <class Source, class Prepare, class Ordinal>
void replay_episode(const RecordedEpisode& episode, bool legacy, const Source& source,
                    const Prepare& prepare, const Ordinal& ordinal, ReplayResult& result) {
  Game<Source> game(episode, legacy, source), stock(episode, legacy, source);
  stock.rules.stock_table = true;
  for (size_t i = 0; i < episode.steps.size(); ++i) {
    const RecordedStep& step = episode.steps[i];
    prepare(game.source, step);
    prepare(stock.source, step);
    const StepRecord record = game.step(step.blue_action);
    stock.step(step.blue_action);
    compare(episode, i, facts_of(game.state, record, ordinal(game.source, step), stock.state.table),
            result);
    ++result.steps;
  }
  ++result.episodes;
}

}  // namespace

ReplayResult replay(const std::string& path, ReplayMode mode, bool legacy) {
  ReplayResult result;
  Recording recording(path);
  while (const auto episode = recording.next()) {
    if (mode == ReplayMode::kOutcomes) {
      replay_episode(
          *episode, legacy, RecordedSource(),
          [](RecordedSource& source, const RecordedStep& step) { source.set(step.choices); },
          [](const RecordedSource&, const RecordedStep& step) { return step.choices.escalated; },
          result);
    } else {
      replay_episode(
          *episode, legacy, ExactSource(episode->seed), [](ExactSource&, const RecordedStep&) {},
          [](const ExactSource& source, const RecordedStep&) { return source.last_ordinal(); },
          result);
    }
  }
  return result;
}

}  // namespace flotilla::cage2
