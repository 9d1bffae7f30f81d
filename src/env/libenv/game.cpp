#include "flotilla/env/libenv/game.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla::libenv {
namespace {

constexpr int kMostTensors = 64;
constexpr size_t kMostElements = size_t{1} << 26;

size_t size_of(int32_t dtype) { return dtype == kUint8 ? 1 : 4; }

std::string name_of(const TensorType& type) {
  return {type.name, strnlen(type.name, sizeof(type.name))};
}

size_t elements_of(const TensorType& type) {
  size_t count = 1;
  for (int i = 0; i < type.ndim; ++i) count *= static_cast<size_t>(type.shape[i]);
  return count;
}

bool is_sound(const TensorType& type) {
  if (type.dtype < kUint8 || type.dtype > kFloat32) return false;
  if (type.ndim < 0 || type.ndim > kMostDimensions) return false;
  size_t count = 1;
  for (int i = 0; i < type.ndim; ++i) {
    if (type.shape[i] <= 0) return false;
    count *= static_cast<size_t>(type.shape[i]);
    if (count > kMostElements) return false;
  }
  return true;
}

// A whole number, as the type of the tensor has it.
int64_t whole(const TensorType& type, const Number& number) {
  return type.dtype == kUint8 ? int64_t{number.uint8} : int64_t{number.int32};
}

// An option as the library reads it; `value` has to outlive it.
Option option_of(const std::string& name, const OptionValue& value) {
  Option option{};
  std::ranges::copy(name, option.name);
  void* data = nullptr;
  if (const auto* number = std::get_if<int32_t>(&value)) {
    option.dtype = kInt32;
    option.count = 1;
    data = const_cast<int32_t*>(number);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    static_assert(sizeof(bool) == 1);
    option.dtype = kUint8;
    option.count = 1;
    data = const_cast<bool*>(flag);
  } else {
    const auto& text = std::get<std::string>(value);
    option.dtype = kUint8;
    option.count = static_cast<int32_t>(text.size());
    data = const_cast<char*>(text.data());
  }
  option.data = data;
  return option;
}

}  // namespace

Game::Game(const Library& library, const OptionList& options) : library_(library) {
  std::vector<Option> items;
  for (const auto& [name, value] : options) items.push_back(option_of(name, value));
  try {
    env_ = library.make(1, {items.data(), static_cast<int32_t>(items.size())});
  } catch (const std::exception& error) {  // so procgen says that it has no such game
    throw Error(ErrorCode::kEnvironment, fmt::format("library {}: libenv_make threw: {}",
                                                     in_quotes(library.path()), error.what()));
  }
  if (env_ == nullptr) {
    throw Error(ErrorCode::kEnvironment,
                "library " + in_quotes(library.path()) + ": libenv_make gave no environment");
  }
  try {
    obs_tensors_ = tensors(kObservation, "observation");
    actions_ = tensors(kAction, "action");
    info_ = tensors(kInfo, "info");
    describe_obs();
    describe_actions();
    describe_info();
    // One array for all: it must not move any more.
    pointers_.reserve(obs_tensors_.size() + actions_.size() + info_.size());
    const auto pointers_to = [this](std::vector<Tensor>& tensors) {
      void** begin = pointers_.data() + pointers_.size();
      for (Tensor& each : tensors) pointers_.push_back(each.bytes.data());
      return begin;
    };
    buffers_ = {.ob = pointers_to(obs_tensors_),
                .rew = &reward_,
                .first = &first_,
                .info = pointers_to(info_),
                .ac = pointers_to(actions_)};
    obs_ = obs_tensors_[0].bytes;
    library_.set_buffers(env_, &buffers_);
    look();
  } catch (...) {
    library_.close(env_);
    throw;
  }
}

Game::~Game() { library_.close(env_); }

void Game::unfit(const std::string& what) const {
  throw Error(ErrorCode::kData, fmt::format("library {}: {}", in_quotes(library_.path()), what));
}

std::vector<Game::Tensor> Game::tensors(Space space, const char* what) const {
  const int count = library_.get_tensortypes(env_, space, nullptr);
  if (count < 0 || count > kMostTensors) {
    unfit(fmt::format("it has {} tensors of {}, expected 0 to {}", count, what, kMostTensors));
  }
  std::vector<TensorType> types(static_cast<size_t>(count));
  library_.get_tensortypes(env_, space, types.data());
  std::vector<Tensor> all;
  for (const TensorType& type : types) {
    if (!is_sound(type)) {
      unfit(fmt::format("{} {} has a type or shape that no tensor has", what,
                        in_quotes(name_of(type))));
    }
    all.push_back({type, std::vector<std::byte>(elements_of(type) * size_of(type.dtype))});
  }
  return all;
}

