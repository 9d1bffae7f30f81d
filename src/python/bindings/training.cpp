// Training, evaluating and reading runs, for flotilla.train and flotilla.Run.
#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <optional>

#include "bindings/bindings.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/system.h"
#include "flotilla/env/outside_code.h"
#include "flotilla/report/run_data.h"
#include "flotilla/train/checkpoint.h"
#include "flotilla/train/choose_envs.h"
#include "flotilla/train/find_policy.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/run.h"
#include "flotilla/train/summary.h"

namespace flotilla::python {
namespace {

namespace py = pybind11;
using Settings = std::vector<std::string>;  // "key=value"

struct TrainArguments {
  std::string what;  // recipe, environment or YAML file
  Settings overrides;
  std::string out;     // directory of the run; "": one of its own under runs/
  std::string resume;  // directory of a run to go on with, instead of `what`; or ""
  std::optional<int64_t> from_step;
};

py::dict by_name(const std::vector<std::string>& names, const std::vector<double>& values) {
  py::dict dict;
  for (size_t i = 0; i < values.size(); ++i) dict[names[i].c_str()] = values[i];
  return dict;
}

py::dict describe(const Progress& progress, const EnvSpec& env) {
  py::dict facts;
  facts["steps"] = progress.steps;
  facts["episodes"] = progress.episodes;
  facts["updates"] = progress.updates;
  facts["env_failures"] = progress.env_failures;
  facts["wall_s"] = progress.wall_s;
  facts["fraction"] = progress.fraction;
  facts["return_mean"] = progress.return_mean;
  facts["length_mean"] = progress.length_mean;
  facts["return_best"] = progress.return_best;
  facts["ended"] = progress.ended.count;
  facts["env_metrics"] =
      progress.ended.count > 0 ? by_name(env.metrics, progress.ended.metrics) : py::dict();
  py::dict losses;
  for (const auto& [name, value] : progress.update.metrics) losses[name.c_str()] = value;
  facts["losses"] = losses;
  return facts;
}

// Where num_envs is auto, with a number that suits the machine.
Config with_chosen_envs(const Program& program, const std::string& what, Settings settings) {
  const auto config_with = [&](std::optional<int> num_envs) {
    Settings all = settings;
    if (num_envs) all.push_back(fmt::format("num_envs={}", *num_envs));
    return load_run_config(program.registry, what, false, all, program.algorithms);
  };
  if (!take_auto_envs(settings)) return config_with(std::nullopt);
  EnvsChooser chooser(program.registry, program.algorithms, config_with);
  const EnvsChoice choice = chooser.choose();
  log::info(choice.text());
  return config_with(choice.num_envs);
}

std::unique_ptr<Run> open_run(const TrainArguments& arguments) {
  const Program& program = shipped_program();
  const std::lock_guard lock(registry_mutex());
  give_time(arguments.overrides);
  if (!arguments.resume.empty()) {
    Settings settings = arguments.overrides;
    take_auto_envs(settings);  // it was chosen when the run began
    const auto adjust = [&](Config& config) {
      for (const std::string& setting : settings) apply_setting(config, setting);
    };
    return Run::resume(program.registry, arguments.resume, adjust, arguments.from_step,
                       program.algorithms);
  }
  const Config config = with_chosen_envs(program, arguments.what, arguments.overrides);
  const RunConfig run(env_of(program.registry, config), config, program.algorithms);
  for (const Program::Remark& remark : program.remarks) {
    if (const std::string text = remark(run); !text.empty()) log::warn(text);
  }
  return std::make_unique<Run>(run, arguments.out, program.algorithms);
}

// Whether a run goes on after an update: what Python has to say to it. An exception is kept, for
// the run is to end with a checkpoint before it goes its way.
class Listener {
 public:
  explicit Listener(py::object callback) : callback_(std::move(callback)) {}

  bool operator()(const Progress& progress, const EnvSpec& env) {
    if (interrupted()) return true;  // the run ends by that itself
    const py::gil_scoped_acquire held;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();  // handlers of other signals
      if (callback_.is_none()) return true;
      const py::object answer = callback_(describe(progress, env));
      return answer.is_none() || py::bool_(answer);
    } catch (const py::error_already_set& error) {
      if (interrupted() && error.matches(PyExc_KeyboardInterrupt)) {
        PyErr_SetInterrupt();  // it came during the callback: raised again when the run has ended
        return true;
      }
      raised_ = std::current_exception();
      return false;
    }
  }

