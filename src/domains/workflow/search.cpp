#include "flotilla/domains/workflow/search.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/rng.h"
#include "flotilla/core/system.h"
#include "flotilla/nn/policy_file.h"

namespace flotilla::workflow {
namespace {

constexpr const char* kTraining = "config.yaml";
constexpr const char* kOptions = "search.yaml";
constexpr const char* kState = "search.json";
constexpr const char* kTrainingLog = "training_log.csv";
constexpr const char* kChoiceLog = "gp_sampling_log.csv";
constexpr const char* kPolicies = "policies";
constexpr size_t kMaxState = size_t{1} << 28u, kMaxPolicy = size_t{1} << 32u;
const RunDirectory::Names kNames = {kTraining,  kOptions,  kState,           kTrainingLog,
                                    kChoiceLog, kPolicies, kDefaultCrashDir, "posterior.svg"};

std::string policy_name(size_t iteration) { return fmt::format("{}.safetensors", iteration + 1); }

// Streams of the seed, behind those of ties.
constexpr uint64_t kShuffles = uint64_t{1} << 40u, kTrainings = uint64_t{2} << 40u;

uint64_t training_seed(uint64_t seed, size_t iteration) {
  return Rng(seed, stream_of(Purpose::kSearch, kTrainings + iteration)).next_u32();
}

// All orders in a random order, and again in another one.
int random_choice(const Orders& orders, uint64_t seed, int iteration) {
  std::vector<int> all(static_cast<size_t>(orders.size()));
  std::iota(all.begin(), all.end(), 0);
  const auto round = static_cast<uint64_t>(iteration / orders.size());
  Rng rng(seed, stream_of(Purpose::kSearch, kShuffles + round));
  for (size_t left = all.size(); left > 1; --left) {
    std::swap(all[left - 1], all[rng.below(static_cast<uint32_t>(left))]);
  }
  return all[static_cast<size_t>(iteration % orders.size())];
}

// The config of a file of a search. Throws Error(kData) where it is none.
Config read_config(const RunDirectory& directory, const char* name, const Schema& schema) {
  Config config(schema);
  try {
    config.load_yaml_text(directory.read(name, kLargestConfig), directory.file(name));
  } catch (const Error& error) {
    throw Error(ErrorCode::kData, error.what());
  }
  return config;
}

bool is_budget(const Key& key) { return key.name == "n_workflows" || key.name == "episodes"; }

// Of what a resumed search cannot change.
std::string sha256_of(Config options, const Config& training) {
  for (const Key& key : options.schema().keys()) {
    if (is_budget(key)) options.set(key.name, "0");
  }
  return options.sha256() + " " + training.sha256();
}

template <class MayChange>
void require_same(const Config& before, const Config& now, const MayChange& may_change) {
  for (const Key& key : before.schema().keys()) {
    if (before.text(key.name) == now.text(key.name) || may_change(key)) continue;
    throw Error(ErrorCode::kUsage,
                fmt::format("a resumed search cannot change {} from {} to {}", key.name,
                            before.text(key.name), now.text(key.name)));
  }
}

// Of a log that may not be there yet. Throws Error(kData) where it is shorter than the state says.
void require_size(const Directory& directory, const char* name, uint64_t size) {
  struct stat facts {};
  if (directory.holds(name)) ::fstat(directory.open_to_read(name).get(), &facts);
  if (static_cast<uint64_t>(facts.st_size) >= size) return;
  throw Error(ErrorCode::kData, fmt::format("{}: has {} bytes, {} says {}", directory.path(name),
                                            facts.st_size, kState, size));
}

void cut(const Directory& directory, const char* name, uint64_t size) {
  if (!directory.holds(name)) return;
  const Descriptor file = directory.open_to_write(name, Directory::Place::kAnywhere);
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    throw_errno(ErrorCode::kData, "cannot cut " + directory.path(name));
  }
}

// Returns the new size.
uint64_t append(const Directory& directory, const char* name, uint64_t size,
                const std::string& header, const std::string& rows) {
  AppendFile file(directory, name);
  const std::string text = size == 0 ? header + rows : rows;
  file.append(text);
  file.flush();
  file.sync();
  return size + text.size();
}

}  // namespace

std::vector<Candidate> rank(const Orders& orders, const std::vector<Trial>& trials,
                            const SearchOptions& options, int iteration) {
  using Method = SearchOptions::Method;
  if (options.method == Method::kLegacy) {
    std::vector<Trial> passed;
    std::ranges::copy_if(trials, std::back_inserter(passed), &Trial::compliant);
    return score_as_before(orders, passed, options.acquisition.beta);
  }
  std::vector<Candidate> candidates = score_by_ucb(orders, trials, options.acquisition);
  if (options.method == Method::kUcb) return candidates;
  const int choice = options.method == Method::kRandom
                         ? random_choice(orders, options.seed, iteration)
                         : iteration % orders.size();
  const auto chosen = std::ranges::find(candidates, choice, &Candidate::order);
  std::rotate(candidates.begin(), chosen, chosen + 1);
  return candidates;
}

