// Convolutions against a slow twin: loops over windows, in double precision.
#include "flotilla/nn/torso.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "flotilla/core/rng.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/policy_file.h"
#include "support/error_text.h"

namespace flotilla::test {
namespace {

EnvSpec images(ObsSpace obs) {
  EnvSpec env;
  env.name = "pictures";
  env.obs = std::move(obs);
  env.action = ActionSpace::discrete(15);
  return env;
}

NetworkSpec network_of(const EnvSpec& env, const std::vector<std::string>& settings) {
  Config config(NetworkSpec::schema());
  for (const std::string& each : settings) config.apply_override(each);
  return NetworkSpec::from(config, "", env);
}

size_t parameters_of(const NetworkSpec& spec) {
  const Tensors tensors = make_parameters(spec);
  return std::transform_reduce(tensors.begin(), tensors.end(), size_t{0}, std::plus<>(),
                               [](const Tensor& tensor) { return tensor.elements(); });
}

const EnvSpec kPixels = images(ObsSpace::uint8({64, 64, 3}));

TEST(Torso, HasTheParametersOfItsPaper) {
  EXPECT_EQ(parameters_of(network_of(kPixels, {"torso=nature", "hidden=512"})), 1'133'744u);
  EXPECT_EQ(parameters_of(network_of(kPixels, {"torso=impala", "hidden=256", "shared=true"})),
            626'256u);
}

TEST(Torso, CountsItsWork) {
  const NetworkSpec nature = network_of(kPixels, {"torso=nature", "hidden=512"});
  // Windows times their terms, and the layers behind them.
  const double torso = 225.0 * 32 * 192 + 36.0 * 64 * 512 + 16.0 * 64 * 576;
  const double layers = 2.0 * 1024 * 512 + 512 * 16;
  EXPECT_EQ(nature.forward_macs(), torso + layers);
  EXPECT_EQ(nature.learn_macs(), 3 * (torso + layers) - 225.0 * 32 * 192);
}

TEST(Torso, RefusesWhatItCannotSee) {
  const auto refusal = [](const ObsSpace& obs, const std::string& torso) {
    return error_text(ErrorCode::kUsage, [&] { network_of(images(obs), {"torso=" + torso}); });
  };
  EXPECT_EQ(refusal(ObsSpace::float32({4}, -1, 1), "nature"),
            "torso: needs images of [rows, columns, channels], observations of 'pictures' are [4]");
  EXPECT_EQ(refusal(ObsSpace::uint8({64, 35, 3}), "nature"),
            "torso: needs at least 36 x 36, observations of 'pictures' are [64, 35, 3]");
  EXPECT_EQ(refusal(ObsSpace::uint8({1, 1, 1}), "impala"), "no error");
  EXPECT_EQ(error_text(ErrorCode::kUsage,
                       [] {
                         network_of(kPixels, {"torso=nature", "normalize_obs=true"});
                       }),
            "normalize_obs: a torso scales pixels itself, so only one of them");
}

TEST(Torso, FusedKernelsLeaveItToLibtorch) {
  EXPECT_EQ(fused_refusal(network_of(kPixels, {"torso=impala"})), "it has convolutions");
}

// Channels, rows and columns of a picture.
struct Picture {
  ImageShape shape;
  std::vector<double> numbers;

  explicit Picture(const ImageShape& like)
      : shape(like),
        numbers(static_cast<size_t>(like.rows) * static_cast<size_t>(like.columns) *
                static_cast<size_t>(like.channels)) {}
  double& at(int channel, int row, int column) {
    return numbers[static_cast<size_t>((channel * shape.rows + row) * shape.columns + column)];
  }
  bool holds(int row, int column) const {
    return row >= 0 && row < shape.rows && column >= 0 && column < shape.columns;
  }
};

class Twin {
 public:
  Twin(const NetworkSpec& spec, const Tensors& tensors) : spec_(spec), tensors_(tensors) {}

  double value(const std::vector<double>& pixels) const {
    std::vector<double> x = features(pixels);
    const std::string net = spec_.shared ? "trunk" : "critic";
    for (size_t k = 0; k < spec_.hidden.size(); ++k) {
      x = layer(net + "." + std::to_string(k), x);
      for (double& each : x) each = std::max(each, 0.0);
    }
    return layer(spec_.shared ? "critic.0" : "critic." + std::to_string(spec_.hidden.size()), x)[0];
  }

 private:
  std::vector<double> features(const std::vector<double>& pixels) const {
    Picture x(spec_.image);
    for (int row = 0; row < spec_.image.rows; ++row) {
      for (int column = 0; column < spec_.image.columns; ++column) {
        for (int channel = 0; channel < spec_.image.channels; ++channel) {
          const int at = (row * spec_.image.columns + column) * spec_.image.channels + channel;
          x.at(channel, row, column) = pixels[static_cast<size_t>(at)];
        }
      }
    }
    const auto all = make_torso(spec_.torso, spec_.image).convolutions;
    if (spec_.torso == Torso::kNature) {
      for (const Convolution& each : all) x = relu(convolve(each, x));
      return x.numbers;
    }
    for (size_t k = 0; k < all.size(); k += 5) {
      x = pool(convolve(all[k], x));
      x = sum(x, convolve(all[k + 2], relu(convolve(all[k + 1], relu(x)))));
      x = sum(x, convolve(all[k + 4], relu(convolve(all[k + 3], relu(x)))));
    }
    return relu(x).numbers;
  }

  Picture convolve(const Convolution& each, Picture x) const {
    const Tensor& weight = find_tensor(tensors_, each.name + ".weight");
    const Tensor& bias = find_tensor(tensors_, each.name + ".bias");
    Picture made(each.made);
    for (int o = 0; o < each.outputs; ++o) {
      for (int row = 0; row < each.made.rows; ++row) {
        for (int column = 0; column < each.made.columns; ++column) {
          double total = static_cast<double>(bias.data[static_cast<size_t>(o)]);
          for (int c = 0; c < each.inputs; ++c) {
            for (int i = 0; i < each.kernel; ++i) {
              for (int j = 0; j < each.kernel; ++j) {
                const int r = row * each.stride - each.padding + i;
                const int s = column * each.stride - each.padding + j;
                const int w = ((o * each.inputs + c) * each.kernel + i) * each.kernel + j;
                if (!x.holds(r, s)) continue;
                total += static_cast<double>(weight.data[static_cast<size_t>(w)]) * x.at(c, r, s);
              }
            }
          }
          made.at(o, row, column) = total;
        }
      }
    }
    return made;
  }

  static Picture pool(Picture x) {
    Picture made({(x.shape.rows - 1) / 2 + 1, (x.shape.columns - 1) / 2 + 1, x.shape.channels});
    for (int c = 0; c < made.shape.channels; ++c) {
      for (int row = 0; row < made.shape.rows; ++row) {
        for (int column = 0; column < made.shape.columns; ++column) {
          double most = -INFINITY;
          for (int r = 2 * row - 1; r <= 2 * row + 1; ++r) {
            for (int s = 2 * column - 1; s <= 2 * column + 1; ++s) {
              if (x.holds(r, s)) most = std::max(most, x.at(c, r, s));
            }
          }
          made.at(c, row, column) = most;
        }
      }
    }
    return made;
  }

  static Picture relu(Picture x) {
    for (double& each : x.numbers) each = std::max(each, 0.0);
    return x;
  }

  static Picture sum(Picture a, const Picture& b) {
    for (size_t i = 0; i < a.numbers.size(); ++i) a.numbers[i] += b.numbers[i];
    return a;
  }

  std::vector<double> layer(const std::string& name, const std::vector<double>& x) const {
    const Tensor& weight = find_tensor(tensors_, name + ".weight");
    const Tensor& bias = find_tensor(tensors_, name + ".bias");
    std::vector<double> made(bias.data.begin(), bias.data.end());
    for (size_t o = 0; o < made.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) {
        made[o] += static_cast<double>(weight.data[o * x.size() + i]) * x[i];
      }
    }
    return made;
  }

  const NetworkSpec& spec_;
  const Tensors& tensors_;
};

struct Case {
  ObsSpace obs;
  std::vector<std::string> settings;
};

const std::vector<Case> kCases = {
    {ObsSpace::uint8({36, 41, 3}), {"torso=nature", "hidden=20,10", "activation=relu"}},
    {ObsSpace::uint8({9, 14, 2}), {"torso=impala", "hidden=20", "activation=relu", "shared=true"}},
    {ObsSpace::float32({7, 6, 1}, -1, 1),
     {"torso=impala", "hidden=20", "activation=relu", "init=default"}}};

// Null, with the test skipped, where there is no libtorch.
std::unique_ptr<Policy> torch_policy(const NetworkSpec& spec) {
  try {
    PolicyOptions options;
    options.kind = "torch";
    options.seed = 3;
    return make_policy(spec, options);
  } catch (const Error&) {
    return nullptr;
  }
}

// Random pictures as bytes of a batch, and as the numbers that a network sees.
struct Batch {
  std::vector<std::byte> bytes;
  std::vector<std::vector<double>> numbers;