  void rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  py::object callback_;
  std::exception_ptr raised_;
};

// Trains and evaluates; returns the directory.
std::string train(const std::string& what, const Settings& overrides, const std::string& out,
                  const std::string& resume, std::optional<int64_t> from_step,
                  const py::object& callback) {
  const TrainArguments arguments{what, overrides, out, resume, from_step};
  Listener listener(callback);
  std::string path;
  std::unique_ptr<Run> run;
  run_long([&] {
    run = open_run(arguments);
    path = run->path();
    if (run->was_finished()) return;
    run->train(
        [&](const Progress& progress) { return listener(progress, run->trainer().env_spec()); });
  });
  listener.rethrow();
  run_long([&] {
    if (!run->was_finished()) run->finish();
    run.reset();  // waits for its threads
  });
  return path;
}

// Whether these settings need libtorch: then the run is to have a process of its own.
bool needs_torch(const std::string& what, const Settings& overrides) {
  const Program& program = shipped_program();
  const std::lock_guard lock(registry_mutex());
  give_time(overrides);
  Settings settings = overrides;
  take_auto_envs(settings);  // any number will do
  const Config config =
      load_run_config(program.registry, what, false, settings, program.algorithms);
  const RunConfig run(env_of(program.registry, config), config, program.algorithms);
  if (run.policy == "torch" || run.device != "cpu") return true;
  return run.policy == "auto" && !fused_refusal(run.network).empty();
}

// As `flotilla eval --json` prints it.
std::string evaluate(const std::string& path, const std::string& checkpoint, int episodes,
                     std::optional<bool> deterministic, std::optional<uint64_t> seed,
                     const Settings& overrides, double start_timeout_s) {
  std::string json;
  run_long([&] {
    const PolicyFile file = find_policy(path, checkpoint);
    std::unique_lock lock(registry_mutex());
    outside_code().give_time(start_timeout_s);
    const EnvType& type = env_of(shipped_program().registry, file);
    Config env_config = env_config_of(file, type);
    for (const std::string& setting : overrides) env_config.apply_override(setting);
    const EnvSpec env = type.spec(env_config, file.origin.time_limit);
    lock.unlock();
    const std::unique_ptr<Policy> policy =
        make_policy(file, env, {}, overrides.empty() ? Fit::kSameEnv : Fit::kSameSpaces);
    EvalOptions options;
    options.episodes = episodes;
    options.deterministic = deterministic.value_or(!file.origin.sampled);
    options.seed = eval_seed(seed.value_or(file.origin.seed));
    options.vec.time_limit = file.origin.time_limit;
    options.vec.start_timeout_s = start_timeout_s;
    Evaluator evaluator(type, env_config, options, env);
    give_knowledge(file, evaluator.memory());
    Json facts = eval_json(evaluator.play(*policy, true), env);
    facts["policy"] = file.tensors.origin;
    facts["deterministic"] = options.deterministic;
    json = facts.dump();
  });
  return json;
}

py::dict read(const std::string& path) {
  std::optional<RunData> data;
  {
    const py::gil_scoped_release free;
    data = read_run(path);
  }
  py::dict columns;
  for (size_t i = 0; i < data->metrics.names().size(); ++i) {
    const std::vector<double>& column = data->metrics.column(i);
    columns[data->metrics.names()[i].c_str()] =
        py::array_t<double>(static_cast<py::ssize_t>(column.size()), column.data());
  }
  py::dict facts;
  facts["settings"] = data->settings;
  facts["summary"] = data->finished() ? py::object(py::str(data->summary.dump())) : py::none();
  facts["metrics"] = columns;
  return facts;
}

std::vector<std::pair<std::string, std::string>> recipe_names() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Recipe& recipe : shipped_program().registry.recipes()) {
    names.emplace_back(recipe.name, summary(recipe));
  }
  return names;
}

}  // namespace

void add_training(py::module_& module) {
  module.def("recipe_names", &recipe_names);
  module.def("train", &train, py::arg("what"), py::arg("overrides"), py::arg("out"),
             py::arg("resume"), py::arg("from_step"), py::arg("callback"));
  module.def("needs_torch", &needs_torch, py::arg("what"), py::arg("overrides"),
             py::call_guard<py::gil_scoped_release>());
  module.def("evaluate", &evaluate, py::arg("path"), py::arg("checkpoint"), py::arg("episodes"),
             py::arg("deterministic"), py::arg("seed"), py::arg("overrides"),
             py::arg("start_timeout_s"));
  module.def("read_run", &read, py::arg("path"));
  module.def(
      "checkpoint_steps", [](const std::string& path) { return Checkpoints(path).steps(); },
      py::arg("path"));
}

}  // namespace flotilla::python
