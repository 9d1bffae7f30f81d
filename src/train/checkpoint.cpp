#include "flotilla/train/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "flotilla/core/base64.h"
#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/sha256.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kModel = "model.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "state.json";
constexpr const char* kPrefix = "step_";
constexpr size_t kLargestFile = size_t{4} << 30;

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::kData, file + ": " + why);
}

// A directory's own entries reach the disk only when it is synced, too.
void sync_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_errno(ErrorCode::kData, "cannot open " + path);
  const bool synced = ::fsync(fd) == 0;
  ::close(fd);
  if (!synced) throw_errno(ErrorCode::kData, "cannot sync " + path);
}

std::string encode_model(const Policy& policy, const EnvSpec& env) {
  TensorFile file;
  file.tensors = store(policy.parameters());
  file.metadata = {{"format", std::to_string(Checkpoints::kFormat)},
                   {"env", env.name},
                   {"spec_sha256", env.sha256()},
                   {"action", env.action.describe()},
                   {"params_sha256", sha256(policy.parameters())}};
  if (policy.spec().normalise_obs) {
    const size_t columns = policy.obs_normaliser().moments().columns();
    file.tensors.push_back(
        store("obs_normaliser.mean", std::span(policy.obs_normaliser().mean(), columns)));
    file.tensors.push_back(
        store("obs_normaliser.scale", std::span(policy.obs_normaliser().scale(), columns)));
  }
  return encode_safetensors(file);
}

// Over everything but the checksum itself.
std::string checksum(Json state) {
  state.erase("sha256");
  return sha256_hex(state.dump());
}

template <class T>
T field(const Json& json, const char* name, const std::string& file) {
  try {
    return json.at(name).get<T>();
  } catch (const nlohmann::json::exception&) {
    refuse(file, std::string("the field '") + name + "' is missing or of another type");
  }
}

Json read_state(const std::string& path) {
  const Json state = Json::parse(read_whole_file(path, kLargestFile), nullptr, false);
  if (!state.is_object()) refuse(path, "is not a JSON object");
  const auto format = field<int64_t>(state, "format", path);
  if (format != Checkpoints::kFormat) {
    refuse(path, fmt::format("has format {}, this program reads {}", format, Checkpoints::kFormat));
  }
  if (field<std::string>(state, "sha256", path) != checksum(state)) {
    refuse(path, "does not match its checksum");
  }
  return state;
}

std::string read_checked(const std::string& directory, const char* name, const Json& state) {
  const std::string path = directory + "/" + name;
  std::string bytes = read_whole_file(path, kLargestFile);
  const auto files = field<Json>(state, "files", directory + "/" + kState);
  if (field<std::string>(files, name, directory + "/" + kState) != sha256_hex(bytes)) {
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

Checkpoints::Checkpoints(const std::string& run_directory)
    : directory_(run_directory + "/checkpoints") {}

std::string Checkpoints::path(int64_t step) const {
  return directory_ + "/" + kPrefix + std::to_string(step);
}

void Checkpoints::write(const Trainer& trainer, const RunConfig& run) const {
  const std::string target = path(trainer.progress().steps);
  const std::string part = target + ".part";
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) throw Error(ErrorCode::kData, "cannot make " + directory_ + ": " + error.message());
  fs::remove_all(part, error);
  fs::create_directory(part, error);
  if (error) throw Error(ErrorCode::kData, "cannot make " + part + ": " + error.message());
  try {
    const std::string model = encode_model(trainer.policy(), trainer.env_spec());
    TensorFile moments;
    moments.tensors = store(trainer.policy().optimiser());
    const std::string optimizer = encode_safetensors(moments);
    Writer writer;
    trainer.save(writer);
    Json state = {{"format", kFormat},
                  {"step", trainer.progress().steps},
                  {"env", trainer.env_spec().name},
                  {"spec_sha256", trainer.env_spec().sha256()},
                  {"config", run.config.to_yaml()},
                  {"config_sha256", run.config.sha256()},
                  {"params_sha256", trainer.params_sha256()},
                  {"files", {{kModel, sha256_hex(model)}, {kOptimizer, sha256_hex(optimizer)}}},
                  {"run", to_base64(writer.buffer())}};
    state["sha256"] = checksum(state);
    write_file_atomically(part + "/" + kModel, model);
    write_file_atomically(part + "/" + kOptimizer, optimizer);
    write_file_atomically(part + "/" + kState, state.dump(1) + "\n");
    fs::remove_all(target);
    fs::rename(part, target);
    sync_directory(directory_);
  } catch (...) {
    fs::remove_all(part, error);
    throw;
  }
}

std::vector<int64_t> Checkpoints::steps() const {
  std::vector<int64_t> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory_, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    int64_t step = 0;
    const char *first = name.data() + std::string_view(kPrefix).size(),
               *last = name.data() + name.size();
    const auto [end, problem] = std::from_chars(first, last, step);
    if (problem == std::errc() && end == last && first != last) found.push_back(step);
  }
  std::ranges::sort(found);
  return found;
}

void Checkpoints::prune(int keep, const std::vector<int64_t>& spared) const {
  const std::vector<int64_t> all = steps();
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i) {
    if (std::ranges::count(spared, all[i]) > 0) continue;
    std::error_code error;
    fs::remove_all(path(all[i]), error);
  }
}

void Checkpoints::load(int64_t step, Trainer& trainer, const RunConfig& run) const {
  const std::string directory = path(step), state_path = directory + "/" + kState;
  const Json state = read_state(state_path);
  const EnvSpec& env = trainer.env_spec();
  const auto env_name = field<std::string>(state, "env", state_path);
  if (env_name != env.name) {
    refuse(state_path, fmt::format("is of '{}', this run is of '{}'", env_name, env.name));
  }
  if (field<std::string>(state, "spec_sha256", state_path) != env.sha256()) {
    refuse(state_path, "is of '" + env.name + "' with other observations, actions or limits");
  }
  const std::string model_path = directory + "/" + kModel;
  const std::string optimizer_path = directory + "/" + kOptimizer;
  const TensorFile model = decode_safetensors(read_checked(directory, kModel, state), model_path);
  const TensorFile moments =
      decode_safetensors(read_checked(directory, kOptimizer, state), optimizer_path);
  const std::vector<std::byte> bytes = from_base64(field<std::string>(state, "run", state_path));
  const Tensors parameters = matching(model, make_parameters(run.network));
  trainer.policy().set_parameters(parameters);
  trainer.policy().set_optimiser(matching(moments, trainer.policy().optimiser()));
  Reader reader(bytes, state_path);
  trainer.load(reader);
}

}  // namespace flotilla
