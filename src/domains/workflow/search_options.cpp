#include "flotilla/domains/workflow/search_options.h"

#include "flotilla/core/error.h"

namespace flotilla::workflow {
namespace {

SearchOptions::Method method_named(const std::string& name) {
  using Method = SearchOptions::Method;
  return name == "legacy"       ? Method::kLegacy
         : name == "random"     ? Method::kRandom
         : name == "exhaustive" ? Method::kExhaustive
                                : Method::kUcb;
}

SearchOptions::Inherit inherit_named(const std::string& name) {
  using Inherit = SearchOptions::Inherit;
  return name == "none"      ? Inherit::kNone
         : name == "nearest" ? Inherit::kNearest
         : name == "own"     ? Inherit::kOwn
                             : Inherit::kPrevious;
}

AcquisitionOptions::Kernel kernel_named(const std::string& name) {
  using Kernel = AcquisitionOptions::Kernel;
  return name == "kendall"    ? Kernel::kKendall
         : name == "position" ? Kernel::kPosition
                              : Kernel::kAuto;
}

}  // namespace

Schema SearchOptions::schema() {
  const SearchOptions d;
  const Hyperparameters& h = d.acquisition.hyperparameters;
  constexpr int64_t kMany = 1'000'000'000;
  Schema schema;
  schema.integer("n_envs", d.n_envs, {1, 1'000'000}, "environments that train side by side")
      .integer("n_workflows", d.n_workflows, {0, kMany},
               "workflows to train for, repeats counted; 0: no limit but that of episodes")
      .integer("episodes", d.episodes, {0, INT64_MAX},
               "the search ends when its trainings have used these; 0: no such limit")
      .integer("episodes_per_env", d.episodes_per_env, {1, kMany},
               "episodes of each env for a workflow, at most")
      .number("compliance_threshold", d.stop.threshold, {0, 1},
              "training for a workflow ends at this compliance, and must reach it")
      .integer("min_episodes", d.stop.min_episodes, {1, kMany},
               "episodes of each env before that may happen")
      .integer("window", d.stop.window, {1, 1'000'000}, "last episodes of each env that are judged")
      .number("min_fixes", d.stop.min_acts, {0, 1e9},
              "acts that have to keep to the order, in all episodes together")
      .boolean("gate", d.gate, "a workflow that misses the threshold counts as failed")
      .choice("acquisition", "ucb", {"ucb", "legacy", "random", "exhaustive"},
              "how the next workflow is chosen: upper confidence bound of a Gaussian process; the "
              "scoring of the earlier system; at random without repeats; in lexicographic order")
      .number("beta", d.acquisition.beta, {0, 1e6},
              "weight of the uncertainty, which grows with the root of the logarithm of the trials")
      .choice("kernel", "auto", {"auto", "kendall", "position"},
              "orders are alike by the pairs that stand the same way round, or by the places that "
              "hold the same; auto: whichever makes what was seen likelier, without --fit kendall")
      .boolean("fit", d.acquisition.fit_hyperparameters,
               "choose length, signal and noise by marginal likelihood")
      .number("length", h.length, {1e-3, 1e3}, "of the kernel, in distances (0 to 1)")
      .number("signal", h.signal, {1e-3, 1e3}, "deviation of values, in units of that of the seen")
      .number("noise", h.noise, {1e-6, 1e3}, "deviation of one value, in the same units")
      .choice("inherit", "previous", {"none", "previous", "nearest", "own"},
              "whose weights training starts with: new ones, those trained last, of the nearest "
              "workflow, of its own last training")
      .integer("seed", 0, {0, INT64_MAX}, "of everything that is drawn");
  return schema;
}

SearchOptions SearchOptions::from(const Config& config) {
  const auto integer = [&](const char* key) { return config.get_integer(key); };
  SearchOptions o;
  o.n_envs = static_cast<int>(integer("n_envs"));
  o.n_workflows = static_cast<int>(integer("n_workflows"));
  o.episodes = integer("episodes");
  o.episodes_per_env = static_cast<int>(integer("episodes_per_env"));
  o.stop = {.threshold = config.get_number("compliance_threshold"),
            .min_episodes = static_cast<int>(integer("min_episodes")),
            .window = static_cast<int>(integer("window")),
            .min_acts = config.get_number("min_fixes")};
  o.gate = config.get_boolean("gate");
  o.method = method_named(config.get_text("acquisition"));
  o.seed = static_cast<uint64_t>(integer("seed"));
  o.acquisition = {.beta = config.get_number("beta"),
                   .kernel = kernel_named(config.get_text("kernel")),
                   .hyperparameters = {.distance = 0,
                                       .length = config.get_number("length"),
                                       .signal = config.get_number("signal"),
                                       .noise = config.get_number("noise")},
                   .fit_hyperparameters = config.get_boolean("fit"),
                   .seed = o.seed};
  o.inherit = inherit_named(config.get_text("inherit"));
  if (o.n_workflows == 0 && o.episodes == 0) {
    throw Error(ErrorCode::kUsage,
                "a search over 0 workflows: set n_workflows, or a budget of episodes");
  }
  return o;
}

}  // namespace flotilla::workflow
