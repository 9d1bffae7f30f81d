// flotilla plot RUN: the curves of a run as SVG.
#include <filesystem>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/core/directory.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/run_figures.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

// Beside the metrics.
Directory default_folder(const RunData& run) {
  if (run.directory) return run.directory->make_folder("plots");
  const std::string parent = fs::path(run.path).parent_path().string();
  return Directory(parent.empty() ? "." : parent).make_folder("plots");
}

void plot(const std::string& path, const std::string& out, bool json) {
  const RunData run = read_run(path);
  require_metrics(run);
  std::vector<std::pair<const char*, Figure>> figures = {{"learning.svg", learning_figure(run)},
                                                         {"losses.svg", losses_figure(run)},
                                                         {"timing.svg", timing_figure(run)}};
  std::erase_if(figures, [](const auto& named) { return named.second.panels.empty(); });
  if (figures.empty()) {
    throw Error(ErrorCode::kData, in_quotes(path) + " has no metric that can be drawn");
  }
  const Directory folder = out.empty() ? default_folder(run) : Directory::make(out);
  Json files = Json::array();
  for (const auto& [name, figure] : figures) {
    const std::string file = folder.path(name);
    folder.write(name, render_svg(figure));
    files.push_back(file);
    if (!json) display(for_terminal(file, Lines::kOne) + "\n");
  }
  if (json) {
    const Json result = {{"run", run.path}, {"finished", run.finished()}, {"files", files}};
    display_data(result.dump(-1, Json::StrayBytes::kReplace) + "\n");
  }
}

}  // namespace

void add_plot_command(Command& root) {
  Command& command = root.add("plot", "draw the curves of a run");
  struct State {
    std::string run, out;
    bool json = false;
  };
  auto state = std::make_shared<State>();
  command.option("run", state->run, "run directory, or a CSV file").required();
  command.option("--out", state->out, "folder for the pictures (default RUN/plots)");
  command.flag("--json", state->json, "print the names of the files as one JSON object");
  command.action([state] { plot(state->run, state->out, state->json); });
}

}  // namespace flotilla
