// One env of a library, with the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "flotilla/env/env.h"
#include "flotilla/env/libenv/library.h"
#include "flotilla/env/libenv/options.h"

namespace flotilla::libenv {

constexpr size_t kMostStateBytes = size_t{1} << 20;

// Errors: Error(kData) where the library describes what the engine has nothing for, Error
// (kEnvironment) where it does what it must not.
class Game {
 public:
  // Makes the env; it is at the beginning of an episode.
  Game(const Library& library, const OptionList& options);
  ~Game();
  Game(const Game&) = delete;
  Game& operator=(const Game&) = delete;

  // What it looks like: observation, action and metrics.
  const EnvSpec& spec() const { return spec_; }

  void act(ActionRow action);
  float reward() const { return reward_; }
  // Whether the observation is the first of an episode: the last act() ended the one before.
  bool is_first() const { return first_ != 0; }
  std::span<const std::byte> obs() const { return obs_; }
  void write_metrics(MetricRow row) const;

  // Valid until the next call of any game. REQUIRES: the library keeps states.
  std::span<const std::byte> save();
  void load(std::span<const std::byte> state);

 private:
  // The memory of one tensor of the env.
  struct Tensor {
    TensorType type;
    std::vector<std::byte> bytes;
  };

  std::vector<Tensor> tensors(Space space, const char* what) const;
  void describe_obs();
  void describe_actions();
  void describe_info();
  [[noreturn]] void unfit(const std::string& what) const;
  void look();

  const Library& library_;
  void* env_ = nullptr;
  EnvSpec spec_;
  std::vector<Tensor> obs_tensors_, actions_, info_;
  std::vector<size_t> metrics_;  // those of info_ that are a number
  std::vector<void*> pointers_;
  std::span<std::byte> obs_;
  float reward_ = 0;
  uint8_t first_ = 0;
  Buffers buffers_{};  // a library may keep the pointer to it
};

}  // namespace flotilla::libenv