std::optional<size_t> inherited(const Orders& orders, const std::vector<Trained>& history,
                                int order, SearchOptions::Inherit inherit) {
  using Inherit = SearchOptions::Inherit;
  if (inherit == Inherit::kNone || history.empty()) return std::nullopt;
  if (inherit == Inherit::kPrevious) return history.size() - 1;
  // Of its own trainings the last one; of others as near as each other the earliest.
  size_t from = 0;
  double nearest = 2;
  for (size_t i = 0; i < history.size(); ++i) {
    const double distance = orders.kendall(order, history[i].order);
    if (distance < nearest || distance == 0) from = i;
    nearest = std::min(nearest, distance);
  }
  if (inherit == Inherit::kOwn && nearest > 0) return std::nullopt;
  return from;
}

ForeignDirectory search_directory() {
  return {.file = kOptions,
          .what = "a search over workflows",
          .resume = "flotilla ENV search --resume"};
}

Search::Search(const Domain& domain, const Registry& registry, const Config& options,
               const Config& training)
    : domain_(domain),
      orders_(static_cast<int>(domain.types.size())),
      type_(registry.find(domain.env)),
      config_(options),
      training_(training),
      options_(SearchOptions::from(options)) {
  const int64_t envs = options_.n_envs;
  training_.set("num_envs", std::to_string(envs));
  training_.set("total_timesteps", "0");
  training_.set("episodes", std::to_string(envs * options_.episodes_per_env));
}

Search::Search(const Domain& domain, const Registry& registry, const std::string& directory,
               const Config& options, const Config& training)
    : Search(domain, registry, options, training) {
  run_config(0);  // what is wrong with it is said before anything is written
  directory_ = RunDirectory::make(
      directory.empty() ? make_run_path(domain_.env + "-search", options_.seed) : directory,
      kNames);
  directory_->write(kOptions, config_.to_yaml());
  state_.settings_sha256 = sha256_of(config_, training_);
  write_state();
  directory_->write(kTraining, training_.to_yaml());
}

std::string Search::state_text() const {
  return encode_state(domain_, orders_, options_.n_envs, finished(), state_);
}

void Search::write_state() const { directory_->write(kState, state_text()); }

std::unique_ptr<Search> Search::resume(const Domain& domain, const Registry& registry,
                                       const std::string& path, const Adjust& adjust) {
  RunDirectory directory = RunDirectory::open(path);
  if (!directory.holds(kOptions)) {
    throw Error(ErrorCode::kUsage, "'" + path + "' is no search: it has no " + kOptions);
  }
  const SearchState state = decode_state(domain, Orders(static_cast<int>(domain.types.size())),
                                         directory.read(kState, kMaxState), directory.file(kState));
  const Config options = read_config(directory, kOptions, SearchOptions::schema());
  const Config training =
      read_config(directory, kTraining, RunConfig::schema(registry.find(domain.env)));
  Config new_options = options, new_training = training;
  keep_crashes_inside(new_training, path);
  if (adjust) adjust(new_options, new_training);
  if (!state.settings_sha256.empty() && state.settings_sha256 != sha256_of(options, training)) {
    throw Error(ErrorCode::kData, fmt::format("{} or {} was changed: {} is of other settings",
                                              directory.file(kOptions), kTraining, kState));
  }
  require_same(options, new_options, is_budget);
  require_same(training, new_training, [](const Key& key) { return key.execution; });
  std::unique_ptr<Search> search(new Search(domain, registry, new_options, new_training));
  search->directory_ = std::move(directory);
  search->state_ = state;
  search->run_config(0);  // every check before the first change
  const Directory& files = search->directory();
  require_size(files, kTrainingLog, state.training_log);
  require_size(files, kChoiceLog, state.choice_log);
  search->require_policies();
  cut(files, kTrainingLog, state.training_log);
  cut(files, kChoiceLog, state.choice_log);
  files.remove_unfinished();
  if (files.holds(kPolicies)) files.folder(kPolicies).remove_unfinished();
  search->directory_->write(kOptions, search->config_.to_yaml());
  search->state_.settings_sha256 = sha256_of(search->config_, search->training_);
  search->write_state();  // another budget may be used up, or no longer
  return search;
}

bool Search::finished() const {
  const auto tried = static_cast<int64_t>(state_.history.size());
  const bool enough = options_.n_workflows > 0 && tried >= options_.n_workflows;
  return enough || (options_.episodes > 0 && episodes_used() >= options_.episodes);
}

int64_t Search::episodes_used() const {
  int64_t sum = 0;
  for (const Trained& each : state_.history) sum += each.episodes;
  return sum;
}

std::vector<const Trained*> Search::by_value() const {
  std::vector<const Trained*> tried;
  for (const Trained& each : state_.history) {
    std::erase_if(tried, [&](const Trained* t) { return t->order == each.order; });
    tried.push_back(&each);
  }
  std::ranges::stable_sort(tried, [](const Trained* a, const Trained* b) {
    return a->reached != b->reached ? a->reached : a->value > b->value;
  });
  return tried;
}

