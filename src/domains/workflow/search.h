// A search for the best workflow: choose an order, train a policy that is rewarded for keeping to
// it, play it, and let what came out decide which order is next.
//
// It lives in a directory:
//   config.yaml, search.yaml   settings of the trainings and of the search
//   search.json                what was tried and found; the state to go on from
//   training_log.csv           every episode of training
//   gp_sampling_log.csv        every choice
//   policies/N.safetensors     the policy of the N-th training
// Files grow when a workflow is done. A search that was killed goes on with the workflow it was at,
// from that one's start, and ends with the same bytes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flotilla/domains/workflow/domain.h"
#include "flotilla/domains/workflow/search_log.h"
#include "flotilla/domains/workflow/search_options.h"
#include "flotilla/env/registry.h"
#include "flotilla/train/run_directory.h"
#include "flotilla/train/trainer.h"

namespace flotilla::workflow {

// Every order, the next choice first. `iteration`: how many choices were made before.
std::vector<Candidate> rank(const Orders& orders, const std::vector<Trial>& trials,
                            const SearchOptions& options, int iteration);

// Which training's weights one for this order begins with; none: new ones.
std::optional<size_t> inherited(const Orders& orders, const std::vector<Trained>& history,
                                int order, SearchOptions::Inherit inherit);

// How others tell the directory of a search from that of a run.
ForeignDirectory search_directory();

class Search {
 public:
  // A new one, in a directory that holds none. `options` has the keys of SearchOptions, `training`
  // those of a run of the domain's environment, of which the search sets some itself.
  Search(const Domain& domain, const Registry& registry, const std::string& directory,
         const Config& options, const Config& training);
  // Goes on with one. `adjust` may change the budget, n_workflows and episodes, and how training is
  // carried out; Error(kUsage) names any other key. Throws Error(kData) for files that were
  // altered.
  using Adjust = std::function<void(Config& options, Config& training)>;
  static std::unique_ptr<Search> resume(const Domain& domain, const Registry& registry,
                                        const std::string& directory, const Adjust& adjust);

  // Tries workflows until the budget is used up. `during` sees every update, `after` every
  // workflow that is done. Throws Error(kInterrupted) that says how to go on.
  void run(const std::function<void(const Trainer&)>& during = {},
           const std::function<void()>& after = {});
  bool finished() const;

  const Domain& domain() const { return domain_; }
  const Orders& orders() const { return orders_; }
  const SearchOptions& options() const { return options_; }
  const std::vector<Trained>& history() const { return state_.history; }
  // The last training of every order that was tried, those that reached the compliance before the
  // others, the highest value first.
  std::vector<const Trained*> by_value() const;
  std::string policy_path(const Trained& trained) const;  // of one of the history
  std::vector<Candidate> ranking() const;
  int64_t episodes_used() const;
  const std::string& path() const { return directory_->path(); }
  const Directory& directory() const { return directory_->directory(); }
  std::string state_text() const;  // of search.json

 private:
  Search(const Domain& domain, const Registry& registry, const Config& options,
         const Config& training);

  RunConfig run_config(int order) const;
  void try_next(const std::function<void(const Trainer&)>& during);
  void record(Trained trained, TrainingRows& rows, const Trainer& trainer, const RunConfig& run);
  std::vector<Trial> trials() const;
  void require_policies() const;
  void write_state() const;

  const Domain domain_;
  const Orders orders_;
  const EnvType& type_;
  std::optional<RunDirectory> directory_;  // there from the end of the making on
  Config config_, training_;
  SearchOptions options_;
  SearchState state_;
};

}  // namespace flotilla::workflow
