// A policy in one file that needs no other to act: parameters, the normaliser they were trained
// with, the bounds of actions and whether choices are masked, the network, and which environment
// it is of. The format is safetensors; docs/checkpoints.md lists the names.
#pragma once

#include <memory>
#include <string>

#include "flotilla/env/registry.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/tensor_file.h"

namespace flotilla {

// Where a policy comes from.
struct PolicyOrigin {
  std::string env;         // name of the environment
  std::string env_config;  // its settings, as YAML
  int time_limit = 0;      // that replaced the env's own, or 0
  uint64_t seed = 0;       // of the run
  bool sampled = false;    // evaluated with actions drawn as in training, not the likeliest
  std::vector<std::byte> knowledge = {};  // of the envs' memory (env/memory.h), if they have one
};

std::string encode_policy(const Policy& policy, const EnvSpec& env, const PolicyOrigin& origin);

// A file that was read and checked as far as that can be done without the environment.
struct PolicyFile {
  TensorFile tensors;
  PolicyOrigin origin;
};
// Throws Error(kData) that names the file and what is wrong with it.
PolicyFile decode_policy(const std::string& bytes, const std::string& path);
PolicyFile read_policy_file(const std::string& path);

// What the file holds of the network, checked: to write it down elsewhere, without a kernel that
// could act with it. Throws Error(kData).
struct PolicyContents {
  NetworkSpec network;
  Tensors parameters;
  std::vector<float> obs_mean, obs_scale;  // empty where observations are not normalised
};
PolicyContents contents_of(const PolicyFile& file);

// Throws Error(kData) when the policy was trained for other observations, actions or limits than
// those of `env`.
void require_fit(const PolicyFile& file, const EnvSpec& env);

// The same for what another environment, or one with other settings, can do without.
void require_same_spaces(const PolicyFile& file, const EnvSpec& env);

// A policy that acts as the one that was written did.
enum class Fit : uint8_t { kSameEnv, kSameSpaces };
std::unique_ptr<Policy> make_policy(const PolicyFile& file, const EnvSpec& env,
                                    const PolicyOptions& options, Fit fit = Fit::kSameEnv);
// The same without the environment, of what the file says: for programs that have observations from
// elsewhere. It takes observations as floats, also where the environment shows bytes.
std::unique_ptr<Policy> make_policy(const PolicyFile& file, const PolicyOptions& options = {});
// The same for one that is there. Throws Error(kData), and changes nothing, where its network is
// another one.
void load_policy(const PolicyFile& file, Policy& policy);
// A warm start: the parameters and the normalisers, with which the training of `policy` goes on in
// an environment with the same spaces. Throws Error(kData) where they do not fit.
void start_from(const PolicyFile& file, const EnvSpec& env, Policy& policy);
// The network of the file for an environment with the same spaces. Throws Error(kData).
NetworkSpec network_of(const PolicyFile& file, const EnvSpec& env);
// The keys of NetworkSpec::schema() with the file's values.
Config network_config(const PolicyFile& file);

}  // namespace flotilla