std::string Search::policy_path(const Trained& trained) const {
  const auto iteration = static_cast<size_t>(&trained - state_.history.data());
  return directory().path(std::string(kPolicies) + "/" + policy_name(iteration));
}

std::vector<Trial> Search::trials() const {
  std::vector<Trial> trials;
  for (const Trained& each : state_.history) {
    trials.push_back(
        {.order = each.order, .value = each.value, .compliant = each.reached || !options_.gate});
  }
  return trials;
}

std::vector<Candidate> Search::ranking() const {
  return rank(orders_, trials(), options_, static_cast<int>(state_.history.size()));
}

RunConfig Search::run_config(int order) const {
  Config config = training_;
  config.set("env." + domain_.key, key_text(domain_, orders_[order]));
  config.set("seed", std::to_string(training_seed(options_.seed, state_.history.size())));
  RunConfig run(type_, config);
  if (run.eval.episodes > 0) return run;
  throw Error(ErrorCode::kUsage, "eval.episodes: expected 1 or more, by which a search compares");
}

// Of the trainings that later ones may begin with.
void Search::require_policies() const {
  if (state_.history.empty() || options_.inherit == SearchOptions::Inherit::kNone) return;
  const Directory policies = directory().folder(kPolicies);
  for (size_t i = 0; i < state_.history.size(); ++i) policies.open_to_read(policy_name(i));
}

void Search::run(const std::function<void(const Trainer&)>& during,
                 const std::function<void()>& after) {
  try {
    while (!finished()) {
      try_next(during);
      if (after) after();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInterrupted) throw;
    throw Error(ErrorCode::kInterrupted,
                fmt::format("interrupted after {} workflows; resume with --resume {}",
                            state_.history.size(), path()));
  }
}

void Search::try_next(const std::function<void(const Trainer&)>& during) {
  std::vector<Candidate> ranking = this->ranking();
  Trained trained;
  trained.order = ranking.front().order;
  ranking.resize(std::min(ranking.size(), Trained::kTop));
  trained.top = std::move(ranking);

  const RunConfig run = run_config(trained.order);
  Trainer trainer(run);
  if (run.vec.crash_dir.path() == kDefaultCrashDir) {
    trainer.set_crash_dir({directory(), kDefaultCrashDir});
  }
  if (const auto from = inherited(orders_, state_.history, trained.order, options_.inherit)) {
    const Directory policies = directory().folder(kPolicies);
    const std::string name = policy_name(*from);
    load_policy(decode_policy(policies.read(name, kMaxPolicy), policies.path(name)),
                trainer.policy());
  }
  const MetricPlaces places(domain_, trainer.env_spec());
  TrainingRows rows(static_cast<int>(state_.history.size()) + 1,
                    title(domain_, orders_[trained.order]), places, options_.n_envs);
  ComplianceStop stop(options_.stop, options_.n_envs);
  while (!trainer.finished() && !stop.reached()) {
    stop_if_interrupted();
    trainer.iterate();
    for (const Episode& episode : trainer.ended_episodes()) {
      stop.note(episode.env, static_cast<double>(episode.metrics[places.compliance]),
                static_cast<double>(episode.metrics[places.acts]));
    }
    rows.add(trainer.ended_episodes());
    if (during) during(trainer);
  }
  trained.episodes = trainer.progress().episodes;
  trained.compliance = stop.compliance();
  trained.reached = stop.reached();
  const Evaluation eval = trainer.evaluate();
  trained.value = eval.metrics[places.value];
  trained.eval_compliance = eval.metrics[places.compliance];
  trained.params_sha256 = trainer.params_sha256();
  rows.end(trained);
  record(std::move(trained), rows, trainer, run);
}

// The state comes last: until it is there, the rest is of a workflow that will be tried again.
void Search::record(Trained trained, TrainingRows& rows, const Trainer& trainer,
                    const RunConfig& run) {
  const size_t iteration = state_.history.size();
  directory().make_folder(kPolicies).write(policy_name(iteration),
                                           encode_policy(trainer.policy(), trainer.env_spec(),
                                                         {.env = type_.name,
                                                          .env_config = run.env_config.to_yaml(),
                                                          .time_limit = run.vec.time_limit,
                                                          .seed = run.seed,
                                                          .sampled = !run.eval.deterministic}));
  const Candidate& chosen = trained.top.front();
  const double bonus =
      options_.method == SearchOptions::Method::kLegacy
          ? chosen.score - chosen.mean
          : uncertainty_weight(options_.acquisition.beta, iteration) * chosen.deviation;
  const std::string choice = choice_row(domain_, orders_, static_cast<int>(iteration) + 1, trained,
                                        config_.get_text("acquisition"), bonus);
  state_.training_log =
      append(directory(), kTrainingLog, state_.training_log, training_log_header(), rows.text());
  state_.choice_log =
      append(directory(), kChoiceLog, state_.choice_log, choice_log_header(), choice);
  state_.history.push_back(std::move(trained));
  write_state();
}

}  // namespace flotilla::workflow
