#include "env/random_run.h"

namespace flotilla {

RandomRun::RandomRun(const EnvType& type, const Config& config, const VecOptions& options,
                     uint64_t seed)
    : seed_(seed) {
  options.validate();
  ArenaLayout layout;
  const auto kernel = type.make_kernel(config, options.time_limit);
  const StepFields fields(layout, kernel->spec(), options.num_envs, 1);
  vec_ = make_vec_env(type, config, options, layout);
  view_ = fields.view(vec_->arena(), 0);
  actions_ = fields.actions(vec_->arena(), 0);
  vec_->reset(seed, view_);
}

void RandomRun::draw(int group, uint64_t step) {
  // Fewer are drawn sooner than the team is called.
  constexpr size_t kWorthATeam = 4096;
  const Span envs = vec_->group(group);
  const auto draw_some = [&](Span some) {
    random_actions(vec_->spec(), some, seed_, step, view_.mask, actions_);
  };
  ThreadPool* team = vec_->team();
  const size_t numbers = static_cast<size_t>(envs.size()) * vec_->spec().action.dims();
  if (team == nullptr || numbers < kWorthATeam) return draw_some(envs);
  team->run([&](int part) { draw_some(lane_span(envs, team->threads(), part)); });
}

void RandomRun::begin(int group) { vec_->begin(group, {actions_}, view_); }

void RandomRun::step(const std::function<void()>& before) {
  for (int g = 0; g < vec_->groups(); ++g) draw(g, steps_);
  if (before) before();
  for (int g = 0; g < vec_->groups(); ++g) begin(g);
  for (int g = 0; g < vec_->groups(); ++g) vec_->wait(g);
  ++steps_;
}

void RandomRun::run(uint64_t steps) {
  const uint64_t last = steps_ + steps;
  for (int g = 0; g < vec_->groups(); ++g) {
    draw(g, steps_);
    begin(g);
  }
  while (++steps_ < last) {
    for (int g = 0; g < vec_->groups(); ++g) {
      vec_->wait(g);
      draw(g, steps_);
      begin(g);
    }
  }
  for (int g = 0; g < vec_->groups(); ++g) vec_->wait(g);
}

void RandomRun::save(Writer& writer) const {
  writer.u64("action_seed", seed_);
  writer.u64("steps", steps_);
  vec_->save(writer);
}

void RandomRun::load(Reader& reader) {
  seed_ = reader.u64("action_seed");
  steps_ = reader.u64("steps");
  vec_->load(reader, view_);
}

TrajectoryHash::TrajectoryHash(const EnvSpec& spec, int num_envs)
    : num_envs_(static_cast<size_t>(num_envs)), obs_bytes_(spec.obs.row_bytes()) {}

void TrajectoryHash::add(const StepView& view) {
  hash_.update(view.obs, num_envs_ * obs_bytes_);
  hash_.update(view.reward, num_envs_ * sizeof(float));
  hash_.update(view.terminated, num_envs_);
  hash_.update(view.truncated, num_envs_);
}

}  // namespace flotilla
