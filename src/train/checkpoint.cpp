#include "flotilla/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "flotilla/core/file.h"
#include "flotilla/core/sha256.h"
#include "flotilla/core/version.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kPrefix = "step_";
constexpr const char* kPart = ".part";
constexpr size_t kLargestFile = size_t{4} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::kData, file + ": " + why);
}

void make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) refuse("cannot make " + path, error.message());
}

// The step in the name of a checkpoint's directory.
std::optional<int64_t> step_in(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* first = name.data() + std::string_view(kPrefix).size();
  const char* last = name.data() + name.size();
  const auto [end, problem] = std::from_chars(first, last, step);
  if (problem != std::errc() || end != last || first == last) return std::nullopt;
  return step;
}

void require_env(const CheckpointState& state, const EnvSpec& env, const std::string& path) {
  if (state.env != env.name) {
    refuse(path, fmt::format("is of '{}', this run is of '{}'", state.env, env.name));
  }
  if (state.spec_sha256 != env.sha256()) {
    refuse(path, "is of '" + env.name + "' with other observations, actions or limits");
  }
}

// A directory that was given another name would stay the last one for ever.
void require_step(const CheckpointState& state, int64_t step, const std::string& path) {
  if (state.step == step) return;
  refuse(path, fmt::format("is of step {}, the directory is called step_{}", state.step, step));
}

CheckpointState read_state_in(const std::string& folder) {
  const std::string path = folder + "/" + kState;
  return decode_state(read_whole_file(path, kLargestFile), path);
}

std::string read_checked(const std::string& folder, const char* name,
                         const CheckpointState& state) {
  const std::string path = folder + "/" + name;
  std::string bytes = read_whole_file(path, kLargestFile);
  const auto expected = state.files.find(name);
  if (expected == state.files.end() || expected->second != sha256_hex(bytes)) {
    refuse(path, "does not match its checksum");
  }
  return bytes;
}

// The tensors of a file that the trainer has, by name.
Tensors matching(const TensorFile& file, const Tensors& wanted) {
  Tensors found;
  for (const Tensor& tensor : wanted) found.push_back(file.tensor(tensor.name));
  return found;
}

}  // namespace

Checkpoint take_checkpoint(const Trainer& trainer, const RunConfig& run,
                           const std::optional<BestEvaluation>& best) {
  const EnvSpec& env = trainer.env_spec();
  Checkpoint checkpoint{
      .step = trainer.progress().steps, .model = {}, .optimizer = {}, .state = {}};
  checkpoint.model = encode_policy(trainer.policy(), env,
                                   {.env = env.name,
                                    .env_config = run.env_config.to_yaml(),
                                    .time_limit = run.vec.time_limit,
                                    .seed = run.seed,
                                    .sampled = !run.eval.deterministic,
                                    .knowledge = trainer.knowledge()});
  TensorFile moments;
  moments.tensors = store(trainer.policy().optimiser());
  checkpoint.optimizer = encode_safetensors(moments);
  Writer writer;
  trainer.save(writer);
  checkpoint.state = encode_state({.step = checkpoint.step,
                                   .env = env.name,
                                   .spec_sha256 = env.sha256(),
                                   .config = run.config.to_yaml(),
                                   .implementation = trainer.implementation(),
                                   .version = kVersionLine,
                                   .best = best,
                                   .files = {{kModel, sha256_hex(checkpoint.model)},
                                             {kOptimizer, sha256_hex(checkpoint.optimizer)}},
                                   .run = writer.buffer()});
  return checkpoint;
}

Checkpoints::Checkpoints(const std::string& run_directory)
    : directory_(run_directory + "/checkpoints") {}

std::string Checkpoints::path(int64_t step) const {
  return directory_ + "/" + kPrefix + std::to_string(step);
}

std::string Checkpoints::model_path(int64_t step) const { return path(step) + "/" + kModel; }
std::string Checkpoints::state_path(int64_t step) const { return path(step) + "/" + kState; }

