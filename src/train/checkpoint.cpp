#include "flotilla/train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <set>

#include "flotilla/core/file.h"
#include "flotilla/core/log.h"
#include "flotilla/core/sha256.h"
#include "flotilla/core/version.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla {
namespace {

constexpr const char* kFolder = "checkpoints";
constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kPrefix = "step_";
constexpr const char* kPart = ".part";
constexpr size_t kLargestFile = size_t{4} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::kData, file + ": " + why);
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

CheckpointState read_state_in(const Directory& folder) {
  return decode_state(folder.read(kState, kLargestFile), folder.path(kState));
}

void require_checksum(const std::string& bytes, const CheckpointState& state, const char* name,
                      const std::string& path) {
  const auto expected = state.files.find(name);
  if (expected == state.files.end() || expected->second != sha256_hex(bytes)) {
    refuse(path, "does not match its checksum");
  }
}

std::string read_checked(const Directory& folder, const char* name, const CheckpointState& state) {
  std::string bytes = folder.read(name, kLargestFile);
  require_checksum(bytes, state, name, folder.path(name));
  return bytes;
}

std::string name_of(int64_t step) { return kPrefix + std::to_string(step); }

// What is being written or deleted, with the id of the run in its name: a crash may leave it in any
// state, and still it is known whose it is.
std::string part_of_run(int64_t step, const std::string& run_id) {
  return name_of(step) + (run_id.empty() ? "" : "." + run_id) + kPart;
}

bool is_part_of_run(const std::string& name, const std::string& run_id) {
  const std::string end = "." + run_id + kPart;
  return !run_id.empty() && name.ends_with(end) &&
         step_in(name.substr(0, name.size() - end.size()));
}

// Whether it held nothing but files of a checkpoint, and is gone.
bool remove_folder(const Directory& all, const std::string& name) {
  try {
    const Directory folder = all.folder(name);
    const std::vector<std::string> names = folder.names();
    const auto ours = [](const std::string& each) {
      return each == kModel || each == kOptimizer || each == kState;
    };
    if (!std::ranges::all_of(names, ours)) return false;
    for (const std::string& each : names) folder.remove_file(each);
  } catch (const Error&) {
    return false;
  }
  return all.remove_empty_folder(name);
}

// Gives it a name that no checkpoint has.
void set_aside(const Directory& all, const std::string& name) {
  std::string aside = name + ".aside";
  for (int number = 2; all.holds(aside); ++number) aside = fmt::format("{}.aside{}", name, number);
  all.rename(name, aside);
  log::warn("not known to be of this run, so it was renamed",
            {{"from", all.path(name)}, {"to", aside}});
}

// The tensors of a file that the trainer has, by name.
Tensors matching(const TensorFile& file, const Tensors& wanted) {
  Tensors found;
  for (const Tensor& tensor : wanted) found.push_back(file.tensor(tensor.name));
  return found;
}

}  // namespace

Checkpoint take_checkpoint(const Trainer& trainer, const RunConfig& run,
                           const std::optional<BestEvaluation>& best, const std::string& run_id,
                           const PhaseStart& phase) {
  const EnvSpec& env = trainer.env_spec();
  Writer writer;
  trainer.save(writer);  // first: then actors are done, and the policy is what they made of it
  Checkpoint checkpoint{.step = trainer.progress().steps,
                        .best = best ? std::optional(best->step) : std::nullopt,
                        .run_id = run_id,
                        .model = {},
                        .optimizer = {},
                        .state = {}};
  checkpoint.model = encode_policy(trainer.policy(), env,
                                   {.env = env.name,
                                    .env_config = trainer.run().env_config.to_yaml(),
                                    .time_limit = run.vec.time_limit,
                                    .seed = run.seed,
                                    .sampled = !run.eval.deterministic,
                                    .knowledge = trainer.knowledge()});
  TensorFile moments;
  moments.tensors = store(trainer.policy().optimiser());
  checkpoint.optimizer = encode_safetensors(moments);
  checkpoint.state = encode_state({.step = checkpoint.step,
                                   .env = env.name,
                                   .spec_sha256 = env.sha256(),
                                   .config = run.config.to_yaml(),
                                   .implementation = trainer.implementation(),
                                   .version = kVersionLine,
                                   .run_id = run_id,
                                   .best = best,
                                   .phase = phase,
                                   .files = {{kModel, sha256_hex(checkpoint.model)},
                                             {kOptimizer, sha256_hex(checkpoint.optimizer)}},
                                   .run = writer.buffer()});
  return checkpoint;
}

