// A VecEnv with its buffers, driven by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/env/vec_env.h"
#include "support/build.h"
#include "support/shipped.h"
#include "support/test_envs.h"

namespace flotilla::test {

// The shipped environments that the test program was linked with and those of test_envs.h.
inline const Registry& registry() {
  static const Registry all = [] {
    Registry made = shipped();
    register_test_envs(made);
    return made;
  }();
  return all;
}

inline Config config_of(const EnvType& type, const std::vector<std::string>& overrides = {}) {
  Config config(type.schema);
  for (const std::string& each : overrides) config.apply_override(each);
  return config;
}

// One env's row as bytes, with what belongs to an ended episode where one ended.
inline std::string row_bytes(const EnvSpec& spec, const StepView& v, int env) {
  const auto i = static_cast<size_t>(env);
  const size_t obs = spec.obs.row_bytes(), mask = spec.action.mask_size();
  std::string bytes;
  const auto add = [&bytes](const void* data, size_t size) {
    bytes.append(static_cast<const char*>(data), size);
  };
  add(v.obs + i * obs, obs);
  add(v.reward + i, sizeof(float));
  add(v.terminated + i, 1);
  add(v.truncated + i, 1);
  add(v.valid + i, 1);
  if (v.mask != nullptr) add(v.mask + i * mask, mask);
  if (v.advice != nullptr) add(v.advice + i * mask, mask);
  if (v.terminated[i] != 0 || v.truncated[i] != 0) {
    add(v.final_obs + i * obs, obs);
    add(v.episode_return + i, sizeof(float));
    add(v.episode_length + i, sizeof(int32_t));
    add(v.metrics + i * spec.metrics.size(), spec.metrics.size() * sizeof(float));
  }
  return bytes;
}

class Batch {
 public:
  Batch(const std::string& env, const std::vector<std::string>& overrides,
        const VecOptions& options, int steps = 1) {
    const EnvType& type = registry().find(env);
    const Config config = config_of(type, overrides);
    const EnvSpec spec = type.spec(config, options.time_limit);
    ArenaLayout layout;
    fields_ = StepFields(layout, spec, options.num_envs, steps);
    vec_ = make_vec_env(type, config, options, layout);
  }

  VecEnv& vec() { return *vec_; }
  const EnvSpec& spec() const { return vec_->spec(); }
  StepView view(int t = 0) const { return fields_.view(vec_->arena(), t); }
  ActionView actions(int t = 0) const { return {fields_.actions(vec_->arena(), t)}; }
  std::byte* actions_out(int t = 0) const { return fields_.actions(vec_->arena(), t); }

  void put(const std::vector<int32_t>& choices, int t = 0) {
    std::memcpy(actions_out(t), choices.data(), choices.size() * sizeof(int32_t));
  }
  void reset(uint64_t seed) { vec_->reset(seed, view()); }
  void begin(int group = 0) { vec_->begin(group, actions(), view()); }
  void step(const std::vector<int32_t>& choices) {
    put(choices);
    step();
  }
  void step_randomly(uint64_t seed, uint64_t step) {
    const Span all{0, vec_->num_envs()};
    std::vector<uint8_t> both(static_cast<size_t>(all.end) * spec().action.mask_size());
    random_actions(spec(), all, seed, step, open_choices(spec(), view(), all, both.data()),
                   actions_out(), vec_->first_env());
    this->step();
  }
  // With the actions already there. Every group is waited for, also when one of them throws.
  void step() {
    for (int g = 0; g < vec_->groups(); ++g) begin(g);
    std::exception_ptr first;
    for (int g = 0; g < vec_->groups(); ++g) {
      try {
        vec_->wait(g);
      } catch (...) {
        if (first == nullptr) first = std::current_exception();
      }
    }
    if (first != nullptr) std::rethrow_exception(first);
  }

  std::vector<float> obs(int env) const { return floats(view().obs, env); }
  std::vector<float> final_obs(int env) const { return floats(view().final_obs, env); }
  std::string row(int env) const { return row_bytes(spec(), view(), env); }
  std::vector<std::string> rows() const {
    std::vector<std::string> all;
    for (int i = 0; i < vec_->num_envs(); ++i) all.push_back(row(i));
    return all;
  }
  std::vector<std::byte> saved() const {
    Writer writer;
    vec_->save(writer);
    return writer.buffer();
  }
  void load(const std::vector<std::byte>& bytes) {
    Reader reader(bytes, "saved");
    vec_->load(reader, view());
  }

 private:
  std::vector<float> floats(const std::byte* rows, int env) const {
    std::vector<float> row(spec().obs.elements());
    std::memcpy(row.data(), rows + static_cast<size_t>(env) * spec().obs.row_bytes(),
                spec().obs.row_bytes());
    return row;
  }

  StepFields fields_;
  std::unique_ptr<VecEnv> vec_;
};

// Generator position 0 of an env, or that after its n-th failure.
inline Rng env_rng(uint64_t seed, int env, uint64_t failures = 0) {
  return Rng(seed, stream_of(Purpose::kEnv, static_cast<uint64_t>(env)),
             failures << kFailureLeapBits);
}

struct Variant {
  std::string name;
  VecOptions options;
};

// The back ends, each in a few shapes.
inline std::vector<Variant> variants(int num_envs) {
  std::vector<Variant> all;
  const auto add = [&](const char* name, Backend backend, int lanes, int groups,
                       StartMethod start) {
    VecOptions options;
    options.backend = backend;
    options.num_envs = num_envs;
    options.threads = options.workers = lanes;
    options.groups = groups;
    options.start_method = start;
    all.push_back({name, options});
  };
  add("serial", Backend::kSerial, 1, 1, StartMethod::kSpawn);
  add("serial, 2 groups", Backend::kSerial, 1, 2, StartMethod::kSpawn);
  add("2 threads", Backend::kThreads, 2, 1, StartMethod::kSpawn);
  add("3 threads, 2 groups", Backend::kThreads, 3, 2, StartMethod::kSpawn);
  add("1 worker, 2 groups", Backend::kProcesses, 1, 2, StartMethod::kSpawn);
  add("2 workers", Backend::kProcesses, 2, 1, StartMethod::kSpawn);
  add("2 forked workers, 2 groups", Backend::kProcesses, 2, 2,
      kCanFork ? StartMethod::kFork : StartMethod::kSpawn);
  return all;
}

// Those that an environment can be stepped in.
inline std::vector<Variant> variants_for(const EnvType& type, int num_envs) {
  std::vector<Variant> all = variants(num_envs);
  if (type.batched) {
    std::erase_if(all, [](const Variant& each) {
      return each.options.groups > 1 || each.options.backend == Backend::kProcesses;
    });
  }
  return all;
}

inline VecOptions serial(int num_envs) { return variants(num_envs)[0].options; }

}  // namespace flotilla::test
