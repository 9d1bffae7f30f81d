// What `train` and `bench ppo` share: which run is meant, and what they say about it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "flotilla/cli/command.h"
#include "flotilla/train/trainer.h"

namespace flotilla {

class RunArguments {
 public:
  enum class Limits : uint8_t { kOffered, kNone };
  explicit RunArguments(Limits limits);
  void add_to(CLI::App& command);
  // The config that recipe, key=value settings and options make, in this order. `plain`: without
  // the recipe of an environment's name.
  Config config(const Registry& registry, bool plain) const;
  const std::string& what() const { return what_; }

 private:
  const Limits limits_;  // whether there are options for steps, episodes and duration
  std::string what_, duration_;
  std::vector<std::string> overrides_;
  SchemaFlags flags_;
};

// "90", "90s", "10m", "1.5h" in seconds.
double parse_duration(const std::string& text);

// "64 x cartpole, threads back end, 2 threads; ppo, 4-64-64 tanh, fused avx512; seed 0".
std::string run_header(const RunConfig& run, const RunShape& shape);

// The machine, and what the policy runs on: "torch" and "blas_kernel" are null where libtorch is
// not loaded.
nlohmann::ordered_json machine_json(const RunShape& shape);

}  // namespace flotilla