  Batch(const ObsSpace& obs, size_t rows) {
    Rng rng(5, stream_of(Purpose::kTest, 0));
    for (size_t row = 0; row < rows; ++row) {
      numbers.emplace_back();
      for (size_t i = 0; i < obs.elements(); ++i) put(obs, rng);
    }
  }

 private:
  void put(const ObsSpace& obs, Rng& rng) {
    if (obs.type == ObsType::kUint8) {
      const uint32_t pixel = rng.below(256);
      bytes.push_back(static_cast<std::byte>(pixel));
      numbers.back().push_back(pixel / 255.0);
      return;
    }
    const auto number = static_cast<float>(rng.uniform(-1, 1));
    const auto* raw = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), raw, raw + sizeof number);
    numbers.back().push_back(static_cast<double>(number));
  }
};

TEST(Torso, DoesWhatItsTwinDoes) {
  for (const Case& c : kCases) {
    const EnvSpec env = images(c.obs);
    const NetworkSpec spec = network_of(env, c.settings);
    const auto policy = torch_policy(spec);
    if (policy == nullptr) GTEST_SKIP() << "no libtorch";
    constexpr size_t kRows = 5;
    const Batch batch(c.obs, kRows);
    std::vector<float> values(kRows);
    policy->value(0, batch.bytes.data(), kRows, values.data());
    const Tensors tensors = policy->parameters();
    const Twin twin(spec, tensors);
    for (size_t row = 0; row < kRows; ++row) {
      const double expected = twin.value(batch.numbers[row]);
      EXPECT_NEAR(static_cast<double>(values[row]), expected, 1e-5 * (1 + std::abs(expected)))
          << c.settings[0] << ", row " << row;
    }
  }
}

