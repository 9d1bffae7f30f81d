// flotilla dvrp oracle VERB: the network that routes.
//   train   makes one
//   eval    compares its routes with those of a solver
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include "flotilla/command/schema_flags.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/domains/dvrp/commands/referee_arguments.h"
#include "flotilla/domains/dvrp/data/generate.h"
#include "flotilla/domains/dvrp/negotiation/judgement.h"
#include "flotilla/domains/dvrp/oracle/options.h"
#include "flotilla/domains/dvrp/oracle/size_exam.h"
#include "flotilla/domains/dvrp/oracle/training.h"
#include "flotilla/report/text_table.h"

namespace flotilla {
namespace {

using dvrp::OracleTraining;

dvrp::Data data_for(const std::string& directory, int customers) {
  constexpr int kMadeUp = dvrp::GenerateOptions{}.travellers;
  if (directory.empty()) {
    return dvrp::generate_data({.travellers = std::max(kMadeUp, customers)});
  }
  dvrp::Data data = dvrp_data_of(directory);
  if (customers <= data.travellers.count) return data;
  throw Error(ErrorCode::kUsage, fmt::format("--customers {}: there are {} travellers", customers,
                                             data.travellers.count));
}

struct TrainArguments {
  SchemaFlags flags{dvrp::TrainingOptions::schema()};
  std::string data, out, resume;
  bool json = false;
};

void adjust(Config& config, const TrainArguments& arguments) {
  for (const auto& [key, text] : arguments.flags.given()) {
    if (key == "init" && !arguments.resume.empty()) {
      throw Error(ErrorCode::kUsage, "--init is not for --resume, which goes on with its weights");
    }
    config.set(key, text);
  }
}

Config config_of(const TrainArguments& arguments) {
  Config config(dvrp::TrainingOptions::schema());
  if (!arguments.resume.empty()) config = OracleTraining::config_of(arguments.resume);
  adjust(config, arguments);
  return config;
}

void train(const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop
  const Config config = config_of(arguments);
  const dvrp::Data data =
      data_for(arguments.data, static_cast<int>(config.get_integer("customers")));
  const Activity learning("training");
  const auto training = arguments.resume.empty()
                            ? std::make_unique<OracleTraining>(data, config, arguments.out)
                            : OracleTraining::resume(data, config, arguments.resume);
  wait_for_interrupted_work("flotilla: interrupted: this step ends (again: stop at once)\n");
  const int64_t begin = training->step();
  const uint64_t begin_ns = now_ns();
  training->run([&](const OracleTraining::Point& point) {
    const double per_second = static_cast<double>(point.step - begin) / seconds_since(begin_ns);
    say(fmt::format(
        "step {}/{}  {} {:.4f}  above the solver: {:.2f} % of 10, {:.2f} % of {} "
        "requests  {} steps/s, {} left\n",
        point.step, training->steps(), point.imitation ? "-log p" : "minutes", point.loss,
        point.gap_10, point.gap_30, training->options().sizes.most, rate(per_second),
        rough_time(static_cast<double>(training->steps() - point.step) / per_second)));
  });
  if (training->curve().empty()) return;
  const OracleTraining::Point& last = training->curve().back();
  if (arguments.json) {
    const Json line = {{"step", training->step()}, {"steps", training->steps()},
                       {"gap_10", last.gap_10},    {"gap_30", last.gap_30},
                       {"wall_s", last.wall_s},    {"directory", training->path()}};
    display_data(line.dump() + "\n");
    return;
  }
  display(
      fmt::format("{} of {} steps; greedy tours {:.2f} % above the solver's; weights in "
                  "{}/oracle.safetensors\n",
                  training->step(), training->steps(), last.gap_30, training->path()));
  if (training->step() < training->steps()) {
    display("resume with --resume " + training->path() + "\n");
  }
}

void add_train(Command& oracle) {
  Command& command = oracle.add("train", "imitate the solver, then learn from one's own tours");
  auto arguments = std::make_shared<TrainArguments>();
  command.option("--data", arguments->data, kDvrpDataHelp);
  const Option out = command.option(
      "--out", arguments->out, "directory of the training (default runs/dvrp-oracle-seedS-TIME)");
  command.option("--resume", arguments->resume, "directory of a training to resume").excludes(out);
  arguments->flags.add_to(command, {});
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([arguments] { train(*arguments); });
}

struct OracleEvalArguments {
  std::string data, weights;
  std::vector<int> customers;
  dvrp::ExamOptions exam;
  dvrp::DecodeOptions decode = dvrp::OracleOptions{}.decode;
  RefereeArguments referee;
  bool json = false;
};

std::string setting_of(const std::string& first, const dvrp::DecodeOptions& options) {
  std::string text = options.starts == 1 ? first : fmt::format("{} starts", options.starts);
  if (options.improve > 0) text += " + local search";
  if (options.refine > 0) text += fmt::format(" + {}", options.refine);
  return text;
}

using Row = std::vector<std::string>;

Row header_of(const dvrp::Exam& exam) {
  Row row = {""};
  for (const auto& group : exam.groups) row.push_back(fmt::format("gap {} %", group.requests));
  row.insert(row.end(), {"corr across", "corr within", "r0", "samples/s"});
  return row;
}

Row row_of(const std::string& name, const dvrp::Exam& exam, const dvrp::Grade& grade) {
  Row row = {name};
  for (const double gap : grade.gaps) row.push_back(fmt::format("{:.2f}", gap));
  const auto within = [&exam](double value) {
    return exam.shifts.empty() ? std::string("-") : fmt::format("{:.3f}", value);
  };
  row.insert(row.end(), {fmt::format("{:.3f}", grade.corr_across), within(grade.corr_within),
                         within(grade.r0), rate(grade.samples_per_s)});
  return row;
}

Json grade_json(const dvrp::Exam& exam, const dvrp::Grade& grade) {
  Json json;
  for (size_t i = 0; i < exam.groups.size(); ++i) {
    json[fmt::format("gap_{}", exam.groups[i].requests)] = grade.gaps[i];
  }
  json["corr_across"] = grade.corr_across;
  const bool shifted = !exam.shifts.empty();
  json["corr_within"] = shifted ? Json(grade.corr_within) : nullptr;
  json["r0"] = shifted ? Json(grade.r0) : nullptr;
  json["samples_per_s"] = grade.samples_per_s;
  return json;
}

void evaluate_oracle(const OracleEvalArguments& arguments) {
  const dvrp::Data data = dvrp_data_of(arguments.data);
  const dvrp::OracleWeights weights =
      dvrp::read_oracle(dvrp::oracle_path(arguments.weights), data.city);
  const Activity comparing("comparing");
  ThreadPool pool(arguments.referee.threads);
  const dvrp::Referee referee = arguments.referee.make(arguments.data, pool);
  const dvrp::Exam exam =
      make_exam(data, arguments.exam, referee, [](const std::string& line) { say(line + "\n"); });
  std::vector<Row> rows = {header_of(exam)};
  const auto grade_of = [&](const dvrp::DecodeOptions& options) {
    const auto router = dvrp::make_network_router(weights, data.city, options, pool);
    const dvrp::Grade result = grade(*router, exam);
    rows.push_back(row_of(setting_of("network", options), exam, result));
    return result;
  };
  Json json = grade_json(exam, grade_of(arguments.decode));
  json["setting"] = setting_of("network", arguments.decode);
  json["greedy"] = grade_json(exam, grade_of({}));
  // What the network is worth: the same search behind insertion.
  const auto insertion_of = [&](const dvrp::DecodeOptions& options) {
    const auto router = dvrp::make_insertion_router(options, pool);
    const dvrp::Grade result = grade(*router, exam);
    rows.push_back(row_of(setting_of("insertion", options), exam, result));
    return grade_json(exam, result);
  };
  json["insertion"] = insertion_of({});
  dvrp::DecodeOptions search = arguments.decode;
  search.starts = 1;
  json["insertion_search"] = insertion_of(search);
  json["referee"] = arguments.referee.name;
  json["threads"] = arguments.referee.threads;
  json["weights"] = weights.origin;
  if (arguments.json) {
    display_data(json.dump() + "\n");
  } else {
    display(text_table(rows, terminal_width(Stream::kOut)));
  }
}

// Of the same days: how much longer the routes of the one are, in points of the referee's.
dvrp::Estimate longer_by(const dvrp::SizeRow& one, const dvrp::SizeRow& other) {
  std::vector<double> difference = one.gaps;
  for (size_t i = 0; i < difference.size(); ++i) difference[i] -= other.gaps[i];
  return dvrp::estimate(difference);
}

Json size_json(const dvrp::SizeExam& exam) {
  Json rows = Json::array();
  for (const dvrp::SizeRow& row : exam.rows) {
    const dvrp::Estimate gap = dvrp::estimate(row.gaps), longer = longer_by(row, exam.rows.front());
    rows.push_back({{"name", row.name},
                    {"improve", row.decode.improve},
                    {"refine", row.decode.refine},
                    {"gap_pct", gap.mean},
                    {"gap_ci95", gap.ci95},
                    {"above_network_pct", longer.mean},
                    {"above_network_ci95", longer.ci95},
                    {"instance_ms", 1e3 * row.instance_s},
                    {"day_s", row.day_s}});
  }
  return {{"customers", exam.requests}, {"referee_minutes", exam.referee}, {"rows", rows}};
}

void add_size_rows(const dvrp::SizeExam& exam, std::vector<Row>& rows) {
  for (const dvrp::SizeRow& row : exam.rows) {
    const dvrp::Estimate gap = dvrp::estimate(row.gaps), longer = longer_by(row, exam.rows.front());
    const bool is_first = &row == &exam.rows.front();
    rows.push_back({is_first ? std::to_string(exam.requests) : "",
                    fmt::format("{} + {}", row.name, row.decode.refine),
                    fmt::format("{:.2f} +- {:.2f}", gap.mean, gap.ci95),
                    is_first ? "" : fmt::format("{:+.2f} +- {:.2f}", longer.mean, longer.ci95),
                    fmt::format("{:.1f}", 1e3 * row.instance_s), fmt::format("{:.2f}", row.day_s)});
  }
}

constexpr const char* kSizesLegend =
    "gap: above the referee; over network: of the same days, in points of the\n"
    "referee's routes; ms: CPU time of a whole day at once; day s: of a day request\n"
    "by request\n";

// The network beside insertion, by the size of the day.
void evaluate_sizes(const OracleEvalArguments& arguments) {
  const Activity comparing("comparing");
  ThreadPool pool(arguments.referee.threads);
  const dvrp::Referee referee = arguments.referee.make(arguments.data, pool);
  std::vector<Row> rows = {{"requests", "", "gap %", "over network", "ms", "day s"}};
  Json sizes = Json::array();
  std::string origin;
  for (const int customers : arguments.customers) {
    const dvrp::Data data = data_for(arguments.data, customers);
    const dvrp::OracleWeights weights =
        dvrp::read_oracle(dvrp::oracle_path(arguments.weights), data.city);
    say(fmt::format("{} instances of {} requests\n", arguments.exam.instances, customers));
    const dvrp::SizeExam exam = examine_size(data, weights,
                                             {.requests = customers,
                                              .instances = arguments.exam.instances,
                                              .decode = arguments.decode,
                                              .seed = arguments.exam.seed},
                                             referee, pool);
    add_size_rows(exam, rows);
    sizes.push_back(size_json(exam));
    origin = weights.origin;
  }
  if (!arguments.json) {
    display(text_table(rows, terminal_width(Stream::kOut)));
    return display(std::string("\n") + kSizesLegend);
  }
  const Json json = {{"sizes", sizes},
                     {"instances", arguments.exam.instances},
                     {"referee", arguments.referee.name},
                     {"threads", arguments.referee.threads},
                     {"cpu", cpu_model()},
                     {"weights", origin}};
  display_data(json.dump() + "\n");
}

void add_eval(Command& oracle) {
  Command& command = oracle.add("eval", "compare its routes with those of a solver");
  auto arguments = std::make_shared<OracleEvalArguments>();
  OracleEvalArguments& a = *arguments;
  command.option("--weights", a.weights, "of the oracle (default: those that come with it)");
  command.option("--data", a.data, kDvrpDataHelp);
  a.referee.add_to(command);
  command.option("--instances", a.exam.instances, "of each size (default 100)").range(2, 100'000);
  command.option("--shifts", a.exam.shifts, "of the windows of an instance (default 500)")
      .range(2, 100'000);
  command
      .option("--shifted", a.exam.shifted,
              "instances that are shifted (default 2; 0: no correlations)")
      .range(0, 1000);
  command
      .option("--starts", a.decode.starts,
              fmt::format("first pickups that are tried (default {})", a.decode.starts))
      .range(1, 1000);
  command
      .option("--improve", a.decode.improve,
              fmt::format("most passes of local search (default {})", a.decode.improve))
      .range(0, 1000);
  command
      .option("--refine", a.decode.refine,
              fmt::format("iterations of the solver behind it (default {})", a.decode.refine))
      .range(0, 1'000'000);
  command.option("--seed", a.exam.seed, "of the instances (default 0)");
  command
      .option("--customers", a.customers,
              "instead: the network beside insertion in the same time, for days of so many "
              "requests, such as 30,60,100,200")
      .comma_separated()
      .range(2, 1000);
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([arguments, &command] {
    if (arguments->customers.empty()) return evaluate_oracle(*arguments);
    for (const char* option : {"--shifts", "--shifted"}) {
      if (!command.given(option)) continue;
      throw Error(ErrorCode::kUsage, fmt::format("{} is not for --customers", option));
    }
    evaluate_sizes(*arguments);
  });
}

}  // namespace

void add_dvrp_oracle(Command& dvrp) {
  Command& command = dvrp.add("oracle", "the network that routes many instances at once");
  add_train(command);
  add_eval(command);
}

}  // namespace flotilla
