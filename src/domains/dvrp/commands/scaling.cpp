// flotilla dvrp scaling: how fast whole training is with few and with many environments.
//
// Each number of envs is measured in a process of its own, so that its peak of memory is its own.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>

#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json.h"
#include "flotilla/core/refusal.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/dvrp/commands/dvrp.h"
#include "flotilla/report/statistics.h"
#include "flotilla/train/recipes.h"
#include "flotilla/train/trainer.h"

namespace flotilla {
namespace {

struct ScalingArguments {
  std::vector<int> num_envs = {1, 64, 256};
  std::string recipe = "dvrp";
  std::optional<std::string> device;
  std::optional<int> threads, customers;
  std::vector<std::string> overrides;
  int iterations = 3;  // of the training loop
  bool json = false;
};

constexpr double kLeastSeconds = 3;  // that are measured

// What somebody else said of this key would be lost without a word.
void settle(Config& config, const char* key, const std::string& value, const char* by) {
  if (config.is_overridden(key)) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: is settled by {}; leave it out", key, by));
  }
  config.set(key, value);
}

// Whole days of so many requests; where the made-up city has too few travellers, of a larger one.
void set_customers(Config& config, int customers) {
  constexpr const char* kBy = "--customers";
  settle(config, "env.customers", std::to_string(customers), kBy);
  settle(config, "n_steps", std::to_string(customers), kBy);
  const bool made_up = config.get_text("env.data").empty();
  if (made_up && config.get_integer("env.travellers") < customers) {
    settle(config, "env.travellers", std::to_string(customers), kBy);
  }
}

RunConfig run_of(const Registry& registry, const ScalingArguments& arguments, int num_envs) {
  Config config = load_run_config(registry, arguments.recipe, false, arguments.overrides);
  if (config.get_text("env.name") != "dvrp") {
    throw Error(ErrorCode::kUsage, "--recipe: '" + arguments.recipe + "' is not of dvrp");
  }
  settle(config, "num_envs", std::to_string(num_envs), "--num-envs");
  if (arguments.customers) set_customers(config, *arguments.customers);
  if (arguments.threads) {
    settle(config, "threads", std::to_string(*arguments.threads), "--threads");
  }
  if (arguments.device) {
    settle(config, "device", *arguments.device, "--device");
    settle(config, "env.oracle.device", *arguments.device, "--device");
  }
  settle(config, "total_timesteps", std::to_string(INT64_MAX), "--epochs");
  settle(config, "eval.episodes", "0", "the measurement, which evaluates nothing");
  settle(config, "eval.every", "0", "the measurement, which evaluates nothing");
  // All hyper-parameters are the same, as far as there are rows for a minibatch. Where envs are
  // enough, `replicas` of them share a day.
  const int64_t rows = config.get_integer("n_steps") * num_envs;
  if (config.get_integer("ppo.batch_size") > rows) {
    config.set("ppo.batch_size", std::to_string(rows));
  }
  return {env_of(registry, config), config};
}

// Medians over iterations, behind one that is not measured.
Json measured(const RunConfig& run, const ScalingArguments& arguments) {
  Trainer trainer(run);
  trainer.iterate();
  std::vector<double> iteration_s, oracle_s, update_s;
  double total = 0;
  while (static_cast<int>(iteration_s.size()) < arguments.iterations || total < kLeastSeconds) {
    stop_if_interrupted();
    const Timing before = trainer.timing();
    const uint64_t start = now_ns();
    trainer.iterate();
    iteration_s.push_back(seconds_since(start));
    const Timing now = trainer.timing();
    oracle_s.push_back(now.stage_s - before.stage_s);
    update_s.push_back(now.update_s - before.update_s);
    total += iteration_s.back();
  }
  const double samples = run.n_steps * run.vec.num_envs, seconds = median(iteration_s);
  return {{"num_envs", run.vec.num_envs},
          {"replicas", std::min(run.vec.replicas, run.vec.num_envs)},
          {"samples_per_epoch", static_cast<int64_t>(samples)},
          {"samples_per_s", samples / seconds},
          {"epoch_s", seconds},
          {"oracle_s", median(oracle_s)},
          {"update_s", median(update_s)},
          {"peak_rss_mb", static_cast<double>(peak_resident_bytes()) * 1e-6},
          {"epochs", iteration_s.size()},
          {"threads", run.threads},
          {"device", run.device}};
}

// What the function returns, from a process of its own, and what it throws there.
template <class F>
Json in_child(const F& function) {
  int ends[2];
  if (::pipe(ends) != 0) throw_errno(ErrorCode::kInternal, "cannot make a pipe");
  const pid_t child = ::fork();
  if (child < 0) throw_errno(ErrorCode::kInternal, "cannot start a process");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it finds
    Json result;
    try {
      result = function();
    } catch (const std::exception& exception) {
      const Error error = as_error(exception);
      result = {{"error", error.what()}, {"code", static_cast<int>(error.code())}};
    }
    const std::string text = result.dump();
    const bool written =
        ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  do {
    n = ::read(ends[0], buffer, sizeof(buffer));
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR && !interrupted()));
  ::close(ends[0]);
  if (interrupted()) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  stop_if_interrupted();
  const Json result = Json::try_parse(text).value_or(Json());
  if (!result.is_object()) throw Error(ErrorCode::kInternal, "the process that measures died");
  if (result.contains("error")) {
    throw Error(static_cast<ErrorCode>(result["code"].get<int>()), result["error"].text());
  }
  return result;
}