TEST(Torso, ActsFromItsFileAsBefore) {
  for (const Case& c : kCases) {
    const EnvSpec env = images(c.obs);
    const auto policy = torch_policy(network_of(env, c.settings));
    if (policy == nullptr) GTEST_SKIP() << "no libtorch";
    const PolicyFile file =
        decode_policy(encode_policy(*policy, env, {"pictures", "", 0, 3}), "p.safetensors");
    const auto again = make_policy(file, {});
    constexpr int kRows = 20;  // more than a tile
    const Batch batch(c.obs, kRows);
    const auto chosen = [&](const Policy& from) {
      std::vector<int32_t> action(kRows), latent(kRows);
      std::vector<float> logprob(kRows);
      from.act(0,
               {.count = kRows,
                .obs = batch.bytes.data(),
                .action = reinterpret_cast<std::byte*>(action.data()),
                .latent = reinterpret_cast<std::byte*>(latent.data()),
                .logprob = logprob.data()},
               {.seed = 1});
      return std::pair(action, logprob);
    };
    EXPECT_EQ(chosen(*policy), chosen(*again)) << c.settings[0];
  }
}

TEST(Torso, AFileWithAnotherImageIsRefused) {
  const EnvSpec env = images(kCases[1].obs);
  const auto policy = torch_policy(network_of(env, kCases[1].settings));
  if (policy == nullptr) GTEST_SKIP() << "no libtorch";
  PolicyFile file = decode_policy(encode_policy(*policy, env, {"pictures", "", 0, 3}), "p");
  for (const char* image : {"9 14 2", "0 14 2 uint8", "9 14 2 uint8 1", "99999 1 1 uint8", "x"}) {
    file.tensors.metadata["image"] = image;
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { make_policy(file, {}); }),
              "p: image is '" + std::string(image) + "'");
  }
  file.tensors.metadata["image"] = "64 64 2 uint8";
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { make_policy(file, {}); }),
            "p: its network and actions do not fit its tensors");
}

}  // namespace
}  // namespace flotilla::test
