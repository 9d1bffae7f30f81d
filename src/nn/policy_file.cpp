#include "flotilla/nn/policy_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/text.h"
#include "flotilla/nn/safetensors.h"

namespace flotilla {
namespace {

constexpr const char* kFormat = "flotilla policy 1";
constexpr const char* kMean = "obs_normaliser.mean";
constexpr const char* kScale = "obs_normaliser.scale";
constexpr const char* kObsMoments = "obs_normaliser.moments";
constexpr const char* kRewardMoments = "reward_normaliser.moments";
constexpr const char* kKnowledge = "env.knowledge";
constexpr const char* kImage = "image";    // what convolutions see
constexpr const char* kInputs = "inputs";  // numbers that attention sees
constexpr int64_t kMaxInputs = 1 << 20;

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

// As ActionSpace::describe() writes them; the bounds of a box are tensors.
ActionSpace actions_in(const TensorFile& file) {
  const std::string& text = file.find_metadata("action");
  if (text.starts_with("Box(")) {
    return ActionSpace::box(file.floats("action.low"), file.floats("action.high"));
  }
  ActionSpace space;
  if (text.starts_with("MultiDiscrete(")) space.kind = ActionKind::kMultiDiscrete;
  for (size_t at = text.find('('); at != text.npos; at = text.find(',', at + 1)) {
    const char* end = text.data() + text.size();
    const char* number = text.data() + at + 1;
    if (number != end && *number == ' ') ++number;
    int choices = 0;
    std::from_chars(number, end, choices);
    space.choices.push_back(choices);
  }
  if (space.choices.empty() || space.describe() != text) {
    refuse(file, "has actions " + in_quotes(text));
  }
  return space;
}

// The matrix of a layer.
const StoredTensor& weights_in(const TensorFile& file, std::string_view name) {
  const StoredTensor& weights = file.find(std::string(name) + ".weight");
  if (weights.shape.size() == 2 && weights.shape[1] > 0 && weights.shape[1] <= kMaxInputs) {
    return weights;
  }
  refuse(file, "'" + weights.name + "' has a shape that no network has");
}

std::string image_text(const NetworkSpec& network) {
  return fmt::format("{} {} {} {}", network.image.rows, network.image.columns,
                     network.image.channels,
                     network.obs_type == ObsType::kUint8 ? "uint8" : "float32");
}

// As image_text() writes it.
ObsSpace image_in(const TensorFile& file) {
  const std::string& text = file.find_metadata(kImage);
  std::istringstream words(text);
  std::vector<int> shape(3);
  std::string type, rest;
  words >> shape[0] >> shape[1] >> shape[2] >> type;
  constexpr int kMaxSide = 4096, kMaxChannels = 1024;
  constexpr int64_t kMaxElements = int64_t{1} << 24;  // each takes memory, and no tensor backs it
  const bool fits = words && !(words >> rest) && shape[0] > 0 && shape[0] <= kMaxSide &&
                    shape[1] > 0 && shape[1] <= kMaxSide && shape[2] > 0 &&
                    shape[2] <= kMaxChannels &&
                    int64_t{shape[0]} * shape[1] * shape[2] <= kMaxElements;
  if (!fits) refuse(file, fmt::format("{} is {}", kImage, in_quotes(text)));
  if (type == "uint8") return ObsSpace::uint8(std::move(shape));
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return ObsSpace::float32(std::move(shape), -kInfinity, kInfinity);
}

// Numbers of an observation that is no image. Behind attention the first layer sees its features.
int count_in(const TensorFile& file) {
  const bool shared = file.holds("trunk.0.weight");
  const int count =
      file.metadata.contains(kInputs)
          ? number_in<int>(file, kInputs)
          : static_cast<int>(weights_in(file, shared ? "trunk.0" : "actor.0").shape[1]);
  if (count < 1 || count > kMaxInputs) refuse(file, fmt::format("{} is {}", kInputs, count));
  return count;
}

ObsSpace numbers_in(const TensorFile& file) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return ObsSpace::float32({count_in(file)}, -kInfinity, kInfinity);
}

// What the file says of its environment: enough to act.
EnvSpec env_in(const PolicyFile& file) {
  const TensorFile& tensors = file.tensors;
  EnvSpec env;
  env.name = file.origin.env;
  env.obs = tensors.metadata.contains(kImage) ? image_in(tensors) : numbers_in(tensors);
  env.action = actions_in(tensors);
  env.has_mask = tensors.find_metadata("masked") == "true";
  try {
    env.validate();
  } catch (const Error& error) {
    refuse(tensors, error.what());
  }
  return env;
}

bool holds_attention(const TensorFile& file, const NetworkSpec& network) {
  const AttentionTorso torso = make_attention(network.groups, network.fusion);
  return std::ranges::all_of(torso.steps, [&](const TokenStep& step) {
    if (step.kind != TokenStep::Kind::kLinear) return true;
    const StoredTensor& weights = weights_in(file, step.name);
    return weights.shape[0] == torso.tokens[static_cast<size_t>(step.out)].width &&
           weights.shape[1] == torso.tokens[static_cast<size_t>(step.in)].width;
  });
}

// Before memory is taken for it: that first layer and output have the sizes of their tensors, which
// are there.
void require_backed(const TensorFile& file, const NetworkSpec& network) {
  const std::string first = network.shared ? "trunk.0" : "actor.0";
  const std::string head = "actor." + std::to_string(network.shared ? 0 : network.hidden.size());
  int64_t outputs = static_cast<int64_t>(network.action.low.size());
  for (const int choices : network.action.choices) outputs += choices;
  const StoredTensor& weights = weights_in(file, first);
  bool fits = weights.shape[0] == network.hidden.front() &&
              weights.shape[1] == network.features() && weights_in(file, head).shape[0] == outputs;
  if (network.torso == Torso::kAttention) fits = fits && holds_attention(file, network);
  if (fits) return;
  refuse(file, "its network and actions do not fit its tensors");
}

// The tensors that `wanted` names. Throws Error(kData) for a missing one, another shape or other
// numbers than were written.
Tensors matching(const TensorFile& file, const Tensors& wanted) {
  Tensors found;
  for (const Tensor& tensor : wanted) {
    found.push_back(file.tensor(tensor.name));
    if (found.back().shape != tensor.shape) {
      refuse(file, "'" + tensor.name + "' has another shape than the network's");
    }
  }
  if (sha256(found) != file.find_metadata("params_sha256")) {
    refuse(file, "the parameters do not match their checksum");
  }
  return found;
}

std::vector<float> column_values(const TensorFile& file, const char* name, size_t columns) {
  std::vector<float> values = file.floats(name);
  if (values.size() == columns) return values;
  refuse(file, fmt::format("'{}' has {} numbers, expected {}", name, values.size(), columns));
}

// The network by what the file alone says of it.
NetworkSpec own_network(const PolicyFile& file) {
  NetworkSpec network = network_of(file, env_in(file));
  require_backed(file.tensors, network);
  return network;
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
  if (network.sees_images()) file.metadata[kImage] = image_text(network);
  if (network.torso == Torso::kAttention) file.metadata[kInputs] = std::to_string(network.inputs);
  if (env.action.is_box()) {
    file.tensors.push_back(store("action.low", std::span<const float>(env.action.low)));
    file.tensors.push_back(store("action.high", std::span<const float>(env.action.high)));
  }
  if (network.normalise_obs) {
    const ObsNormaliser& normaliser = policy.obs_normaliser();
    const size_t columns = normaliser.moments().columns();
    file.tensors.push_back(store(kMean, std::span(normaliser.mean(), columns)));
    file.tensors.push_back(store(kScale, std::span(normaliser.scale(), columns)));
    const std::vector<double> moments = normaliser.moments().numbers();
    file.tensors.push_back(store(kObsMoments, std::span(moments)));
  }
  if (const RunningMoments& reward = policy.reward_normaliser().moments(); reward.count() > 0) {
    const std::vector<double> moments = reward.numbers();
    file.tensors.push_back(store(kRewardMoments, std::span(moments)));
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

PolicyContents contents_of(const PolicyFile& file) {
  PolicyContents contents;
  contents.network = own_network(file);
  contents.parameters = matching(file.tensors, make_parameters(contents.network));
  if (contents.network.normalise_obs) {
    const auto columns = static_cast<size_t>(contents.network.inputs);
    contents.obs_mean = column_values(file.tensors, kMean, columns);
    contents.obs_scale = column_values(file.tensors, kScale, columns);
  }
  return contents;
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

void require_same_spaces(const PolicyFile& file, const EnvSpec& env) {
  const std::string& action = file.tensors.find_metadata("action");
  if (action != env.action.describe()) {
    refuse(file.tensors, fmt::format("has actions {}, those of '{}' are {}", in_quotes(action),
                                     env.name, env.action.describe()));
  }
  const bool masked = file.tensors.find_metadata("masked") == "true";
  if (masked != env.masked()) {
    refuse(file.tensors, fmt::format("{} masks of actions, '{}' {}", masked ? "needs" : "has no",
                                     env.name, masked ? "has none" : "has"));
  }
  if (file.tensors.metadata.contains(kImage)) {
    const ObsSpace image = image_in(file.tensors);
    if (image.shape == env.obs.shape && image.type == env.obs.type) return;
    refuse(file.tensors, fmt::format("is for images {}, observations of '{}' are others",
                                     in_quotes(file.tensors.find_metadata(kImage)), env.name));
  }
  const int numbers = count_in(file.tensors);
  if (static_cast<size_t>(numbers) != env.obs.elements()) {
    refuse(file.tensors, fmt::format("is for observations of {} numbers, those of '{}' have {}",
                                     numbers, env.name, env.obs.elements()));
  }
}

NetworkSpec network_of(const PolicyFile& file, const EnvSpec& env) {
  try {
    return NetworkSpec::from(network_config(file), "", env);
  } catch (const Error& error) {  // nothing the user has written
    const std::string what = error.what();
    if (what.starts_with(file.tensors.origin)) throw Error(ErrorCode::kData, what);
    refuse(file.tensors, "network: " + what);
  }
}

Config network_config(const PolicyFile& file) {
  Config config(NetworkSpec::schema());
  config.load_yaml_text(file.tensors.find_metadata("network"), file.tensors.origin);
  return config;
}

void start_from(const PolicyFile& file, const EnvSpec& env, Policy& policy) {
  require_same_spaces(file, env);
  load_policy(file, policy);
  const auto moments_in = [&file](const char* name, size_t columns) {
    RunningMoments moments(columns);
    try {
      moments.set_numbers(file.tensors.doubles(name));
    } catch (const Error& error) {
      refuse(file.tensors, fmt::format("'{}': {}", name, error.what()));
    }
    return moments;
  };
  ObsNormaliser& obs = policy.obs_normaliser();
  if (policy.spec().normalise_obs) {
    if (!file.tensors.holds(kObsMoments)) {
      refuse(file.tensors,
             "is of an earlier version, without the moments of observations that "
             "training goes on from");
    }
    obs.set_moments(moments_in(kObsMoments, obs.moments().columns()));
  }
  if (file.tensors.holds(kRewardMoments)) {
    policy.reward_normaliser().set_moments(moments_in(kRewardMoments, 1));
  }
}

std::unique_ptr<Policy> make_policy(const PolicyFile& file, const EnvSpec& env,
                                    const PolicyOptions& options, Fit fit) {
  if (fit == Fit::kSameEnv) require_fit(file, env);
  if (fit == Fit::kSameSpaces) require_same_spaces(file, env);
  auto policy = make_policy(network_of(file, env), options);
  load_policy(file, *policy);
  return policy;
}

std::unique_ptr<Policy> make_policy(const PolicyFile& file, const PolicyOptions& options) {
  auto policy = make_policy(own_network(file), options);
  load_policy(file, *policy);
  return policy;
}

void load_policy(const PolicyFile& file, Policy& policy) {
  const TensorFile& tensors = file.tensors;
  const Tensors parameters = matching(tensors, policy.parameters());
  ObsNormaliser& normaliser = policy.obs_normaliser();
  if (policy.spec().normalise_obs) {
    const size_t columns = normaliser.moments().columns();
    const std::vector<float> mean = column_values(tensors, kMean, columns);
    normaliser.set(mean, column_values(tensors, kScale, columns));
  }
  policy.set_parameters(parameters);
}

}  // namespace flotilla
