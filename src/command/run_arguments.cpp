#include "flotilla/command/run_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "flotilla/command/env_arguments.h"
#include "flotilla/core/error.h"
#include "flotilla/core/log.h"
#include "flotilla/core/text.h"
#include "flotilla/env/python_env.h"
#include "flotilla/train/choose_envs.h"
#include "flotilla/train/recipes.h"

namespace flotilla {
namespace {

Schema flag_schema(RunArguments::For purpose, const Algorithms& algorithms) {
  Schema schema = RunConfig::vec_schema();
  if (purpose == RunArguments::For::kTraining) {
    schema.set_help("num_envs", "environments stepped together, or auto: by memory and speed");
    schema
        .integer("total_timesteps", RunConfig::kSteps, {0, INT64_MAX}, "steps of all envs together")
        .integer("episodes", 0, {0, INT64_MAX}, "episodes of all envs together")
        .integer("iterations", 0, {0, INT64_MAX}, "rollouts, each with its update")
        .integer("eval_freq", 0, {0, INT64_MAX}, "steps of all envs between evaluations")
        .integer("save_freq", 0, {0, INT64_MAX}, "steps of all envs between checkpoints")
        .text("init", "", "run or policy file whose weights and normalisers training starts from");
  }
  schema.integer("seed", 0, {0, INT64_MAX}, "of everything that is drawn")
      .choice("algo", default_algorithm().name, algorithms.names(), "the learning algorithm")
      .choice("policy", "auto", {"auto", "fused", "torch"}, "what carries out the network")
      .choice("device", "cpu", {"cpu", "cuda"}, "where the network runs");
  return schema;
}

// Without the names that a domain gives a meaning of its own.
std::vector<std::pair<std::string, std::string>> aliases_beside(const Program& program) {
  std::vector<std::pair<std::string, std::string>> aliases = {
      {"num_envs", "--n-envs"},
      {"workers", "--num-workers"},
      {"start_method", "--parallel-start-method"},
      {"total_timesteps", "--steps"},
      {"episodes", "--num-episodes"},
      {"iterations", "--epochs"},
      {"save_freq", "--checkpoint-every"},
      {"save_freq", "--save-interval"}};
  std::erase_if(aliases, [&program](const auto& alias) {
    return std::ranges::count(program.run_options, alias.second, &RunOption::name) > 0;
  });
  return aliases;
}

bool is_assignment(const std::string& text) { return text.find('=') != std::string::npos; }

// What of settings and options says the algorithm, as a setting: it decides which keys there are.
std::vector<std::string> algo_given(
    const std::vector<std::string>& settings,
    const std::vector<std::pair<std::string, std::string>>& options) {
  std::vector<std::string> given;
  for (const std::string& setting : settings) {
    if (setting.starts_with("algo=")) given.push_back(setting);
  }
  for (const auto& [name, value] : options) {
    if (name == "algo") given.push_back(name + "=" + value);
  }
  return given;
}

// Whether it is of a recipe or file: an environment by itself sets nothing, and its algorithm is
// the default one.
bool sets_keys(const Config& config) { return config.is_loaded("env.name"); }

// Whether the program chooses the value of a key when a run begins, so that the run has another.
bool is_left_open(const std::string& key, const std::string& value, bool env_fills_in) {
  static const std::vector<std::string> by_machine = {"threads", "workers", "actors", "groups"};
  if (std::ranges::count(by_machine, key) > 0) return value == "0";
  return env_fills_in && key.starts_with("env.") && value.empty();
}

[[noreturn]] void contradict(const std::string& setting, const std::string& value) {
  throw Error(ErrorCode::kUsage,
              fmt::format("{} and an option that makes it {} contradict each other: give one",
                          setting, value));
}

// What key=value settings say, options must not change.
void require_kept(const Config& settings, const Config& now) {
  for (const Key& key : now.schema().keys()) {
    if (!settings.is_overridden(key.name)) continue;
    const std::string given = settings.text(key.name), made = now.text(key.name);
    if (made != given) contradict(key.name + "=" + given, made);
  }
}

}  // namespace

RunArguments::RunArguments(For purpose, const Program& program)
    : purpose_(purpose), flags_(flag_schema(purpose, program.algorithms)) {}

void RunArguments::add_to(Command& command, const Program& program) {
  command.option(
      "run", what_,
      "recipe, environment or YAML file ('flotilla list' shows them), gym:ID, py:MODULE:NAME or "
      "libenv; defaults below hold where a recipe has none; named before --help, it shows its own "
      "options, too");
  command.option("overrides", overrides_,
                 "key=value settings ('flotilla list NAME --keys' shows all)");
  flags_.add_to(command, aliases_beside(program));
  add_python_option(command);
  for (size_t i = 0; i < program.run_options.size(); ++i) add_domain_option(command, program, i);
  if (purpose_ != For::kTraining) return;
  command.settings([&program](const std::string& key) {
    EnvType any;
    any.name = "any";
    return std::ranges::any_of(program.algorithms.names(), [&](const std::string& algo) {
      return RunConfig::schema(any, program.algorithms.find(algo)).find(key) != nullptr;
    });
  });
  command.option("--duration", duration_, "wall time to train for: 90s, 10m, 2h");
  command.option("--resume", resume_, "directory of a run to resume")
      .check([](const std::string& path) {  // an unset variable of a script must not train anew
        return path.empty() ? std::string("expected the directory of a run") : std::string();
      });
  command.option("--from-step", from_step_,
                 "with --resume: from this checkpoint instead of the last one");
}

void RunArguments::add_domain_option(Command& command, const Program& program, size_t index) {
  const RunOption& option = program.run_options[index];
  const auto take = [this, index](const std::string& text) { domain_options_[index] = text; };
  const auto take_number = [take](int number) { take(std::to_string(number)); };
  Option added = option.is_flag ? command.flag(
                                      option.name, [take] { take(""); }, option.help)
                 : option.range ? command.option(option.name, take_number, option.help)
                                : command.option(option.name, take, option.help);
  if (option.range) added.range(option.range->first, option.range->second);
  command.show_when(added,
                    [this, &program, env = option.env] { return env_named(program) == env; });
}

std::string RunArguments::env_named(const Program& program) const {
  if (is_python_env(what_)) return what_;
  try {
    return load_run_config(program.registry, what_, false, {}, program.algorithms)
        .get_text("env.name");
  } catch (const Error&) {
    return "";
  }
}

bool RunArguments::gives(const Program& program, const Config& config,
                         const std::string& key) const {
  const bool from_recipe = program.registry.find_recipe(what_) != nullptr;
  return config.is_overridden(key) || (!from_recipe && config.is_loaded(key));
}

void RunArguments::admit() const {
  python_settings().named.insert(what_);
  std::vector<std::string> settings = {what_};
  settings.insert(settings.end(), overrides_.begin(), overrides_.end());
  for (const auto& [name, value] : flags_.given()) settings.push_back(name + "=" + value);
  give_time(settings);
}

void RunArguments::take_auto() {
  std::vector<std::string> all = overrides_;
  if (is_assignment(what_)) all.push_back(what_);
  const bool by_setting = take_auto_envs(all);
  const bool by_option = flags_.take("num_envs", kAutoEnvs);
  auto_envs_ = by_setting || by_option;
  if (!auto_envs_) return;
  take_auto_envs(overrides_);
  std::vector<std::string> first = {what_};
  if (take_auto_envs(first)) what_.clear();
  Config given(RunConfig::vec_schema());
  for (const std::string& setting : all) {
    const Key* key = given.schema().find(setting.substr(0, setting.find('=')));
    if (key != nullptr && key->name == "num_envs") contradict(setting, kAutoEnvs);
  }
  for (const auto& [name, value] : flags_.given()) {
    if (name == "num_envs") contradict("num_envs=" + std::string(kAutoEnvs), value);
  }
}

Config RunArguments::config(const Program& program, bool plain, std::optional<int> num_envs) const {
  if (what_.empty()) {
    throw Error(ErrorCode::kUsage,
                "say what to train: a recipe, an environment or a YAML file ('flotilla list' shows "
                "them), or --resume and the directory of a run");
  }
  if (from_step_) throw Error(ErrorCode::kUsage, "--from-step needs --resume");
  admit();
  std::vector<std::string> overrides;
  for (const auto& [name, value] : flags_.given()) {  // on which other keys depend
    if (name != "algo" && name != "init") continue;
    overrides.push_back(name + "=" + value);
    for (const std::string& setting : overrides_) {
      if (setting.starts_with(name + "=") && setting != overrides.back())
        contradict(setting, value);
    }
  }
  overrides.insert(overrides.end(), overrides_.begin(), overrides_.end());
  if (num_envs) overrides.push_back(fmt::format("num_envs={}", *num_envs));
  Config config = load_run_config(program.registry, what_, plain, overrides, program.algorithms);
  apply_options(program, config, true);
  return config;
}

void RunArguments::adjust(const Program& program, const std::string& path, Config& config) const {
  std::vector<std::string> settings = overrides_;
  if (is_assignment(what_)) settings.push_back(what_);
  for (const std::string& setting : algo_given(settings, flags_.given())) {
    const std::string &old = config.get_text("algo"), now = setting.substr(setting.find('=') + 1);
    if (now == old) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("a resumed run cannot change algo from {} to {}", old, now));
  }
  std::optional<Config> named;
  if (is_assignment(what_)) {
    apply_setting(config, what_);
  } else if (!what_.empty()) {
    named = load_run_config(program.registry, what_, false, algo_given(overrides_, flags_.given()),
                            program.algorithms);
    require_same_kind(path, config, *named);
  }
  for (const std::string& assignment : overrides_) apply_setting(config, assignment);
  apply_options(program, config, false);
  if (!named) return;
  const std::vector<std::string> others = not_taken(program, config, *std::move(named));
  if (others.empty()) return;
  log::warn(fmt::format("the run in '{}' keeps its own settings, where '{}' has others: {}", path,
                        what_, join(others, ", ")));
}

