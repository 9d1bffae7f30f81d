// The memory of one rollout: what every env saw, did and got over `horizon` steps, in one arena
// into which the environments write and from which the learner reads.
//
// Arrays are flat, row t * num_envs + i; observations and masks have one step more, for what
// follows the last one. The last observations of truncated episodes go into a pool, for only
// they are needed besides; parts of the envs that are collected at once have pools of their own.
// Where an env has only a mask or only advice, it writes it where the
// policy reads it; where it has both, open_choices() makes one of them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "flotilla/algo/learner.h"
#include "flotilla/env/vec_env.h"

namespace flotilla {

// An episode that ended during a rollout.
struct Episode {
  int step = 0, env = 0;
  float episode_return = 0;
  int32_t length = 0;
  std::vector<float> metrics;
  bool valid = true;  // its last step was; otherwise the return means nothing
};

void save_episode(const Episode& episode, Writer& writer);
Episode load_episode(Reader& reader);

// Means of numbers of which some may be missing: NaN.
class PresentMeans {
 public:
  explicit PresentMeans(size_t size) : total_(size) {}
  // Numbers of one cluster may depend on each other: those of replicas that played the same
  // episode, say.
  void add(std::span<const float> numbers, int64_t cluster);
  std::vector<double> means() const;  // NaN where there was none
  // Half of the 95 % interval of each mean, of clusters that are independent; NaN where there was
  // less than two of them.
  std::vector<double> ci95() const;

 private:
  struct Sum {
    double sum = 0, count = 0;
  };
  std::vector<Sum> total_;
  std::map<int64_t, std::vector<Sum>> clusters_;
};

// The cluster of an ended episode: replicas, which have the same random numbers, are in one with
// what they play at the same time.
class EpisodeClusters {
 public:
  explicit EpisodeClusters(const VecOptions& vec)
      : first_env_(vec.first_env),
        replicas_(vec.replicas),
        ended_(static_cast<size_t>(vec.num_envs), 0) {}
  int64_t next(const Episode& episode);  // in the order of steps

 private:
  const int first_env_, replicas_;
  std::vector<int32_t> ended_;  // episodes, by env
};

class Rollout {
 public:
  // Registers the fields; attach() once the arena exists.
  Rollout(ArenaLayout& layout, const EnvSpec& spec, int num_envs, int horizon, int parts = 1);
  void attach(const Arena& arena);

  int num_envs() const { return num_envs_; }
  int horizon() const { return horizon_; }
  int parts() const { return static_cast<int>(ends_.size()); }
  int64_t rows() const { return int64_t{num_envs_} * horizon_; }
  size_t row(int step, int env) const {
    return static_cast<size_t>(step) * static_cast<size_t>(num_envs_) + static_cast<size_t>(env);
  }

  // Where step `step` of all envs is written.
  StepView view(int step) const;
  // Where the observations before the first step are written.
  StepView first_view() const;
  std::byte* actions(int step) const;

  // Writes `mask` of these envs, which must be done before a policy acts on the observations before
  // `step`, where the env has a mask and advice; elsewhere it is there already.
  void open_choices(int step, Span envs) const;

  // Makes the observations of these envs that follow the last step of a rollout, maybe this one or
  // a shorter one, the first of this one.
  void carry_over(const Rollout& before, Span envs);
  void carry_over() { carry_over(*this, {0, num_envs_}); }
  // Takes what is needed of the episodes that ended at this step. Parts may do so at once.
  void harvest(int step, Span envs, int part = 0);
  // In the order of steps and envs; those of a part in the order in which they ended.
  std::vector<Episode> take_episodes();
  std::vector<Episode> take_episodes(int part);

  // What a learner sees of it, of rewards that may be scaled. `epsilon`: with which it was drawn.
  Batch batch(const BatchNeeds& needs, const float* rewards, float epsilon) const;

  // Throws Error(kNumeric) that names env, field and step of the first reward or observation that
  // is not finite. Row i belongs to env first_env + i. `pool`: who looks; null: the caller alone.
  void require_finite(int first_env = 0, ThreadPool* pool = nullptr) const;

  // Public arrays, by row.
  std::byte *obs = nullptr, *latent = nullptr;
  uint8_t* mask = nullptr;  // choices that are legal and advised; null where all are open
  float *reward = nullptr, *logprob = nullptr, *value = nullptr, *final_value = nullptr;
  float* last_value = nullptr;  // by env
  uint8_t *terminated = nullptr, *truncated = nullptr, *valid = nullptr;

  // Last observations of truncated episodes, and the rows they belong to.
  struct Cuts {
    std::vector<std::byte> obs;
    std::vector<size_t> rows;
    void clear() { obs.clear(), rows.clear(); }
  };
  Cuts& cuts(int part = 0) { return ends_[static_cast<size_t>(part)].cuts; }

  // Takes the rows of a smaller rollout for these envs, and its episodes for this part. Parts may
  // do so at once. REQUIRES: as many envs and steps, and the same spaces.
  void take_columns(const Rollout& from, Span envs, int part);
  // Throws Error(kData) or Error(kNumeric) for rows, from another machine say, that no policy could
  // have made: numbers that are not finite, flags that are none, choices that are closed.
  void require_learnable() const;

  // All that a learner sees, and the episodes that ended: as it is when it is complete.
  void save(Writer& writer) const;
  void load(Reader& reader);

 private:
  void require_choices() const;       // throws Error(kData)
  void require_open_choices() const;  // likewise, where there is a mask

  struct Ends {
    Cuts cuts;
    std::vector<Episode> episodes;
  };

  const EnvSpec spec_;
  int num_envs_, horizon_;
  FieldId<std::byte> obs_id_, actions_id_, latent_id_, final_obs_id_;
  FieldId<float> reward_id_, logprob_id_, value_id_, final_value_id_, last_value_id_;
  FieldId<float> episode_return_id_, metrics_id_;
  FieldId<int32_t> episode_length_id_;
  FieldId<uint8_t> terminated_id_, truncated_id_, valid_id_, mask_id_, legal_id_, advice_id_;
  std::byte *actions_ = nullptr, *step_final_obs_ = nullptr;
  uint8_t *legal_ = nullptr, *advice_ = nullptr;  // of the latest step, where the env has both
  float *episode_return_ = nullptr, *metrics_ = nullptr;
  int32_t* episode_length_ = nullptr;
  std::vector<Ends> ends_;  // by part
};

}  // namespace flotilla
