// flotilla export RUN: the metrics of a run as CSV.
#include <cstdio>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/report/run_data.h"

namespace flotilla {
namespace {

void export_metrics(const std::string& path, std::string out) {
  const RunData run = read_run(path);
  if (run.from_csv)
    throw Error(ErrorCode::kUsage, "export: expected a run directory, got a CSV file");
  require_metrics(run);
  const std::string csv = to_csv(run.metrics);
  if (out == "-") {
    std::fwrite(csv.data(), 1, csv.size(), stdout);
    return;
  }
  if (out.empty()) {
    run.directory->write("metrics.csv", csv);
    out = run.directory->path("metrics.csv");
  } else {
    write_file_atomically(out, csv);
  }
  display(for_terminal(out, Lines::kOne) + "\n");
}

}  // namespace

void add_export_command(Command& root) {
  Command& command = root.add("export", "write the metrics of a run as CSV");
  struct State {
    std::string run, out;
  };
  auto state = std::make_shared<State>();
  command.option("run", state->run, "run directory").required();
  command.option("--out", state->out, "file (default RUN/metrics.csv; -: stdout)");
  command.action([state] { export_metrics(state->run, state->out); });
}

}  // namespace flotilla