void RunArguments::require_same_kind(const std::string& path, const Config& config,
                                     const Config& named) const {
  const auto require = [&](const char* key) {
    const std::string &old = config.get_text(key), now = named.get_text(key);
    if (now == old) return;
    throw Error(ErrorCode::kUsage,
                fmt::format("the run in '{}' is of {}, '{}' is of {}", path, old, what_, now));
  };
  require("env.name");
  if (sets_keys(named)) require("algo");
}

std::vector<std::string> RunArguments::not_taken(const Program& program, const Config& config,
                                                 Config named) const {
  if (!sets_keys(named)) return {};
  // As for a new run: the same command line may be given again without a word about it.
  if (auto_envs_) named.set("num_envs", config.input_text("num_envs"));
  for (const std::string& assignment : overrides_) apply_setting(named, assignment);
  apply_options(program, named, true);
  const bool has_init = !config.get_text("init").empty();
  const bool fills_in = env_of(program.registry, named).fill_in != nullptr;
  std::vector<std::string> keys;
  for (const Key& key : named.schema().keys()) {
    if (!named.is_loaded(key.name) || named.text(key.name) == config.text(key.name)) continue;
    if (is_left_open(key.name, named.input_text(key.name), fills_in)) continue;
    if (has_init && key.name.starts_with("net.")) continue;  // the network of what it started from
    if (key.name == "crash_dir") continue;                   // of which it is said elsewhere
    keys.push_back(key.name);
  }
  return keys;
}