std::string new_run_id() {
  std::array<uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno(ErrorCode::kInternal, "cannot draw an id for the run");
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Directory Checkpoints::all() const { return run_.folder(kFolder); }
Directory Checkpoints::folder(int64_t step) const { return all().folder(name_of(step)); }

std::string Checkpoints::path(int64_t step) const {
  return run_.path(kFolder) + "/" + name_of(step);
}

std::string Checkpoints::model_path(int64_t step) const { return path(step) + "/" + kModel; }
std::string Checkpoints::state_path(int64_t step) const { return path(step) + "/" + kState; }

void Checkpoints::write(const Checkpoint& checkpoint, bool sync) {
  const Directory all = run_.make_folder(kFolder);
  const std::string name = name_of(checkpoint.step),
                    part = part_of_run(checkpoint.step, checkpoint.run_id);
  remove_folder(all, part);
  try {
    const Directory folder = all.make_folder(part);
    folder.write_new(kModel, checkpoint.model, sync);
    folder.write_new(kOptimizer, checkpoint.optimizer, sync);
    folder.write_new(kState, checkpoint.state, sync);
    if (sync) folder.sync();
    all.rename(part, name);
    if (sync) all.sync();
  } catch (...) {
    remove_folder(all, part);
    throw;
  }
  bests_[checkpoint.step] = checkpoint.best;
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> found;
  if (!run_.holds(kFolder)) return found;
  for (const std::string& name : all().names()) {
    if (const auto step = step_in(name)) found.push_back(*step);
  }
  std::ranges::sort(found);
  return found;
}

void Checkpoints::require_writable() const { all().require_writable(); }

bool Checkpoints::remove(int64_t step, const std::string& run_id) const {
  const Directory folders = all();
  try {
    if (require_whole(step).run_id != run_id) return false;
    if (folders.folder(name_of(step)).names().size() != 3) return false;  // and something of others
    // Renamed first: a crash on the way leaves no half of a checkpoint.
    const std::string part = part_of_run(step, run_id);
    folders.rename(name_of(step), part);
    return remove_folder(folders, part);
  } catch (const Error&) {
    return false;
  }
}

std::optional<int64_t> Checkpoints::best_of(int64_t step) {
  const auto [found, is_new] = bests_.try_emplace(step);
  if (is_new) {
    try {
      if (const auto best = read_state(step).best) found->second = best->step;
    } catch (const Error&) {  // whoever goes on from it says what is wrong
    }
  }
  return found->second;
}

void Checkpoints::prune(int keep, const std::string& run_id) {
  std::vector<int64_t> own = steps();
  std::erase_if(own, [this](int64_t step) { return std::ranges::count(others_, step) > 0; });
  if (own.size() <= static_cast<size_t>(keep)) return;
  const auto kept = own.end() - keep;
  std::set<int64_t> spared;
  for (auto each = kept; each != own.end(); ++each) {
    if (const auto best = best_of(*each)) spared.insert(*best);
  }
  for (auto each = own.begin(); each != kept; ++each) {
    if (spared.contains(*each)) continue;
    if (!remove(*each, run_id)) others_.push_back(*each);
    bests_.erase(*each);
  }
}

void Checkpoints::cut(int64_t step, const std::string& run_id) const {
  const Directory folders = all();
  for (const std::string& name : folders.names()) {
    const auto found = step_in(name);
    if (is_part_of_run(name, run_id) && !remove_folder(folders, name)) set_aside(folders, name);
    if (found && *found > step && !remove(*found, run_id)) set_aside(folders, name);
  }
}

CheckpointState Checkpoints::read_state(int64_t step) const { return read_state_in(folder(step)); }

PolicyFile read_model(const std::string& path) {
  const std::string bytes = read_whole_file(path, kLargestFile);
  const std::filesystem::path file(path);
  if (file.filename() == kModel) {
    const Directory folder(file.has_parent_path() ? file.parent_path().string() : ".");
    if (folder.holds(kState)) require_checksum(bytes, read_state_in(folder), kModel, path);
  }
  return decode_policy(bytes, path);
}

PolicyFile read_model_in(const Directory& folder) {
  const std::string path = folder.path(kModel);
  if (!folder.holds(kState)) return decode_policy(folder.read(kModel, kLargestFile), path);
  return decode_policy(read_checked(folder, kModel, read_state_in(folder)), path);
}

PolicyFile Checkpoints::read_policy(int64_t step) const {
  const CheckpointState state = read_state(step);
  require_step(state, step, state_path(step));
  return decode_policy(read_checked(folder(step), kModel, state), model_path(step));
}

void Checkpoints::warn_of_other_runs(int64_t step) const {
  const auto run_of = [this](int64_t each) -> std::string {
    try {
      return read_state(each).run_id;
    } catch (const Error&) {  // whoever reads it says what is wrong
      return "";
    }
  };
  const std::string own = run_of(step);
  std::vector<std::string> others;
  for (const int64_t each : steps()) {
    const std::string run = run_of(each);
    if (!own.empty() && !run.empty() && run != own) others.push_back(name_of(each));
  }
  if (others.empty()) return;
  log::warn(
      "checkpoints of different runs lie here",
      {{"taken", path(step)}, {"of another run", fmt::format("{}", fmt::join(others, ", "))}});
}

CheckpointState Checkpoints::require_whole(int64_t step) const {
  CheckpointState state = read_state(step);
  require_step(state, step, state_path(step));
  read_checked(folder(step), kModel, state);
  read_checked(folder(step), kOptimizer, state);
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

Checkpoint Checkpoints::read(int64_t step) const {
  const CheckpointState state = read_state(step);
  require_step(state, step, state_path(step));
  const Directory from = folder(step);
  return {.step = step,
          .run_id = state.run_id,
          .model = read_checked(from, kModel, state),
          .optimizer = read_checked(from, kOptimizer, state),
          .state = from.read(kState, kLargestFile)};
}

void load_checkpoint(const Checkpoint& checkpoint, const std::string& path, Trainer& trainer) {
  const std::string state_path = path + "/" + kState;
  const CheckpointState state = decode_state(checkpoint.state, state_path);
  require_env(state, trainer.env_spec(), state_path);
  const PolicyFile policy = decode_policy(checkpoint.model, path + "/" + kModel);
  require_fit(policy, trainer.env_spec());
  const TensorFile moments = decode_safetensors(checkpoint.optimizer, path + "/" + kOptimizer);
  const Tensors optimiser = matching(moments, trainer.policy().optimiser());
  load_policy(policy, trainer.policy());
  trainer.policy().set_optimiser(optimiser);
  Reader reader(state.run, state_path);
  trainer.load(reader);
}

}  // namespace flotilla
