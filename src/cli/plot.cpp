// flotilla plot RUN: the curves of a run as SVG.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/text.h"
#include "flotilla/report/run_figures.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

// Beside the metrics.
std::string default_folder(const RunData& run) {
  const fs::path path(run.path);
  return ((run.from_csv ? path.parent_path() : path) / "plots").string();
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (!error && fs::is_directory(path, error)) return;
  throw Error(ErrorCode::kUsage,
              fmt::format("cannot make the folder {}: {}", in_quotes(path),
                          error ? error.message() : "a file of that name is there"));
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
  const std::string folder = out.empty() ? default_folder(run) : out;
  make_folder(folder);
  Json files = Json::array();
  for (const auto& [name, figure] : figures) {
    const std::string file = (fs::path(folder) / name).string();
    write_file_atomically(file, render_svg(figure));
    files.push_back(file);
    if (!json) fmt::print("{}\n", file);
  }
  if (json) {
    const Json result = {{"run", run.path}, {"finished", run.finished()}, {"files", files}};
    fmt::print("{}\n", result.dump(-1, Json::StrayBytes::kReplace));
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
