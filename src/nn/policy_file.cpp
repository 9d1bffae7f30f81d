#include "flotilla/nn/policy_file.h"

#include <fmt/format.h>

#include <charconv>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla {
namespace {

constexpr const char* kFormat = "flotilla policy 1";
constexpr const char* kMean = "obs_normaliser.mean";
constexpr const char* kScale = "obs_normaliser.scale";
constexpr const char* kKnowledge = "env.knowledge";

[[noreturn]] void refuse(const TensorFile& file, const std::string& why) {
  throw Error(ErrorCode::kData, file.origin + ": " + why);
}

template <class T>
T number_in(const TensorFile& file, const char* key) {
  const std::string& text = file.find_metadata(key);
  T number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size()) {
    refuse(file, fmt::format("{} is {}, not a number", key, in_quotes(text)));
  }
  return number;
}

// The tensors that `wanted` names. Throws Error(kData) for a missing one or another shape.
Tensors matching(const TensorFile& file, const Tensors& wanted) {
  Tensors found;
  for (const Tensor& tensor : wanted) {
    found.push_back(file.tensor(tensor.name));
    if (found.back().shape != tensor.shape) {
      refuse(file, "'" + tensor.name + "' has another shape than the network's");
    }
  }
  return found;
}

std::vector<float> column_values(const TensorFile& file, const char* name, size_t columns) {
  std::vector<float> values = file.floats(name);
  if (values.size() == columns) return values;
  refuse(file, fmt::format("'{}' has {} numbers, expected {}", name, values.size(), columns));
}

NetworkSpec network_in(const PolicyFile& file, const EnvSpec& env) {
  try {
    Config config(NetworkSpec::schema());
    config.load_yaml_text(file.tensors.find_metadata("network"), file.tensors.origin);
    return NetworkSpec::from(config, "", env);
  } catch (const Error& error) {  // nothing the user has written
    const std::string what = error.what();
    if (what.starts_with(file.tensors.origin)) throw Error(ErrorCode::kData, what);
    refuse(file.tensors, "network: " + what);
  }
}

}  // namespace

std::string encode_policy(const Policy& policy, const EnvSpec& env, const PolicyOrigin& origin) {
  const NetworkSpec& network = policy.spec();
  TensorFile file;
  file.tensors = store(policy.parameters());
  file.metadata = {{"format", kFormat},
                   {"env", origin.env},
                   {"env_config", origin.env_config},
                   {"time_limit", std::to_string(origin.time_limit)},
                   {"seed", std::to_string(origin.seed)},
                   {"spec_sha256", env.sha256()},
                   {"action", env.action.describe()},
                   {"masked", network.has_mask ? "true" : "false"},
                   {"network", network.to_config().to_yaml()},
                   {"params_sha256", sha256(policy.parameters())}};
  if (origin.sampled) file.metadata["sampled"] = "true";
  if (env.action.is_box()) {
    file.tensors.push_back(store("action.low", std::span<const float>(env.action.low)));
    file.tensors.push_back(store("action.high", std::span<const float>(env.action.high)));
  }
  if (network.normalise_obs) {
    const ObsNormaliser& normaliser = policy.obs_normaliser();
    const size_t columns = normaliser.moments().columns();
    file.tensors.push_back(store(kMean, std::span(normaliser.mean(), columns)));
    file.tensors.push_back(store(kScale, std::span(normaliser.scale(), columns)));
  }
  if (!origin.knowledge.empty()) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(origin.knowledge.data());
    file.tensors.push_back(store(kKnowledge, std::span(bytes, origin.knowledge.size())));
  }
  return encode_safetensors(file);
}

PolicyFile decode_policy(const std::string& bytes, const std::string& path) {
  PolicyFile file{decode_safetensors(bytes, path), {}};
  const TensorFile& tensors = file.tensors;
  if (const std::string& format = tensors.find_metadata("format"); format != kFormat) {
    refuse(tensors,
           fmt::format("has format {}, this program reads '{}'", in_quotes(format), kFormat));
  }
  file.origin = {.env = tensors.find_metadata("env"),
                 .env_config = tensors.find_metadata("env_config"),
                 .time_limit = number_in<int>(tensors, "time_limit"),
                 .seed = number_in<uint64_t>(tensors, "seed"),
                 .sampled = tensors.metadata.contains("sampled")};
  if (tensors.holds(kKnowledge)) {
    for (const uint8_t byte : tensors.bytes(kKnowledge)) {
      file.origin.knowledge.push_back(static_cast<std::byte>(byte));
    }
  }
  return file;
}

PolicyFile read_policy_file(const std::string& path) {
  constexpr size_t kLargestFile = size_t{4} << 30;
  return decode_policy(read_whole_file(path, kLargestFile), path);
}

void require_fit(const PolicyFile& file, const EnvSpec& env) {
  if (file.origin.env != env.name) {
    refuse(file.tensors,
           fmt::format("is a policy of {}, not of '{}'", in_quotes(file.origin.env), env.name));
  }
  if (file.tensors.find_metadata("spec_sha256") == env.sha256()) return;
  const std::string& action = file.tensors.find_metadata("action");
  const std::string difference =
      action == env.action.describe()
          ? "other observations, limits or metrics than it has now"
          : fmt::format("actions {}, now they are {}", in_quotes(action), env.action.describe());
  refuse(file.tensors, fmt::format("is a policy of '{}' with {}", env.name, difference));
}

std::unique_ptr<Policy> make_policy(const PolicyFile& file, const EnvSpec& env,
                                    const PolicyOptions& options) {
  require_fit(file, env);
  auto policy = make_policy(network_in(file, env), options);
  load_policy(file, *policy);
  return policy;
}

void load_policy(const PolicyFile& file, Policy& policy) {
  const TensorFile& tensors = file.tensors;
  const Tensors parameters = matching(tensors, policy.parameters());
  if (sha256(parameters) != tensors.find_metadata("params_sha256")) {
    refuse(tensors, "the parameters do not match their checksum");
  }
  ObsNormaliser& normaliser = policy.obs_normaliser();
  if (policy.spec().normalise_obs) {
    const size_t columns = normaliser.moments().columns();
    const std::vector<float> mean = column_values(tensors, kMean, columns);
    normaliser.set(mean, column_values(tensors, kScale, columns));
  }
  policy.set_parameters(parameters);
}

}  // namespace flotilla
