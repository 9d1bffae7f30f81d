#include "flotilla/env/random_run.h"

namespace flotilla {

RandomRun::RandomRun(const EnvType& type, const Config& config, const VecOptions& options,
                     uint64_t seed)
    : seed_(seed) {
  options.validate();
  ArenaLayout layout;
  const EnvSpec spec = type.spec(config, options.time_limit);
  const StepFields fields(layout, spec, options.num_envs, 1);
  vec_ = make_vec_env(type, config, options, layout);
  view_ = fields.view(vec_->arena(), 0);
  actions_ = fields.actions(vec_->arena(), 0);
  open_.resize(static_cast<size_t>(options.num_envs) * spec.action.mask_size());
  vec_->reset(seed, view_);
}

void RandomRun::draw(Span envs, uint64_t step) {
  const uint8_t* mask = open_choices(vec_->spec(), view_, envs, open_.data());
  random_actions(vec_->spec(), envs, seed_, step, mask, actions_, vec_->first_env());
}

void RandomRun::begin(int group) {
  drawn_[group] = {this, steps_};
  const auto draw_some = [](void* context, int, Span envs) {
    const Draw& draw = *static_cast<const Draw*>(context);
    draw.run->draw(envs, draw.step);
  };
  vec_->begin(group, {actions_}, view_, {draw_some, &drawn_[group]});
}

void RandomRun::step(const std::function<void()>& before) {
  draw({0, vec_->num_envs()}, steps_);
  if (before) before();
  for (int g = 0; g < vec_->groups(); ++g) vec_->begin(g, {actions_}, view_);
  for (int g = 0; g < vec_->groups(); ++g) vec_->wait(g);
  ++steps_;
}

void RandomRun::run(uint64_t steps) {
  const uint64_t last = steps_ + steps;
  for (int g = 0; g < vec_->groups(); ++g) begin(g);
  while (++steps_ < last) {
    for (int g = 0; g < vec_->groups(); ++g) {
      vec_->wait(g);
      begin(g);
    }
  }
  for (int g = 0; g < vec_->groups(); ++g) vec_->wait(g);
}

void RandomRun::play(int steps, const Look& look) {
  played_ = steps;
  look_ = look ? &look : nullptr;
  vec_->play(*this);
  steps_ += static_cast<uint64_t>(steps);
}

bool RandomRun::stepped(int, int step, Span envs) {
  if (look_ != nullptr) (*look_)(step, envs);
  return step + 1 < played_;
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