void Checkpoints::write(const Checkpoint& checkpoint, bool sync) const {
  const std::string target = path(checkpoint.step);
  const std::string part = target + kPart;
  std::error_code error;
  try {
    make_directory(directory_);
    make_directory(part);
    write_file(part + "/" + kModel, checkpoint.model, sync);
    write_file(part + "/" + kOptimizer, checkpoint.optimizer, sync);
    write_file(part + "/" + kState, checkpoint.state, sync);
    if (sync) sync_directory(part);
    fs::remove_all(target, error);
    fs::rename(part, target, error);
    if (error) refuse("cannot write " + target, error.message());
    if (sync) sync_directory(directory_);
  } catch (...) {
    fs::remove_all(part, error);
    throw;
  }
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    if (const auto step = step_in(entry.path().filename())) found.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    refuse("cannot read " + directory_, error.message());
  }
  std::ranges::sort(found);
  return found;
}

void Checkpoints::require_writable() const { flotilla::require_writable(directory_); }

void Checkpoints::prune(int keep, const std::vector<int64_t>& spared) const {
  const std::vector<int64_t> all = steps();
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i) {
    if (std::ranges::count(spared, all[i]) > 0) continue;
    std::error_code error;
    fs::remove_all(path(all[i]), error);
  }
}

void Checkpoints::cut(int64_t step) const {
  std::vector<fs::path> doomed;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    const auto found = step_in(name);
    if (name.ends_with(kPart) || (found && *found > step)) doomed.push_back(entry.path());
  }
  for (const fs::path& each : doomed) fs::remove_all(each, error);
}

CheckpointState Checkpoints::read_state(int64_t step) const { return read_state_in(path(step)); }

PolicyFile read_model(const std::string& path) {
  const fs::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  std::error_code error;
  if (file.filename() != kModel || !fs::exists(folder + "/" + kState, error)) {
    return read_policy_file(path);
  }
  return decode_policy(read_checked(folder, kModel, read_state_in(folder)), path);
}

PolicyFile Checkpoints::read_policy(int64_t step) const {
  const CheckpointState state = read_state(step);
  require_step(state, step, state_path(step));
  return decode_policy(read_checked(path(step), kModel, state), model_path(step));
}

CheckpointState Checkpoints::require_whole(int64_t step) const {
  CheckpointState state = read_state(step);
  require_step(state, step, state_path(step));
  read_checked(path(step), kModel, state);
  read_checked(path(step), kOptimizer, state);
  return state;
}

std::optional<int64_t> Checkpoints::last_whole_before(int64_t step, std::string_view env) const {
  std::vector<int64_t> all = steps();
  std::ranges::reverse(all);
  for (const int64_t each : all) {
    if (each >= step) continue;
    try {
      if (const CheckpointState state = require_whole(each); env.empty() || state.env == env) {
        return each;
      }
    } catch (const Error&) {
    }
  }
  return std::nullopt;
}

void Checkpoints::offer_another(const Error& error, int64_t step, std::string_view env,
                                std::string_view option) const {
  const auto whole = last_whole_before(step, env);
  throw Error(ErrorCode::kData,
              whole ? fmt::format("{}; step_{} before it is whole: add {} {}", error.what(), *whole,
                                  option, *whole)
                    : fmt::format("{}; no whole checkpoint is before it", error.what()));
}

void Checkpoints::load(int64_t step, Trainer& trainer) const {
  const CheckpointState state = read_state(step);
  require_env(state, trainer.env_spec(), state_path(step));
  require_step(state, step, state_path(step));
  const PolicyFile policy =
      decode_policy(read_checked(path(step), kModel, state), model_path(step));
  require_fit(policy, trainer.env_spec());
  const TensorFile moments = decode_safetensors(read_checked(path(step), kOptimizer, state),
                                                this->path(step) + "/" + kOptimizer);
  const Tensors optimiser = matching(moments, trainer.policy().optimiser());
  load_policy(policy, trainer.policy());
  trainer.policy().set_optimiser(optimiser);
  Reader reader(state.run, state_path(step));
  trainer.load(reader);
}

}  // namespace flotilla