void RunArguments::apply_options(const Program& program, Config& config, bool is_new) const {
  const Config settings = config;
  bool other_limit = !duration_.empty();
  for (const auto& [name, value] : flags_.given()) {
    config.apply_override(name + "=" + value);
    other_limit |= name == "episodes" || name == "iterations";
    if (name != "device") continue;
    for (const std::string& key : program.device_keys) {
      const bool has = config.schema().find(key) != nullptr;
      if (has && !config.is_overridden(key)) config.set(key, value);
    }
  }
  if (!duration_.empty()) config.set("duration_s", fmt::to_string(parse_duration(duration_)));
  const auto is_general = [&config](const RunOption& option) {
    return !option.otherwise.empty() && config.get_text("env.name") != option.env;
  };
  for (const auto& [index, text] : domain_options_) {
    const RunOption& option = program.run_options[index];
    if (is_general(option)) config.apply_override(option.otherwise + "=" + text);
  }
  for (const auto& [index, text] : domain_options_) {
    const RunOption& option = program.run_options[index];
    if (is_general(option)) continue;
    option.apply(config, text);
    const auto& then = option.consequence;
    if (is_new && then && !gives(program, config, then->key)) {
      config.set(then->key, then->value(config));
    }
  }
  require_kept(settings, config);
  // Asking for episodes or a duration means: not the recipe's number of steps.
  if (other_limit && !config.is_overridden("total_timesteps")) config.set("total_timesteps", "0");
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

}  // namespace flotilla
