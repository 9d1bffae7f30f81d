#include "flotilla/nn/network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string_view>

#include "flotilla/core/error.h"
#include "flotilla/core/text.h"

namespace flotilla {
namespace {

constexpr int kMaxWidth = 1024;
constexpr size_t kMaxLayers = 16;

std::vector<int> parse_hidden(const std::string& key, const std::string& text) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: expected 1 to {} widths from 1 to {}, such as 64,64; {}", key,
                            kMaxLayers, kMaxWidth, what));
  };
  std::vector<int> widths;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view word = rest.substr(0, comma);
    if (more) rest.remove_prefix(comma + 1);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    int width = 0;
    const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), width);
    if (status != std::errc() || end != word.data() + word.size() || width < 1 ||
        width > kMaxWidth) {
      refuse(fmt::format("got {} in {}", in_quotes(word), in_quotes(text)));
    }
    widths.push_back(width);
  }
  if (widths.size() > kMaxLayers) refuse(fmt::format("got {} of them", widths.size()));
  return widths;
}

void require_squashable(const std::string& key, const EnvSpec& env) {
  if (!env.action.is_box()) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: only continuous actions can be squashed, those of {} are {}", key,
                            in_quotes(env.name), env.action.describe()));
  }
  for (size_t d = 0; d < env.action.dims(); ++d) {
    if (env.action.low[d] == env.action.high[d]) {
      throw Error(ErrorCode::kUsage, fmt::format("{}: the bounds of action {} of {} are equal", key,
                                                 d, in_quotes(env.name)));
    }
  }
}

Torso parse_torso(const std::string& word) {
  const auto* found = std::ranges::find(kTorsoNames, word);
  return static_cast<Torso>(found - std::begin(kTorsoNames));
}

ImageShape image_for(Torso torso, const std::string& key, const EnvSpec& env) {
  const std::vector<int>& shape = env.obs.shape;
  const auto refuse = [&](const std::string& needed) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: needs {}, observations of {} are [{}]", key, needed,
                            in_quotes(env.name), fmt::join(shape, ", ")));
  };
  if (shape.size() != 3) refuse("images of [rows, columns, channels]");
  const int least = least_image(torso);
  if (shape[0] < least || shape[1] < least) refuse(fmt::format("at least {} x {}", least, least));
  return {shape[0], shape[1], shape[2]};
}

std::vector<Group> groups_for(const std::string& key, const std::string& text, const EnvSpec& env) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: {}", key, what));
  };
  if (text.empty()) {
    refuse("torso=attention needs them, as COUNTxFEATURES:WIDTH of each, such as 1x5:16,5x17:32");
  }
  std::vector<Group> groups;
  try {
    groups = parse_groups(text);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  size_t numbers = 0;
  for (const Group& group : groups) numbers += static_cast<size_t>(group.count * group.features);
  if (numbers != env.obs.elements()) {
    refuse(fmt::format("they are {} numbers, observations of {} have {}", numbers,
                       in_quotes(env.name), env.obs.elements()));
  }
  return groups;
}

void read_attention(const Config& config, const std::string& prefix, const EnvSpec& env,
                    NetworkSpec& spec) {
  spec.groups = groups_for(prefix + "groups", config.get_text(prefix + "groups"), env);
  spec.fusion = static_cast<int>(config.get_integer(prefix + "fusion"));
  if (spec.fusion % kFusionUnit != 0) {
    throw Error(ErrorCode::kUsage, fmt::format("{}fusion: expected a multiple of {}, got {}",
                                               prefix, kFusionUnit, spec.fusion));
  }
  if (spec.precision == Precision::kBf16) {
    throw Error(ErrorCode::kUsage, prefix + "precision: torso=attention has fp32 alone");
  }
}

// Multiply-adds of the layers of a perceptron, and of those behind its first.
struct Macs {
  double all = 0, behind_first = 0;
};

Macs hidden_macs(const NetworkSpec& spec) {
  Macs macs;
  int inputs = spec.features();
  for (size_t layer = 0; layer < spec.hidden.size(); ++layer) {
    const double count = static_cast<double>(inputs) * spec.hidden[layer];
    macs.all += count;
    if (layer > 0 || spec.torso != Torso::kNone) macs.behind_first += count;
    inputs = spec.hidden[layer];
  }
  return macs;
}

Macs attention_macs(const NetworkSpec& spec) {
  Macs macs;
  const AttentionTorso torso = make_attention(spec.groups, spec.fusion);
  for (const TokenStep& step : torso.steps) {
    const Tokens &in = torso.tokens[static_cast<size_t>(step.in)],
                 &out = torso.tokens[static_cast<size_t>(step.out)];
    double count = 0;
    if (step.kind == TokenStep::Kind::kLinear) {
      count = static_cast<double>(in.width) * out.width * out.count;
    } else if (step.kind == TokenStep::Kind::kAttend) {
      count = 2.0 * out.width * out.count * out.count;
    }
    macs.all += count;
    if (step.in >= static_cast<int>(spec.groups.size())) macs.behind_first += count;
  }
  return macs;
}

Macs torso_macs(const NetworkSpec& spec) {
  if (spec.torso == Torso::kAttention) return attention_macs(spec);
  Macs macs;
  for (const Convolution& each : make_torso(spec.torso, spec.image).convolutions) {
    const double window = static_cast<double>(each.inputs) * each.kernel * each.kernel;
    const double count = window * each.outputs * each.made.rows * each.made.columns;
    if (macs.all > 0) macs.behind_first += count;
    macs.all += count;
  }
  return macs;
}

