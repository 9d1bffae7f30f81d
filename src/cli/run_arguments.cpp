#include "flotilla/cli/run_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "flotilla/core/error.h"
#include "flotilla/core/system.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

Schema flag_schema(RunArguments::Limits limits) {
  Schema schema = VecOptions::schema();
  if (limits == RunArguments::Limits::kOffered) {
    schema.integer("steps", 0, {0, INT64_MAX}, "steps of all envs together")
        .integer("episodes", 0, {0, INT64_MAX}, "episodes of all envs together");
  }
  schema.integer("seed", 0, {0, INT64_MAX}, "of everything that is drawn")
      .choice("algo", "ppo", {"ppo"}, "the learning algorithm")
      .choice("policy", "auto", {"auto", "fused", "torch"}, "what carries out the network")
      .choice("device", "cpu", {"cpu", "cuda"}, "where the network runs");
  return schema;
}

}  // namespace

RunArguments::RunArguments(Limits limits) : limits_(limits), flags_(flag_schema(limits)) {}

void RunArguments::add_to(CLI::App& command) {
  command.add_option("run", what_, "recipe, environment or YAML file ('flotilla list' shows them)")
      ->required();
  command.add_option("overrides", overrides_,
                     "key=value settings ('flotilla list NAME --keys' shows all)");
  flags_.add_to(command, {{"num_envs", "--n-envs"},
                          {"workers", "--num-workers"},
                          {"start_method", "--parallel-start-method"}});
  if (limits_ == Limits::kOffered) {
    command.add_option("--duration", duration_, "wall time to train for: 90s, 10m, 2h");
  }
}

Config RunArguments::config(const Registry& registry, bool plain) const {
  Config config = load_run_config(registry, what_, plain, overrides_);
  bool steps = false, other_limit = !duration_.empty();
  for (const auto& [name, value] : flags_.given()) {
    config.set(name, value);
    steps |= name == "steps";
    other_limit |= name == "episodes";
  }
  if (!duration_.empty()) config.set("duration_s", fmt::to_string(parse_duration(duration_)));
  // Asking for episodes or a duration means: not the recipe's number of steps.
  if (other_limit && !steps) config.set("steps", "0");
  return config;
}

double parse_duration(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (end == text.c_str() || scale == 0 || !(number > 0) || number * scale > 1e9) {
    throw Error(ErrorCode::kUsage,
                "--duration: expected a time such as 90s, 10m or 2h, got '" + text + "'");
  }
  return number * scale;
}

std::string run_header(const RunConfig& run, const RunShape& shape) {
  const std::string workers =
      shape.workers > 0 ? fmt::format(", {} workers", shape.workers) : std::string();
  return fmt::format("{} x {}, {} back end{}, {} threads; {}, {}-{} {}{}, {} (policy={}); seed {}",
                     shape.num_envs, run.type.name, shape.backend, workers, shape.threads, run.algo,
                     run.network.inputs, fmt::join(run.network.hidden, "-"),
                     run.network.activation == Activation::kTanh ? "tanh" : "relu",
                     run.network.shared ? " shared" : "", shape.policy_kernel, run.policy,
                     run.seed);
}

nlohmann::ordered_json machine_json(const RunShape& shape) {
  nlohmann::ordered_json json = {{"cpu", cpu_model()}, {"cores", cpu_count()},
                                 {"gpu", nullptr},     {"compiler", __VERSION__},
                                 {"torch", nullptr},   {"blas_kernel", nullptr}};
  // "torch 1.13.0 cpu, OpenBLAS SkylakeX"
  const std::string& kernel = shape.policy_kernel;
  if (!kernel.starts_with("torch ")) return json;
  const size_t version = kernel.find(' ') + 1, comma = kernel.find(", ");
  json["torch"] = kernel.substr(version, kernel.find(' ', version) - version);
  if (comma != std::string::npos) json["blas_kernel"] = kernel.substr(comma + 2);
  if (const std::string gpu = gpu_model(); kernel.ends_with(" cuda") && !gpu.empty()) {
    json["gpu"] = gpu;
  }
  return json;
}

}  // namespace flotilla
