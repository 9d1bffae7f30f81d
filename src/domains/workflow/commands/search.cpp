// flotilla ENV search: the best workflow of an environment, by training for one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>

#include "flotilla/command/schema_flags.h"
#include "flotilla/core/activity.h"
#include "flotilla/core/clock.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/json.h"
#include "flotilla/core/system.h"
#include "flotilla/core/terminal.h"
#include "flotilla/core/text.h"
#include "flotilla/domains/workflow/commands/commands.h"
#include "flotilla/domains/workflow/search.h"
#include "flotilla/domains/workflow/search_figure.h"
#include "flotilla/train/recipes.h"

namespace flotilla::workflow {
namespace {

constexpr const char* kInterruptNotice =
    "flotilla: interrupted: this update ends; the workflow begins anew when the search\n"
    "  goes on (again: stop at once)\n";

// Keys of a training that a search decides, by whatever name they are given.
void refuse_own(const Domain& domain, const Config& training, const std::string& name) {
  const auto refuse = [&name](const std::string& instead) {
    throw Error(ErrorCode::kUsage, name + " is not a setting of a search: " + instead);
  };
  const Key* known = training.schema().find(name);
  const std::string key = known == nullptr ? name : known->name;
  if (key == domain.key || key == "env." + domain.key) refuse("it is what is searched for");
  if (key == "num_envs") refuse("use --n-envs");
  if (key == "seed") refuse("use --seed");
  if (key == "total_timesteps" || key == "episodes") refuse("use --episodes-per-env");
}

struct SearchArguments {
  SchemaFlags flags{SearchOptions::schema()};
  std::string out, resume;
  std::vector<std::string> settings;
  std::optional<int> threads;
  bool json = false;

  void adjust(const Domain& domain, Config& options, Config& training) const {
    for (const auto& [key, text] : flags.given()) options.set(key, text);
    for (const std::string& setting : settings) {
      refuse_own(domain, training, setting.substr(0, setting.find('=')));
      apply_setting(training, setting);
    }
    if (threads) training.set("threads", std::to_string(*threads));
  }
};

std::unique_ptr<Search> open_search(const Program& program, const Domain& domain,
                                    const SearchArguments& arguments) {
  if (!arguments.resume.empty()) {
    if (!arguments.out.empty()) {
      throw Error(ErrorCode::kUsage, "--out and --resume exclude each other");
    }
    return Search::resume(
        domain, program.registry, arguments.resume,
        [&](Config& options, Config& training) { arguments.adjust(domain, options, training); });
  }
  Config options(SearchOptions::schema());
  Config training = load_run_config(program.registry, domain.recipe, false, {});
  arguments.adjust(domain, options, training);
  return std::make_unique<Search>(domain, program.registry, arguments.out, options, training);
}

std::string outcome(const Trained& trained) {
  return fmt::format("value {:.2f}  compliance {:.3f} {}  {}", trained.value, trained.compliance,
                     trained.reached ? "reached" : "missed", counted(trained.episodes, "episode"));
}

std::string name_of(const Search& search, int order) {
  return title(search.domain(), search.orders()[order]);
}

void say_done(const Search& search) {
  const SearchOptions& options = search.options();
  const Trained& trained = search.history().back();
  const std::string of = options.n_workflows > 0 ? fmt::format("/{}", options.n_workflows) : "";
  say(fmt::format("{:>3}{}  {}  {}\n", search.history().size(), of, name_of(search, trained.order),
                  outcome(trained)));
}

void print_result(const Search& search, double wall_s) {
  constexpr size_t kShown = 5, kNameColumn = 4;
  const auto reached = std::ranges::count_if(search.history(), &Trained::reached);
  display(fmt::format("{}, {} in {:.1f} s; {} of them reached compliance {}\n\n",
                      counted(static_cast<int64_t>(search.history().size()), "workflow"),
                      counted(search.episodes_used(), "episode"), wall_s, reached,
                      search.options().stop.threshold));
  const std::vector<const Trained*> tried = search.by_value();
  for (size_t i = 0; i < std::min(tried.size(), kShown); ++i) {
    display(
        fmt::format("{:>2}  {}  {}\n", i + 1, name_of(search, tried[i]->order), outcome(*tried[i])),
        kNameColumn);
  }
  if (reached == 0 && search.options().gate) {
    display(
        "\nno workflow reached the compliance: more --episodes-per-env, or a lower "
        "--compliance-threshold\n");
  }
  display("\nsearch directory " + search.path() + "\n");
}

Json result_json(const Search& search, double wall_s) {
  auto json = Json::parse(search.state_text());
  json.erase("logs");
  json.erase("sha256");
  json.erase("settings_sha256");
  const Trained& best = *search.by_value().front();
  json["best"] = {{"workflow", name_of(search, best.order)},
                  {"order", key_text(search.domain(), search.orders()[best.order])},
                  {"eval_reward", best.value},
                  {"train_compliance", best.compliance},
                  {"success", best.reached},
                  {"policy", search.policy_path(best)}};
  json["episodes"] = search.episodes_used();
  json["wall_s"] = wall_s;
  json["directory"] = search.path();
  return json;
}

// Of the training that goes on; how many more there will be may depend on what comes out.
Status status_of(const Search& search, const Progress& progress) {
  Status status{.facts = {fmt::format("workflow {}", search.history().size() + 1),
                          "return " + number_or_dash("{:.2f}", progress.return_mean),
                          counted(progress.episodes, "episode")}};
  if (const int all = search.options().n_workflows; all > 0) {
    status.fraction = (static_cast<double>(search.history().size()) + progress.fraction) / all;
  }
  return status;
}

void run_search(const Program& program, const Domain& domain, const SearchArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // nobody reads the progress any more: no reason to stop
  const uint64_t start = now_ns();
  Activity searching("searching");
  const std::unique_ptr<Search> search = open_search(program, domain, arguments);
  if (!search->history().empty()) {
    say(fmt::format("going on after {}\n",
                    counted(static_cast<int64_t>(search->history().size()), "workflow")));
  }
  wait_for_interrupted_work(kInterruptNotice);
  search->run(
      [&](const Trainer& trainer) {
        searching.tell([&] { return status_of(*search, trainer.progress()); });
      },
      [&] { say_done(*search); });
  search->directory().write("posterior.svg", render_svg(search_figure(*search)));
  const double wall_s = seconds_since(start);
  if (arguments.json) {
    display_data(result_json(*search, wall_s).dump() + "\n");
  } else {
    print_result(*search, wall_s);
  }
}

}  // namespace

void add_search_command(Command& parent, const Program& program, const Domain& domain) {
  Command& command =
      parent.add("search", "train for one workflow after the other to find the best");
  auto arguments = std::make_shared<SearchArguments>();
  command.option("settings", arguments->settings,
                 fmt::format("key=value of the training, over the recipe {}", domain.recipe));
  arguments->flags.add_to(command, {{"n_envs", "--num-envs"}});
  command.option("--threads", arguments->threads, "of the training").range(1, 1024);
  command.option("--out", arguments->out,
                 "directory of the search (default runs/ENV-search-seedS-TIME)");
  command.option("--resume", arguments->resume,
                 "directory of a search to resume; the budget may be changed");
  command.flag("--json", arguments->json, "print one JSON object on stdout");
  command.action([&program, &domain, arguments] { run_search(program, domain, *arguments); });
}

}  // namespace flotilla::workflow
