// What a program knows: environments and recipes by their names. Filled by one explicit list
// (domains/domains.cpp), and by a user's own program.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/core/config.h"
#include "flotilla/core/json.h"
#include "flotilla/env/env_loop.h"

namespace flotilla {

// The batch that a worker has a part of, as VecOptions say.
struct WorkerBatch {
  int num_envs = 0, first_env = 0, replicas = 1, time_limit = 0;
};

struct EnvType {
  std::string name;
  std::string summary;  // one line for `flotilla list`
  Schema schema;
  // `time_limit` replaces the env's own when positive.
  std::function<std::unique_ptr<EnvLoop>(const Config&, int time_limit)> make_loop;
  bool batched = false;    // see BatchedEnv
  bool repeatable = true;  // see is_repeatable
  // Where the common stage of a batched env takes most of the time: "it has keys for that", or "".
  std::string stage_hint = {};
  // Where its envs are in workers alone: how these are started (VecOptions); an empty command is
  // this program. Such envs need the processes back end; loops of make_loop are
  // EnvLoop::is_remote() then.
  std::function<std::vector<std::string>(const Config&)> worker_command = {};
  // The loop of such a worker, where it is of this program.
  std::function<std::unique_ptr<EnvLoop>(const Config&, const WorkerBatch&)> make_worker_loop = {};
  // What such an env looks like, for ask_for_description() (env/worker.h).
  std::function<Json(const Config&)> describe = {};
  // What failures call it, where its name does not say all.
  std::function<std::string(const Config&)> title = {};
  bool needs_settings = false;  // it has no spec without them
  // Fills in settings that are left open and that a run has to keep, such as a scale that is fitted
  // on its data: they are in its config.yaml and in its policies from then on. May take long.
  std::function<void(Config&)> fill_in = {};

  // What its envs look like from outside.
  EnvSpec spec(const Config& config, int time_limit = 0) const {
    return make_loop(config, time_limit)->spec();
  }
};

// E::fill_in(Config&) where there is one.
template <Env E>
std::function<void(Config&)> fill_in_of() {
  if constexpr (requires(Config & config) { E::fill_in(config); }) return E::fill_in;
  return {};
}

template <Env E>
EnvType env_type(const std::string& name, const std::string& summary) {
  return {.name = name,
          .summary = summary,
          .schema = with_frame_stack(E::schema()),
          .make_loop =
              [name](const Config& config, int time_limit) {
                return std::make_unique<LoopOf<E>>(name, config, time_limit,
                                                   frame_stack_of(config));
              },
          .batched = BatchedEnv<E>,
          .repeatable = is_repeatable<E>(),
          .fill_in = fill_in_of<E>()};
}

// Python code (env/python_env.h) and shared libraries (env/libenv/libenv.h).
bool is_outside_env(const std::string& name);

// Settings for `flotilla train NAME`: the text of a YAML file.
struct Recipe {
  std::string name;
  std::string yaml;
};

// A directory that looks like that of a run and is none: what it is by the file in it, and the
// command that goes on with it ("flotilla ENV search --resume").
struct ForeignDirectory {
  std::string file;
  std::string what;
  std::string resume;
};

// Thread safety: one caller at a time.
class Registry {
 public:
  void add(EnvType type);  // throws Error(kInternal) when the name is taken
  // Throws Error(kUsage) "did you mean". Envs that are no part of the program (is_outside_env())
  // need not be added before.
  const EnvType& find(const std::string& name) const;
  const std::deque<EnvType>& types() const { return types_; }

  void add_recipe(Recipe recipe);  // throws Error(kInternal) when the name is taken
  const Recipe* find_recipe(const std::string& name) const;  // null: there is none
  // In the order of their files in a folder.
  const std::vector<Recipe>& recipes() const { return recipes_; }

  void add_foreign_directory(ForeignDirectory kind);  // a known file is passed over
  const std::vector<ForeignDirectory>& foreign_directories() const { return foreign_; }

 private:
  std::deque<EnvType> types_;                  // references to one outlive the next add()
  mutable std::deque<EnvType> outside_types_;  // those asked for so far
  std::vector<Recipe> recipes_;
  std::vector<ForeignDirectory> foreign_;
};

}  // namespace flotilla
