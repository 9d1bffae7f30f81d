// flotilla compare RUN RUN ...: runs side by side, as a table and as curves.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <optional>

#include "flotilla/cli/commands.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/comparison_text.h"

namespace flotilla {
namespace {

void require_something(const RunData& run) {
  if (run.finished() || !run.metrics.empty()) return;
  throw Error(ErrorCode::kData, in_quotes(run.path) + " has neither metrics nor a summary yet");
}

void compare_runs(const std::vector<std::string>& paths, std::optional<double> score,
                  const std::string& out, bool json) {
  if (paths.size() < 2) {
    throw Error(ErrorCode::kUsage,
                fmt::format("compare needs two runs or more, got {}", paths.size()));
  }
  if (score && !std::isfinite(*score)) {
    throw Error(ErrorCode::kUsage, "--score: expected a finite number");
  }
  const Activity reading("reading runs");
  std::vector<RunData> runs;
  for (const std::string& path : paths) {
    runs.push_back(read_run(path));
    require_something(runs.back());
  }
  const Comparison comparison = compare(runs, score);
  write_report(out, ".svg", render_svg(comparison_figure(runs, comparison)));
  if (json) {
    Json result = to_json(comparison);
    result["plot"] = out;
    display_data(result.dump(-1, Json::StrayBytes::kReplace) + "\n");
  } else {
    display(to_text(comparison, terminal_width(Stream::kOut)) + "learning curves: " + out + "\n");
  }
}

}  // namespace

void add_compare_command(Command& root) {
  Command& command = root.add("compare", "put runs side by side: speed, score, settings");
  struct State {
    std::vector<std::string> runs;
    std::optional<double> score;
    std::string out = "compare.svg";
    bool json = false;
  };
  auto state = std::make_shared<State>();
  command.option("runs", state->runs, "run directories, or CSV files; the first is the base")
      .required();
  command.option("--score", state->score,
                 "return whose first time counts (default: one that all runs reached)");
  command.option("--out", state->out, "file of the curves (default compare.svg)");
  command.flag("--json", state->json, "print one JSON object");
  command.action([state] { compare_runs(state->runs, state->score, state->out, state->json); });
}

}  // namespace flotilla