void Game::describe_obs() {
  if (obs_tensors_.size() != 1) {
    std::vector<std::string> names;
    for (const Tensor& each : obs_tensors_) names.push_back(in_quotes(name_of(each.type)));
    unfit(fmt::format("expected one observation, it has {}{}{}", names.size(),
                      names.empty() ? "" : ": ", join(names, ", ")));
  }
  const TensorType& type = obs_tensors_[0].type;
  std::vector<int> shape;
  for (int i = 0; i < type.ndim; ++i) shape.push_back(type.shape[i]);
  if (shape.empty()) shape.push_back(1);
  switch (type.dtype) {
    case kUint8:
      spec_.obs = ObsSpace::uint8(shape);
      break;
    case kFloat32:
      if (!(type.low.float32 <= type.high.float32)) {
        unfit(fmt::format("observation {} has bounds {} to {}, between which there is no number",
                          in_quotes(name_of(type)), type.low.float32, type.high.float32));
      }
      spec_.obs = ObsSpace::float32(shape, type.low.float32, type.high.float32);
      break;
    default:
      unfit(fmt::format("observation {} is of int32, expected uint8 or float32",
                        in_quotes(name_of(type))));
  }
}

void Game::describe_actions() {
  std::vector<int> choices;
  for (const Tensor& each : actions_) {
    const TensorType& type = each.type;
    const int64_t count = whole(type, type.high) - whole(type, type.low) + 1;
    const bool is_choice = type.scalar == kDiscrete && type.dtype != kFloat32;
    if (!is_choice || count < 1 || count > INT32_MAX) {
      unfit(fmt::format("action {} is not a choice among whole numbers", in_quotes(name_of(type))));
    }
    for (size_t i = 0; i < elements_of(type); ++i) choices.push_back(static_cast<int>(count));
  }
  if (choices.empty()) unfit("it has no action");
  spec_.action = choices.size() == 1 ? ActionSpace::discrete(choices[0])
                                     : ActionSpace::multi_discrete(choices);
}

void Game::describe_info() {
  for (size_t i = 0; i < info_.size(); ++i) {
    if (info_[i].type.ndim > 0) continue;
    const std::string name = name_of(info_[i].type);
    if (name.empty() || printable(name) != name) unfit("an info has a name that is no text");
    metrics_.push_back(i);
    spec_.metrics.push_back(name);
  }
}

void Game::act(ActionRow action) {
  size_t dim = 0;
  for (Tensor& each : actions_) {
    const auto low = static_cast<int32_t>(whole(each.type, each.type.low));
    for (size_t i = 0; i < elements_of(each.type); ++i) {
      const int32_t value = low + action.discrete(dim++);
      std::byte* at = each.bytes.data() + i * size_of(each.type.dtype);
      if (each.type.dtype == kUint8) {
        *at = static_cast<std::byte>(value);
      } else {
        std::memcpy(at, &value, sizeof(value));
      }
    }
  }
  library_.act(env_);
  look();
}

void Game::look() {
  library_.observe(env_);
  if (!std::isfinite(reward_)) {
    throw Error(ErrorCode::kEnvironment, fmt::format("the reward is {}", reward_));
  }
}

void Game::write_metrics(MetricRow row) const {
  for (size_t i = 0; i < metrics_.size(); ++i) {
    const Tensor& tensor = info_[metrics_[i]];
    Number number{};
    std::memcpy(&number, tensor.bytes.data(), tensor.bytes.size());
    row[i] = tensor.type.dtype == kFloat32 ? number.float32
                                           : static_cast<float>(whole(tensor.type, number));
  }
}

std::span<const std::byte> Game::save() {
  // The library ends its process where there is no room.
  thread_local std::vector<std::byte> state(kMostStateBytes);
  const int used = library_.get_state(env_, 0, reinterpret_cast<char*>(state.data()),
                                      static_cast<int>(state.size()));
  if (used <= 0 || static_cast<size_t>(used) > state.size()) {
    throw Error(ErrorCode::kEnvironment,
                fmt::format("get_state gave {} bytes, there is room for {}", used, state.size()));
  }
  return std::span(state).first(static_cast<size_t>(used));
}

void Game::load(std::span<const std::byte> state) {
  // It takes a pointer to what it may change.
  std::vector<char> copy(state.size());
  std::memcpy(copy.data(), state.data(), state.size());
  library_.set_state(env_, 0, copy.data(), static_cast<int>(copy.size()));
  look();
}

}  // namespace flotilla::libenv
