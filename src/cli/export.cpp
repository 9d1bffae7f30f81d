// flotilla export RUN: the metrics of a run as CSV, or its policy as an ONNX model.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "flotilla/cli/commands.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/onnx.h"
#include "flotilla/report/run_data.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

struct ExportArguments {
  std::string run, format = "csv", checkpoint = "last", out;
};

// `folder` and `name`: where it goes unless `out` says so.
void write(const std::string& bytes, const std::string& out, const Directory& folder,
           const std::string& name) {
  if (out == "-") {
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return;
  }
  if (out.empty()) {
    folder.write(name, bytes);
  } else {
    write_report(out, name.ends_with(".onnx") ? ".onnx" : ".csv", bytes);
  }
  display(for_terminal(out.empty() ? folder.path(name) : out, Lines::kOne) + "\n");
}

void export_metrics(const ExportArguments& arguments) {
  const RunData run = read_run(arguments.run);
  if (run.from_csv)
    throw Error(ErrorCode::kUsage, "export: expected a run directory, got a CSV file");
  require_metrics(run);
  write(to_csv(run.metrics), arguments.out, *run.directory, "metrics.csv");
}

// Into the directory of a run, or beside a policy file.
void export_policy(const ExportArguments& arguments) {
  namespace fs = std::filesystem;
  const std::string model = encode_onnx(find_policy(arguments.run, arguments.checkpoint));
  if (fs::is_directory(arguments.run)) {
    return write(model, arguments.out, Directory(arguments.run), "policy.onnx");
  }
  const fs::path file(arguments.run);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  write(model, arguments.out, Directory(folder.string()), file.stem().string() + ".onnx");
}

}  // namespace

void add_export_command(Command& root) {
  Command& command =
      root.add("export", "write the metrics of a run as CSV, or its policy as an ONNX model");
  auto arguments = std::make_shared<ExportArguments>();
  command.option("run", arguments->run, "run directory; with --format onnx also a policy file")
      .required();
  command
      .option("--format", arguments->format,
              "csv: the metrics; onnx: the policy, normaliser included (default csv)")
      .choices({"csv", "onnx"});
  const Option checkpoint = command.option("--checkpoint", arguments->checkpoint,
                                           "with onnx: last, best, or a step (default last)");
  command.option("--out", arguments->out,
                 "file (default RUN/metrics.csv or RUN/policy.onnx; -: stdout)");
  command.action([arguments, checkpoint] {
    if (arguments->format == "onnx") return export_policy(*arguments);
    if (checkpoint.given()) {
      throw Error(ErrorCode::kUsage, "--checkpoint: metrics have none; give --format onnx as well");
    }
    export_metrics(*arguments);
  });
}

}  // namespace flotilla
