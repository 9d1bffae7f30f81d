// flotilla dvrp oracle VERB: the network that routes.
//   train   makes one
//   eval    compares its routes with those of a solver
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>

#include "flotilla/cli/dvrp.h"
#include "flotilla/cli/status_line.h"
#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/domains/dvrp/oracle/training.h"

namespace flotilla {
namespace {

using dvrp::OracleTraining;

struct TrainArguments {
  SchemaFlags flags{dvrp::TrainingOptions::schema()};
  std::string data, out, resume;
  bool json = false;
};

std::unique_ptr<OracleTraining> open_training(const dvrp::Data& data,
                                              const TrainArguments& arguments) {
  const auto adjust = [&](Config& config) {
    for (const auto& [key, text] : arguments.flags.given()) config.set(key, text);
  };
  if (!arguments.resume.empty()) return OracleTraining::resume(data, arguments.resume, adjust);
  Config config(dvrp::TrainingOptions::schema());
  adjust(config);
  return std::make_unique<OracleTraining>(data, config, arguments.out);
}

void train(const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop
  const dvrp::Data data = dvrp_data_of(arguments.data);
  const std::unique_ptr<OracleTraining> training = open_training(data, arguments);
  wait_for_interrupted_work("\nflotilla: interrupted: this step ends (again: stop at once)\n");
  const int64_t begin = training->step();
  const uint64_t begin_ns = now_ns();
  training->run([&](const OracleTraining::Point& point) {
    const double rate =
        static_cast<double>(point.step - begin) / (static_cast<double>(now_ns() - begin_ns) * 1e-9);
    say(
        fmt::format("step {}/{}  {} {:.4f}  above the solver: {:.2f} % of 10, {:.2f} % of {} "
                    "requests  {:.1f} steps/s, {:.0f} s left\n",
                    point.step, training->steps(), point.imitation ? "-log p" : "minutes",
                    point.loss, point.gap_10, point.gap_30, training->options().customers, rate,
                    static_cast<double>(training->steps() - point.step) / rate));
  });
  if (training->curve().empty()) return;
  const OracleTraining::Point& last = training->curve().back();
  if (arguments.json) {
    const nlohmann::ordered_json line = {
        {"step", training->step()}, {"steps", training->steps()}, {"gap_10", last.gap_10},
        {"gap_30", last.gap_30},    {"wall_s", last.wall_s},      {"directory", training->path()}};
    fmt::print("{}\n", line.dump());
    return;
  }
  fmt::print(
      "{} of {} steps; greedy tours {:.2f} % above the solver's; weights in "
      "{}/oracle.safetensors\n",
      training->step(), training->steps(), last.gap_30, training->path());
  if (training->step() < training->steps())
    fmt::print("go on with --resume {}\n", training->path());
}

void add_train(CLI::App& oracle) {
  CLI::App* command =
      oracle.add_subcommand("train", "imitate the solver, then learn from one's own tours");
  auto arguments = std::make_shared<TrainArguments>();
  command->add_option("--data", arguments->data, kDvrpDataHelp);
  CLI::Option* out = command->add_option(
      "--out", arguments->out, "directory of the training (default runs/dvrp-oracle-seedS-TIME)");
  command->add_option("--resume", arguments->resume, "go on with the training in this directory")
      ->excludes(out);
  arguments->flags.add_to(*command, {});
  command->add_flag("--json", arguments->json, "print one JSON object on stdout");
  command->callback([arguments] { train(*arguments); });
}

}  // namespace

void add_dvrp_oracle(CLI::App& dvrp) {
  CLI::App* command =
      dvrp.add_subcommand("oracle", "the network that routes many instances at once");
  command->require_subcommand(1);
  add_train(*command);
}

}  // namespace flotilla
