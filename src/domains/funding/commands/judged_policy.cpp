#include "flotilla/domains/funding/commands/judged_policy.h"

#include <fmt/format.h>

#include <filesystem>

#include "flotilla/core/error.h"
#include "flotilla/train/find_policy.h"

namespace flotilla {
namespace {

// Unless it is said: the one that did best on validation windows, where there were any.
std::string checkpoint_of(const JudgeArguments& arguments) {
  if (!arguments.checkpoint.empty()) return arguments.checkpoint;
  return has_best(arguments.run) ? "best" : "last";
}

// All of another market is for testing.
void judge_on(Config& config, const JudgeArguments& arguments) {
  config.set("levels", arguments.levels);
  if (arguments.data.empty()) return;
  config.set("data", arguments.data);
  for (const char* key : {"split.train", "split.validation", "split.embargo_days"}) {
    config.set(key, "0");
  }
}

funding::Period trained_on(const Config& config, const std::string& origin) {
  const std::string& text = config.get_text("trained_on");
  const auto period = funding::parse_period(text);
  if (!period || config.get_text("scaler").empty()) {
    throw Error(ErrorCode::kData,
                origin + ": has no scaler, or does not say which days it was trained on");
  }
  return *period;
}

// Whether the days that are judged are also some of training.
bool is_seen(const Config& config, const funding::Period& trained,
             const JudgeArguments& arguments) {
  const funding::Funding env(config);
  const auto market = shared_market(funding::TableOptions::from(config));
  const funding::Period judged = env.period(*market);
  if (!overlap(judged, trained)) return false;
  if (arguments.allow_overlap >= 2) return true;
  throw Error(ErrorCode::kUsage,
              fmt::format("the days to judge, {}, overlap those of training, {}: what is earned "
                          "there says nothing of other days; who wants it all the same gives "
                          "--allow-overlap twice{}",
                          period_text(judged), period_text(trained),
                          arguments.allow_overlap == 1 ? ", not once" : ""));
}

}  // namespace

void JudgeArguments::add_to(Command& command) {
  command.option("run", run, "directory of a run, or a policy file").required();
  command.option("--checkpoint", checkpoint,
                 "last, best, or a step (default: best on validation windows, or last where "
                 "training had no evaluations)");
  const Option part =
      command.option("--levels", levels, "part of the market: test (default), validation or train")
          .choices({"train", "validation", "test"});
  command
      .option("--data", data,
              "directory of another market, all of which is for testing (default: the run's own)")
      .excludes(part);
  command.flag("--allow-overlap", allow_overlap,
               "given twice: also judge days that training has seen");
  command.option("--seed", seed, "of the windows (default 9999)");
}

JudgedPolicy read_judged_policy(const Program& program, const JudgeArguments& arguments) {
  std::string checkpoint = checkpoint_of(arguments);
  const PolicyFile file = find_policy(arguments.run, checkpoint);
  if (!std::filesystem::is_directory(arguments.run)) checkpoint = "file";
  const std::string& origin = file.tensors.origin;
  if (file.origin.env != "funding") {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is of '{}', not of funding", origin, file.origin.env));
  }
  const EnvType& type = env_of(program.registry, file);
  Config config = env_config_of(file, type);
  if (config.get_text("rules") != "fixed") {
    throw Error(ErrorCode::kUsage, origin + ": was trained with rules=era; expected fixed");
  }
  const funding::Period trained = trained_on(config, origin);
  judge_on(config, arguments);
  const bool seen = is_seen(config, trained, arguments);
  const PolicyOptions options{.factory = program.policy_factory};
  return {.type = type,
          .config = config,
          .checkpoint = checkpoint,
          .origin = origin,
          .seen_in_training = seen,
          .policy = make_policy(file, type.spec(config, file.origin.time_limit), options)};
}

}  // namespace flotilla
