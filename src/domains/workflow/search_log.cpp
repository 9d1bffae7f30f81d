#include "flotilla/domains/workflow/search_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "flotilla/core/csv.h"
#include "flotilla/core/error.h"
#include "flotilla/core/json_fields.h"

namespace flotilla::workflow {
namespace {

constexpr int kFormat = 1;

Json candidate_json(const Domain& domain, const Orders& orders, const Candidate& candidate) {
  return {{"order", key_text(domain, orders[candidate.order])},
          {"score", candidate.score},
          {"mean", candidate.mean},
          {"deviation", candidate.deviation},
          {"feasible", candidate.feasible}};
}

int order_of(const Domain& domain, const Orders& orders, const JsonFields& fields) {
  const std::string text = fields.text("order");
  for (int i = 0; i < orders.size(); ++i) {
    if (key_text(domain, orders[i]) == text) return i;
  }
  fields.refuse_field("order");
}

Trained trained_from(const Domain& domain, const Orders& orders, const Json& json,
                     const std::string& where) {
  const JsonFields fields(json, where);
  Trained trained;
  trained.order = order_of(domain, orders, fields);
  trained.episodes = static_cast<int64_t>(fields.count("episodes_trained"));
  trained.compliance = fields.number("train_compliance");
  trained.reached = fields.boolean("success");
  trained.value = fields.number("eval_reward");
  trained.eval_compliance = fields.number("eval_compliance");
  trained.params_sha256 = fields.text("params_sha256");
  for (const Json& each : fields.list("top")) {
    const JsonFields of(each, where + ", top");
    trained.top.push_back({.order = order_of(domain, orders, of),
                           .score = of.number("score"),
                           .mean = of.number("mean"),
                           .deviation = of.number("deviation"),
                           .feasible = of.number("feasible")});
  }
  if (trained.top.empty() || trained.top.size() > Trained::kTop) fields.refuse_field("top");
  return trained;
}

}  // namespace

std::string encode_state(const Domain& domain, const Orders& orders, int n_envs, bool finished,
                         const SearchState& state) {
  Json history = Json::array();
  int64_t used = 0;
  for (size_t i = 0; i < state.history.size(); ++i) {
    const Trained& trained = state.history[i];
    used += trained.episodes;
    Json top = Json::array();
    for (const Candidate& each : trained.top) top.push_back(candidate_json(domain, orders, each));
    history.push_back({{"iteration", i + 1},
                       {"workflow", title(domain, orders[trained.order])},
                       {"order", key_text(domain, orders[trained.order])},
                       {"eval_reward", trained.value},
                       {"eval_compliance", trained.eval_compliance},
                       {"train_compliance", trained.compliance},
                       {"episodes_trained", trained.episodes},
                       {"total_episodes_used", used},
                       {"success", trained.reached},
                       {"n_envs", n_envs},
                       {"params_sha256", trained.params_sha256},
                       {"top", std::move(top)}});
  }
  Json json = {
      {"format", kFormat},
      {"domain", domain.env},
      {"finished", finished},
      {"logs",
       {{"training_log.csv", state.training_log}, {"gp_sampling_log.csv", state.choice_log}}},
      {"settings_sha256", state.settings_sha256},
      {"training_history", std::move(history)}};
  json["sha256"] = json_checksum(json);
  return json.dump(2) + "\n";
}

SearchState decode_state(const Domain& domain, const Orders& orders, const std::string& text,
                         const std::string& path) {
  const Json json = parse_json(text, path);
  const JsonFields fields(json, path);
  if (fields.count("format") != kFormat) {
    fields.refuse(
        fmt::format("is of format {}, this program reads {}", fields.count("format"), kFormat));
  }
  if (fields.text("domain") != domain.env) {
    fields.refuse("is of '" + fields.text("domain") + "', not of '" + domain.env + "'");
  }
  // Those of older programs have none.
  if (json.find("sha256") != nullptr && fields.text("sha256") != json_checksum(json)) {
    fields.refuse("does not match its checksum");
  }
  SearchState state;
  const JsonFields logs = fields.object("logs");
  state.training_log = logs.count("training_log.csv");
  state.choice_log = logs.count("gp_sampling_log.csv");
  if (json.find("settings_sha256") != nullptr) {
    state.settings_sha256 = fields.text("settings_sha256");
  }
  for (const Json& each : fields.list("training_history")) {
    state.history.push_back(trained_from(
        domain, orders, each, fmt::format("{}, iteration {}", path, state.history.size() + 1)));
  }
  return state;
}

MetricPlaces::MetricPlaces(const Domain& domain, const EnvSpec& spec) {
  const auto place = [&](const std::string& name) {
    const auto found = std::ranges::find(spec.metrics, name);
    if (found == spec.metrics.end()) {
      throw Error(ErrorCode::kInternal, "'" + spec.name + "' has no metric '" + name + "'");
    }
    return static_cast<size_t>(found - spec.metrics.begin());
  };
  value = place(domain.value);
  compliance = place(domain.compliance);
  acts = place(domain.acts);
}

std::string training_log_header() {
  return "Workflow_ID,Workflow_Order,Type,Episode,Total_Episodes,Env_ID,Env_Reward,Total_Reward,"
         "Alignment_Bonus,Compliance,Fixes,Steps,Success,Eval_Reward\n";
}

// Cells that a type of row does not have are empty.
struct TrainingRows::Row {
  const char* type;
  std::string episode = {}, env = {};
  double value = 0, total = 0, compliance = 0, acts = 0, steps = 0;
  bool has_numbers = true;
  std::string success = {}, evaluated = {};
};

TrainingRows::TrainingRows(int workflow, std::string title, const MetricPlaces& places, int envs)
    : workflow_(workflow),
      title_(to_csv_field(title)),
      places_(places),
      played_(static_cast<size_t>(envs)) {}

void TrainingRows::write(const Row& row) {
  std::string numbers = ",,";
  if (row.has_numbers) {
    numbers = fmt::format("{:.2f},{:.2f},{:.2f}", row.value, row.total, row.total - row.value);
  }
  text_ += fmt::format(
      "{},{},{},{},{},{},{},{:.4f},{},{},{},{}\n", workflow_, title_, row.type, row.episode, total_,
      row.env, numbers, row.compliance, row.has_numbers ? fmt::format("{:.1f}", row.acts) : "",
      row.has_numbers ? fmt::format("{:.1f}", row.steps) : "", row.success, row.evaluated);
}

void TrainingRows::add(const std::vector<Episode>& episodes) {
  if (episodes.empty()) return;
  Row mean{.type = "summary"};
  const double weight = 1 / static_cast<double>(episodes.size());
  for (const Episode& episode : episodes) {
    const auto metric = [&](size_t place) { return static_cast<double>(episode.metrics[place]); };
    ++total_;
    const int64_t number = ++played_[static_cast<size_t>(episode.env)];
    const Row row{.type = "episode",
                  .episode = std::to_string(number),
                  .env = std::to_string(episode.env),
                  .value = metric(places_.value),
                  .total = static_cast<double>(episode.episode_return),
                  .compliance = metric(places_.compliance),
                  .acts = metric(places_.acts),
                  .steps = static_cast<double>(episode.length)};
    write(row);
    mean.value += row.value * weight;
    mean.total += row.total * weight;
    mean.compliance += row.compliance * weight;
    mean.acts += row.acts * weight;
    mean.steps += row.steps * weight;
  }
  write(mean);
}

void TrainingRows::end(const Trained& trained) {
  write({.type = "workflow_complete",
         .compliance = trained.compliance,
         .has_numbers = false,
         .success = trained.reached ? "True" : "False",
         .evaluated = fmt::format("{:.2f}", trained.value)});
}

std::string choice_log_header() {
  std::string text = "Iteration,Selected_Workflow,UCB_Score";
  for (size_t i = 1; i <= Trained::kTop; ++i) {
    text += fmt::format(",Top{0}_Workflow,Top{0}_UCB,Top{0}_Mean,Top{0}_Std", i);
  }
  return text +
         ",Selection_Method,Exploitation_Value,Exploration_Bonus,Compliance_Probability,Reward,"
         "Final_Compliance,Episodes_Trained,GP_Updated\n";
}

std::string choice_row(const Domain& domain, const Orders& orders, int iteration,
                       const Trained& trained, const std::string& method, double bonus) {
  const auto name = [&](int order) { return to_csv_field(title(domain, orders[order])); };
  const Candidate& chosen = trained.top.front();
  std::string text = fmt::format("{},{},{:.4f}", iteration, name(trained.order), chosen.score);
  for (size_t i = 0; i < Trained::kTop; ++i) {
    if (i >= trained.top.size()) {
      text += ",,,,";
      continue;
    }
    const Candidate& each = trained.top[i];
    text += fmt::format(",{},{:.4f},{:.4f},{:.4f}", name(each.order), each.score, each.mean,
                        each.deviation);
  }
  return text + fmt::format(",{},{:.4f},{:.4f},{:.4f},{:.2f},{:.4f},{},{}\n", method, chosen.mean,
                            bonus, chosen.feasible, trained.value, trained.compliance,
                            trained.episodes, trained.reached || method != "legacy" ? "Yes" : "No");
}

}  // namespace flotilla::workflow
