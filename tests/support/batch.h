// A VecEnv with its buffers, driven by hand.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "flotilla/env/vec_env.h"
#include "support/build.h"
#include "support/shipped.h"
#include "support/test_envs.h"

namespace flotilla::test {

// The shipped environments that the test program was linked with and those of test_envs.h.
const Registry& registry();

Config config_of(const EnvType& type, const std::vector<std::string>& overrides = {});

// One env's row as bytes, with what belongs to an ended episode where one ended.
std::string row_bytes(const EnvSpec& spec, const StepView& v, int env);

class Batch {
 public:
  Batch(const std::string& env, const std::vector<std::string>& overrides,
        const VecOptions& options, int steps = 1);

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
  void step_randomly(uint64_t seed, uint64_t step);
  // With the actions already there. Every group is waited for, also when one of them throws.
  void step();

  std::vector<float> obs(int env) const { return floats(view().obs, env); }
  std::vector<float> final_obs(int env) const { return floats(view().final_obs, env); }
  std::string row(int env) const { return row_bytes(spec(), view(), env); }
  std::vector<std::string> rows() const;
  std::vector<std::byte> saved() const;
  void load(const std::vector<std::byte>& bytes);

 private:
  std::vector<float> floats(const std::byte* rows, int env) const;

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
std::vector<Variant> variants(int num_envs);

// Those that an environment can be stepped in.
std::vector<Variant> variants_for(const EnvType& type, int num_envs);

inline VecOptions serial(int num_envs) { return variants(num_envs)[0].options; }

}  // namespace flotilla::test