void scale(const Program& program, const ScalingArguments& arguments) {
  std::vector<RunConfig> runs;  // all of them, before the first is measured
  for (const int num_envs : arguments.num_envs) {
    runs.push_back(run_of(program.registry, arguments, num_envs));
  }
  Json rows = Json::array();
  for (const RunConfig& run : runs) {
    const int num_envs = run.vec.num_envs;
    say(fmt::format("training with {} envs\n", num_envs));
    const Activity training("training");
    Json row = in_child([&] { return measured(run, arguments); });
    const auto number = [&row](const char* key) { return row[key].get<double>(); };
    const double first =
        rows.empty() ? number("samples_per_s") : rows[0]["samples_per_s"].get<double>();
    row["speedup"] = number("samples_per_s") / first;
    rows.push_back(row);
    if (arguments.json) continue;
    if (rows.size() == 1) {
      display(fmt::format("{:>6}{:>11}{:>10}{:>11}{:>10}{:>10}{:>10}{:>9}\n", "envs", "samples",
                          "epoch s", "samples/s", "speed-up", "oracle s", "update s", "RSS MB"));
    }
    display(fmt::format("{:>6}{:>11}{:>10.3f}{:>11}{:>9.1f}x{:>10.3f}{:>10.3f}{:>9.0f}\n", num_envs,
                        row["samples_per_epoch"].get<int64_t>(), number("epoch_s"),
                        rate(number("samples_per_s")), number("speedup"), number("oracle_s"),
                        number("update_s"), number("peak_rss_mb")));
    std::fflush(stdout);
  }
  if (!arguments.json) return;
  const Json json = {
      {"rows", rows}, {"recipe", arguments.recipe}, {"cpu", cpu_model()}, {"cores", cpu_count()}};
  display_data(json.dump() + "\n");
}

}  // namespace

void add_dvrp_scaling(Command& dvrp, Program& program) {
  Command& command =
      dvrp.add("scaling", "train with few and with many envs, and compare the speed");
  auto arguments = std::make_shared<ScalingArguments>();
  ScalingArguments& a = *arguments;
  command.option("--num-envs", a.num_envs, "numbers of envs (default 1,64,256)")
      .comma_separated()
      .range(1, kMaxEnvs);
  command.option("--customers", a.customers, "requests of a day (default: the recipe's)")
      .range(1, dvrp::kMostCustomers);
  command.option("--epochs", a.iterations, "that are measured, at least (default 3)")
      .range(1, 10'000);
  command.option("--recipe", a.recipe, "whose hyper-parameters are used (default dvrp)");
  command.option("--device", a.device, "of oracle and policy: cpu (default) or cuda")
      .choices({"cpu", "cuda"});
  command.option("--threads", a.threads, "default: all CPUs").range(1, 1024);
  command.option("overrides", a.overrides, "key=value settings of the run");
  command.flag("--json", a.json, "print one JSON object on stdout");
  command.action([&program, arguments] { scale(program, *arguments); });
}

}  // namespace flotilla