Macs network_macs(const NetworkSpec& spec) {
  Macs macs = hidden_macs(spec);
  if (!spec.shared) {
    macs.all *= 2;
    macs.behind_first *= 2;
  }
  const int last = spec.hidden.empty() ? spec.features() : spec.hidden.back();
  const double heads = static_cast<double>(last) * (spec.outputs() + 1);
  macs.all += heads;
  if (!spec.hidden.empty()) macs.behind_first += heads;
  const Macs torso = torso_macs(spec);
  macs.all += torso.all;
  macs.behind_first += torso.behind_first;
  return macs;
}

}  // namespace

int NetworkSpec::outputs() const {
  if (action.is_box()) return static_cast<int>(action.dims());
  return std::accumulate(action.choices.begin(), action.choices.end(), 0);
}

int NetworkSpec::features() const {
  if (torso == Torso::kNone) return inputs;
  return torso == Torso::kAttention ? fusion : make_torso(torso, image).features();
}

double NetworkSpec::forward_macs() const { return network_macs(*this).all; }

// Forward, the gradients of the weights, and the gradients of every layer's inputs but those of
// the first, which are the observations.
double NetworkSpec::learn_macs() const {
  const Macs macs = network_macs(*this);
  return 2 * macs.all + macs.behind_first;
}

Schema NetworkSpec::schema() {
  Schema schema;
  schema
      .text("hidden", "64,64",
            fmt::format("widths of the hidden layers, 1 to {} each, up to {} layers", kMaxWidth,
                        kMaxLayers))
      .choice("torso", "none", {std::begin(kTorsoNames), std::end(kTorsoNames)},
              "in front of them: convolutions for images, or attention among groups")
      .text("groups", "",
            "of torso=attention: the observation as COUNTxFEATURES:WIDTH of each group of things")
      .integer("fusion", 256, {kFusionUnit, 1024}, "width of its tokens, one per group")
      .choice("activation", "tanh", {"tanh", "relu"}, "of the hidden layers")
      .boolean("shared", false, "actor and critic share the hidden layers")
      .choice("init", "orthogonal", {"orthogonal", "default"},
              "first parameters: orthogonal matrices, or uniform in +-1/sqrt(inputs)")
      .number("log_std_init", 0, {-10, 2}, "first log of the std of a continuous action")
      .alias("log_std")
      .boolean("squash", false, "continuous actions by tanh over their bounds instead of clipping")
      .boolean("normalize_obs", false, "observations by their running mean and std")
      .alias("normalise_obs")
      .choice("precision", "fp32", {"fp32", "bf16"},
              "of the factors in products of convolutions and hidden layers; bf16 is for the fused "
              "policy "
              "and for CUDA");
  return schema;
}

NetworkSpec NetworkSpec::from(const Config& config, const std::string& prefix, const EnvSpec& env) {
  NetworkSpec spec;
  spec.inputs = static_cast<int>(env.obs.elements());
  spec.obs_type = env.obs.type;
  spec.torso = parse_torso(config.get_text(prefix + "torso"));
  spec.hidden = parse_hidden(prefix + "hidden", config.get_text(prefix + "hidden"));
  spec.activation = config.get_text(prefix + "activation") == "relu" ? Activation::kRelu  //
                                                                     : Activation::kTanh;
  spec.shared = config.get_boolean(prefix + "shared");
  spec.init = config.get_text(prefix + "init") == "default" ? Init::kDefault : Init::kOrthogonal;
  spec.action = env.action;
  spec.has_mask = env.masked();
  spec.log_std = config.get_number(prefix + "log_std_init");
  spec.squash = config.get_boolean(prefix + "squash");
  spec.normalise_obs = config.get_boolean(prefix + "normalize_obs");
  spec.precision =
      config.get_text(prefix + "precision") == "bf16" ? Precision::kBf16 : Precision::kFp32;
  if (spec.sees_images()) spec.image = image_for(spec.torso, prefix + "torso", env);
  if (spec.torso == Torso::kAttention) read_attention(config, prefix, env, spec);
  if (spec.squash) require_squashable(prefix + "squash", env);
  if (spec.normalise_obs && spec.sees_images()) {
    throw Error(ErrorCode::kUsage,
                prefix + "normalize_obs: a torso scales pixels itself, so only one of them");
  }
  return spec;
}

Config NetworkSpec::to_config() const {
  Config config(schema());
  config.set("hidden", fmt::format("{}", fmt::join(hidden, ",")));
  config.set("torso", kTorsoNames[static_cast<int>(torso)]);
  config.set("groups", to_text(groups));
  config.set("fusion", fmt::to_string(fusion));
  config.set("activation", activation == Activation::kRelu ? "relu" : "tanh");
  config.set("shared", shared ? "true" : "false");
  config.set("init", init == Init::kDefault ? "default" : "orthogonal");
  config.set("log_std_init", fmt::to_string(log_std));
  config.set("squash", squash ? "true" : "false");
  config.set("normalize_obs", normalise_obs ? "true" : "false");
  config.set("precision", precision == Precision::kBf16 ? "bf16" : "fp32");
  return config;
}

}  // namespace flotilla
