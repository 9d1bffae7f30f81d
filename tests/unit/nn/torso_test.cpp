// Torsos on every kernel against a slow twin: loops over windows and tokens, in double precision.
#include "flotilla/nn/torso.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <thread>

#include "flotilla/core/rng.h"
#include "flotilla/nn/make_policy.h"
#include "flotilla/nn/policy_file.h"
#include "support/build.h"
#include "support/error_text.h"
#include "support/policy_cases.h"

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
  EnvSpec trader = images(ObsSpace::float32({203}, -1, 1));
  trader.action = ActionSpace::discrete(36);
  EXPECT_EQ(
      parameters_of(network_of(
          trader, {"torso=attention", "groups=1x5:16,1x3:32,5x17:32,10x11:64", "hidden=128,64"})),
      791'349u);
}

TEST(Torso, OfAttentionBeginsAsItsSpecSays) {
  const NetworkSpec spec = network_of(images(ObsSpace::float32({21}, -1, 1)),
                                      {"torso=attention", "groups=3x7:32", "init=default"});
  const Tensors first = initial_parameters(spec, 3);
  const auto range_of = [&](const std::string& name) {
    const std::vector<float>& data = find_tensor(first, name).data;
    const auto [least, most] = std::ranges::minmax(data);
    return std::pair(least, most);
  };
  const auto expect_uniform = [&](const std::string& name, double bound) {
    const auto [least, most] = range_of(name);
    EXPECT_GT(static_cast<double>(most), 0.8 * bound) << name;
    EXPECT_LT(static_cast<double>(most), bound) << name;
    EXPECT_LT(static_cast<double>(least), -0.8 * bound) << name;
    EXPECT_GT(static_cast<double>(least), -bound) << name;
  };
  expect_uniform("torso.0.0.weight", 1 / std::sqrt(7));
  expect_uniform("torso.0.0.bias", 1 / std::sqrt(7));
  EXPECT_EQ(range_of("torso.0.1.weight"), std::pair(1.0F, 1.0F));
  EXPECT_EQ(range_of("torso.0.1.bias"), std::pair(0.0F, 0.0F));
  expect_uniform("torso.0.2.weight", std::sqrt(6.0 / (32 + 96)));
  EXPECT_EQ(range_of("torso.0.2.bias"), std::pair(0.0F, 0.0F));
  expect_uniform("torso.0.3.weight", 1 / std::sqrt(32));
  EXPECT_EQ(range_of("torso.0.3.bias"), std::pair(0.0F, 0.0F));
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
  const auto groups = [](const std::vector<std::string>& settings) {
    std::vector<std::string> all = {"torso=attention"};
    all.insert(all.end(), settings.begin(), settings.end());
    return error_text(ErrorCode::kUsage,
                      [&] { network_of(images(ObsSpace::float32({8}, -1, 1)), all); });
  };
  EXPECT_EQ(groups({}),
            "groups: torso=attention needs them, as COUNTxFEATURES:WIDTH of each, such as "
            "1x5:16,5x17:32");
  EXPECT_EQ(groups({"groups=2x4:16"}), "no error");
  EXPECT_EQ(groups({"groups=2x3:16"}),
            "groups: they are 6 numbers, observations of 'pictures' have 8");
  EXPECT_EQ(groups({"groups=2x4:16,"}), "groups: expected COUNTxFEATURES:WIDTH, got ''");
  EXPECT_EQ(groups({"groups=2x4:8"}),
            "groups: expected a width that is a multiple of 16, got '2x4:8'");
  EXPECT_EQ(groups({"groups=2xy:16"}),
            "groups: expected a number from 1 to 1024, got 'y' in '2xy:16'");
  EXPECT_EQ(groups({"groups=65x4:16"}),
            "groups: expected a number from 1 to 64, got '65' in '65x4:16'");
  EXPECT_EQ(groups({"groups=2x4:16", "fusion=80"}), "fusion: expected a multiple of 64, got 80");
  EXPECT_EQ(groups({"groups=2x4:16", "precision=bf16"}),
            "precision: torso=attention has fp32 alone");
  EXPECT_EQ(error_text(ErrorCode::kUsage,
                       [] {
                         network_of(kPixels, {"torso=nature", "normalize_obs=true"});
                       }),
            "normalize_obs: a torso scales pixels itself, so only one of them");
}

TEST(Torso, FusedKernelsTakeIt) {
  for (const char* torso : {"torso=nature", "torso=impala"}) {
    NetworkSpec spec = network_of(kPixels, {torso, "hidden=1024"});
    EXPECT_EQ(fused_refusal(spec), "");
    spec.precision = Precision::kBf16;
    EXPECT_EQ(fused_refusal(spec), "");
  }
  const EnvSpec large = images(ObsSpace::uint8({100, 100, 3}));
  EXPECT_EQ(fused_refusal(network_of(large, {"torso=impala"})),
            "number of features 5408 is over its limit of 4096");
}

// A loss with a slope of its own for every row.
class Lines : public Objective {
 public:
  static double by_logprob(size_t row) { return 0.25 * static_cast<double>(row % 5) - 0.5; }
  static double by_value(size_t row) { return 1 - 0.5 * static_cast<double>(row % 3); }

  void differentiate(const Rows& rows, double*) const override {
    for (int i = 0; i < rows.count; ++i) {
      const auto row = static_cast<size_t>(rows.sample[i]);
      rows.d_logprob[i] = static_cast<float>(by_logprob(row));
      rows.d_entropy[i] = 0;
      rows.d_value[i] = static_cast<float>(by_value(row));
    }
  }
};

// The same of rows that belong together.
class LinesInSequences : public Lines {
 public:
  int sequence() const override { return 7; }
};

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
  using Vector = std::vector<double>;

  Twin(const NetworkSpec& spec, const Tensors& tensors) : spec_(spec) {
    for (const Tensor& tensor : tensors) {
      parameters[tensor.name].assign(tensor.data.begin(), tensor.data.end());
    }
  }

  double value(const Vector& pixels) const { return head("critic", features(pixels))[0]; }

  // What Lines is the gradient of, over rows [0, actions.size()).
  double loss(const std::vector<Vector>& pixels, const std::vector<int32_t>& actions) const {
    double sum = 0;
    for (size_t row = 0; row < actions.size(); ++row) {
      const Vector seen = features(pixels[row]), logits = head("actor", seen);
      double all = 0;
      for (const double logit : logits) all += std::exp(logit);
      const double logprob = logits[static_cast<size_t>(actions[row])] - std::log(all);
      sum += Lines::by_logprob(row) * logprob + Lines::by_value(row) * head("critic", seen)[0];
    }
    return sum;
  }

  std::map<std::string, Vector> parameters;

 private:
  using Things = std::vector<Vector>;

  Vector features(const Vector& numbers) const {
    return spec_.torso == Torso::kAttention ? of_groups(numbers) : of_picture(numbers);
  }

  Vector of_groups(const Vector& numbers) const {
    Things tokens;
    auto from = numbers.begin();
    for (size_t g = 0; g < spec_.groups.size(); ++g) {
      Things things;
      for (int i = 0; i < spec_.groups[g].count; ++i, from += spec_.groups[g].features) {
        things.emplace_back(from, from + spec_.groups[g].features);
      }
      tokens.push_back(token("torso." + std::to_string(g) + ".", things));
    }
    tokens = attend("torso.fusion.", 0, tokens, 4);
    Vector mean(tokens[0].size());
    for (const Vector& seen : tokens) {
      const Vector inner = layer("torso.fusion.4", relu(layer("torso.fusion.3", seen)));
      const Vector made = norm("torso.fusion.5", sum(seen, inner));
      for (size_t c = 0; c < mean.size(); ++c) {
        mean[c] += made[c] / static_cast<double>(tokens.size());
      }
    }
    return mean;
  }

  Vector token(const std::string& name, Things things) const {
    for (Vector& x : things) x = relu(norm(name + "1", layer(name + "0", x)));
    if (things.size() == 1) {
      return layer(name + "4", norm(name + "3", layer(name + "2", things[0])));
    }
    things = attend(name, 2, things, static_cast<int>(things[0].size()) / 16);
    Vector flat;
    for (const Vector& x : things) flat.insert(flat.end(), x.begin(), x.end());
    return layer(name + "7", norm(name + "6", layer(name + "5", flat)));
  }

  // By the layers NAME first, first + 1 and first + 2.
  Things attend(const std::string& name, int first, const Things& things, int heads) const {
    const size_t width = things[0].size(), own = width / static_cast<size_t>(heads);
    Things sides, made;
    for (const Vector& x : things) sides.push_back(layer(name + std::to_string(first), x));
    for (size_t i = 0; i < things.size(); ++i) {
      Vector seen(width);
      for (size_t h = 0; h < width; h += own) {
        Vector shares;
        double all = 0;
        for (const Vector& other : sides) {
          double product = 0;
          for (size_t c = h; c < h + own; ++c) product += sides[i][c] * other[width + c];
          shares.push_back(std::exp(product / std::sqrt(static_cast<double>(own))));
          all += shares.back();
        }
        for (size_t j = 0; j < sides.size(); ++j) {
          for (size_t c = h; c < h + own; ++c) seen[c] += shares[j] / all * sides[j][2 * width + c];
        }
      }
      made.push_back(norm(name + std::to_string(first + 2),
                          sum(things[i], layer(name + std::to_string(first + 1), seen))));
    }
    return made;
  }

  Vector norm(const std::string& name, Vector x) const {
    const auto count = static_cast<double>(x.size());
    const double mean = std::reduce(x.begin(), x.end()) / count;
    double variance = 0;
    for (const double each : x) variance += (each - mean) * (each - mean) / count;
    for (size_t c = 0; c < x.size(); ++c) {
      x[c] = (x[c] - mean) / std::sqrt(variance + 1e-5) * parameters.at(name + ".weight")[c] +
             parameters.at(name + ".bias")[c];
    }
    return x;
  }

  static Vector relu(Vector x) {
    for (double& each : x) each = std::max(each, 0.0);
    return x;
  }

  static Vector sum(Vector a, const Vector& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }

  Vector of_picture(const Vector& pixels) const {
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
    const Vector& weight = parameters.at(each.name + ".weight");
    const Vector& bias = parameters.at(each.name + ".bias");
    Picture made(each.made);
    for (int o = 0; o < each.outputs; ++o) {
      for (int row = 0; row < each.made.rows; ++row) {
        for (int column = 0; column < each.made.columns; ++column) {
          double total = bias[static_cast<size_t>(o)];
          for (int c = 0; c < each.inputs; ++c) {
            for (int i = 0; i < each.kernel; ++i) {
              for (int j = 0; j < each.kernel; ++j) {
                const int r = row * each.stride - each.padding + i;
                const int s = column * each.stride - each.padding + j;
                const int w = ((o * each.inputs + c) * each.kernel + i) * each.kernel + j;
                if (!x.holds(r, s)) continue;
                total += weight[static_cast<size_t>(w)] * x.at(c, r, s);
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

  Vector layer(const std::string& name, const Vector& x) const {
    const Vector& weight = parameters.at(name + ".weight");
    Vector made = parameters.at(name + ".bias");
    for (size_t o = 0; o < made.size(); ++o) {
      for (size_t i = 0; i < x.size(); ++i) made[o] += weight[o * x.size() + i] * x[i];
    }
    return made;
  }

  // The outputs of actor or critic.
  Vector head(const std::string& name, Vector x) const {
    const std::string net = spec_.shared ? "trunk" : name;
    for (size_t k = 0; k < spec_.hidden.size(); ++k) {
      x = layer(net + "." + std::to_string(k), x);
      for (double& each : x) {
        each = spec_.activation == Activation::kTanh ? std::tanh(each) : std::max(each, 0.0);
      }
    }
    return layer(name + "." + std::to_string(spec_.shared ? 0 : spec_.hidden.size()), x);
  }

  const NetworkSpec& spec_;
};

Case small(const char* name, const ObsSpace& obs, const std::vector<std::string>& settings) {
  return {.name = name, .spec = network_of(images(obs), settings)};
}

const std::vector<Case>& torso_cases() {
  static const std::vector<Case> all = {
      small("nature", ObsSpace::uint8({36, 41, 3}),
            {"torso=nature", "hidden=20,10", "activation=relu"}),
      small("impala, shared", ObsSpace::uint8({9, 14, 2}),
            {"torso=impala", "hidden=20", "activation=relu", "shared=true"}),
      small("impala, floats", ObsSpace::float32({7, 6, 1}, -1, 1),
            {"torso=impala", "hidden=20", "init=default"}),
      small("attention", ObsSpace::float32({41}, -1, 1),
            {"torso=attention", "groups=1x3:16,5x6:32,2x4:16", "fusion=64", "hidden=20,10",
             "activation=relu", "init=default"}),
      small("attention, shared", ObsSpace::float32({42}, -1, 1),
            {"torso=attention", "groups=6x7:48", "fusion=128", "hidden=20", "shared=true"})};
  return all;
}

// Random pictures as bytes of a batch, and as the numbers that a network sees.
struct Batch {
  std::vector<std::byte> bytes;
  std::vector<std::vector<double>> numbers;
  std::vector<int32_t> actions, chosen;

  Batch(const NetworkSpec& spec, size_t rows) : numbers(rows), actions(rows), chosen(rows) {
    Rng rng(5, stream_of(Purpose::kTest, 0));
    for (size_t row = 0; row < rows; ++row) {
      for (int i = 0; i < spec.inputs; ++i) put(spec, numbers[row], rng);
      actions[row] = static_cast<int32_t>(row) % spec.outputs();
    }
    std::iota(chosen.begin(), chosen.end(), 0);
  }

  int rows() const { return static_cast<int>(chosen.size()); }
  Samples samples() const {
    return {.obs = bytes.data(), .latent = reinterpret_cast<const std::byte*>(actions.data())};
  }

 private:
  void put(const NetworkSpec& spec, std::vector<double>& row, Rng& rng) {
    if (spec.obs_type == ObsType::kUint8) {
      const uint32_t pixel = rng.below(256);
      bytes.push_back(static_cast<std::byte>(pixel));
      row.push_back(pixel / 255.0);
      return;
    }
    const auto number = static_cast<float>(rng.uniform(-1, 1));
    const auto* raw = reinterpret_cast<const std::byte*>(&number);
    bytes.insert(bytes.end(), raw, raw + sizeof number);
    row.push_back(static_cast<double>(number));
  }
};

// A step whose first moments are the gradient.
GradientStep plain() { return {.lr = 1e-3, .max_grad_norm = 0, .rule = Adam{.beta1 = 0}}; }

// By its effect: it may lie on a device.
std::string gradient_text(Policy& policy) {
  ThreadPool pool(1);
  const Tensors before = policy.parameters(), moments = policy.optimiser();
  policy.apply(pool, Nets::kBoth, plain());
  const std::string text = sha256(policy.optimiser());
  policy.set_parameters(before);
  policy.set_optimiser(moments);
  return text;
}

class TorsoTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, TorsoTest, testing::ValuesIn(every_kernel()), kernel_name);

// Sums of up to 576 products, one layer after the other: each is off by some 24 roundings of 6e-8.
TEST_P(TorsoTest, SeesWhatItsTwinSees) {
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const Batch batch(c.spec, 20);  // more than a tile
    std::vector<float> values(batch.chosen.size());
    policy->value(0, batch.bytes.data(), batch.rows(), values.data());
    const Twin twin(c.spec, policy->parameters());
    for (size_t row = 0; row < values.size(); row += 3) {
      const double expected = twin.value(batch.numbers[row]);
      EXPECT_NEAR(static_cast<double>(values[row]), expected, 1e-5 * (1 + std::abs(expected)))
          << row;
    }
  }
}

// Slopes of the twin's loss for some numbers of every tensor, by differences: worked out once for
// all kernels.
struct Slope {
  std::string name;
  size_t at;
  double value;
};

const std::vector<Slope>& expected_slopes(const Case& c, const Batch& batch) {
  static std::map<std::string, std::vector<Slope>> all;
  std::vector<Slope>& slopes = all[c.name];
  if (!slopes.empty()) return slopes;
  constexpr double kStep = 1e-5;
  Twin twin(c.spec, initial_parameters(c.spec, 3));
  Rng rng(6, stream_of(Purpose::kTest, 0));
  for (auto& [name, values] : twin.parameters) {
    for (int trial = 0; trial < 2; ++trial) {
      const size_t i = rng.below(static_cast<uint32_t>(values.size()));
      const double at = values[i];
      values[i] = at + kStep;
      const double above = twin.loss(batch.numbers, batch.actions);
      values[i] = at - kStep;
      const double below = twin.loss(batch.numbers, batch.actions);
      values[i] = at;
      slopes.push_back({name, i, (above - below) / (2 * kStep)});
    }
  }
  return slopes;
}

// The errors of the forward pass, and once more backwards.
TEST_P(TorsoTest, LearnsTheGradientOfItsTwin) {
  ThreadPool pool(1);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const Batch batch(c.spec, 2);
    learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, Lines(), plain());
    const Tensors moments = policy->optimiser();
    for (const Slope& slope : expected_slopes(c, batch)) {
      const std::vector<float>& gradient = find_tensor(moments, "m." + slope.name).data;
      double largest = 0.01;
      for (const float g : gradient) largest = std::max(largest, std::abs(static_cast<double>(g)));
      EXPECT_NEAR(gradient[slope.at], slope.value, 5e-5 * largest)
          << slope.name << "[" << slope.at << "]";
    }
  }
}

// Every number of every tensor, where sums are equal, too: those of a picture in one colour, of
// which a pool passes one.
TEST_P(TorsoTest, LearnsTheGradientOfTorch) {
  const Kernel torch = every_kernel().back();
  if (is_torch()) GTEST_SKIP() << "this is libtorch";
  if (!missing(torch).empty()) GTEST_SKIP() << missing(torch);
  ThreadPool pool(1);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    Batch batch(c.spec, 40);
    const size_t row = batch.bytes.size() / batch.chosen.size();
    std::fill_n(batch.bytes.begin(), 2 * row, std::byte{0});
    const auto here = make(c.spec), there = make_on(torch, c.spec);
    for (Policy* policy : {here.get(), there.get()}) {
      learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, Lines(), plain());
    }
    SlowPolicy::Named expected;
    for (const Tensor& tensor : there->optimiser()) {
      if (tensor.name.starts_with("m.")) {
        expected[tensor.name].assign(tensor.data.begin(), tensor.data.end());
      }
    }
    expect_near(here->optimiser(), "", expected, 5e-5, 0.02);
  }
}

// Many updates: as those of the other networks, relu's slope jumps where rounding decides.
TEST_P(TorsoTest, StaysWithTorchOverManyUpdates) {
  const Kernel torch = every_kernel().back();
  if (is_torch()) GTEST_SKIP() << "this is libtorch";
  if (!missing(torch).empty()) GTEST_SKIP() << missing(torch);
  ThreadPool pool(1);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const Batch batch(c.spec, 20);
    const auto here = make(c.spec), there = make_on(torch, c.spec);
    const Tensors start = here->parameters();
    for (Policy* policy : {here.get(), there.get()}) {
      for (int i = 0; i < 5; ++i) {
        learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, Mixture(20),
              GradientStep{.lr = 3e-4, .max_grad_norm = 0.5});
      }
    }
    const Tensors other = there->parameters();
    for (const Tensor& tensor : here->parameters()) {
      EXPECT_LT(distance_of_ways(find_tensor(start, tensor.name),
                                 find_tensor(other, tensor.name).data, tensor.data),
                5e-3)
          << tensor.name;
    }
  }
}

// From where it should be, in parts of its length.
double distance(const std::vector<float>& found, const std::vector<float>& expected) {
  double apart = 0, length = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    apart += std::pow(static_cast<double>(found[i] - expected[i]), 2);
    length += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(apart / length);
}

// Factors are off by up to 2^-9 of themselves, each layer passes on the errors of those below it,
// and slopes of relu jump where rounding decides. A window or a tap that is left out is much more.
class Bf16TorsoTest : public OnEveryKernel {
 protected:
  static std::unique_ptr<Policy> exact(const NetworkSpec& spec) {
    return make_on(every_kernel().front(), spec);
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, Bf16TorsoTest, testing::ValuesIn(bf16_kernels()), kernel_name);

TEST_P(Bf16TorsoTest, SeesAlmostWhatItsTwinSees) {
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec), twin = exact(c.spec);
    const Batch batch(c.spec, 20);
    std::vector<float> values(20), expected(20);
    policy->value(0, batch.bytes.data(), 20, values.data());
    twin->value(0, batch.bytes.data(), 20, expected.data());
    EXPECT_LT(distance(values, expected), 0.06);  // behind up to 15 convolutions
    EXPECT_NE(values, expected);
  }
}

TEST_P(Bf16TorsoTest, LearnsAlmostTheGradientOfItsTwin) {
  ThreadPool pool(1);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec), twin = exact(c.spec);
    const Batch batch(c.spec, 70);  // more than a tile
    for (Policy* each : {policy.get(), twin.get()}) {
      learn(*each, pool, batch.samples(), batch.chosen, Nets::kBoth, Lines(), plain());
    }
    const Tensors expected = twin->optimiser();
    for (const Tensor& tensor : policy->optimiser()) {
      if (!tensor.name.starts_with("m.")) continue;
      EXPECT_LT(distance(tensor.data, find_tensor(expected, tensor.name).data), 0.08)
          << tensor.name;
    }
  }
}

// Rows share products, whose factors are rounded as those of a row alone are: only sums are added
// up in another order.
TEST_P(Bf16TorsoTest, ManyRowsLearnTheSumOfWhatEachLearns) {
  ThreadPool pool(1);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const Batch batch(c.spec, 21);  // as go through together, and some more
    const auto gradient = [&](std::span<const int32_t> rows) {
      policy->gradient(pool, batch.samples(), rows, Nets::kBoth, Lines());
      std::vector<float> found(policy->gradient_count(Nets::kBoth));
      policy->read_gradient(found);
      return found;
    };
    const std::vector<float> together = gradient(batch.chosen);
    std::vector<float> sum(together.size());
    for (size_t row = 0; row < batch.chosen.size(); ++row) {
      const std::vector<float> of_row = gradient(std::span(batch.chosen).subspan(row, 1));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += of_row[i];
    }
    EXPECT_LT(distance(together, sum), 1e-6);
  }
}

class TorsoRowsTest : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Kernels, TorsoRowsTest, testing::ValuesIn(every_kernel()), kernel_name);
INSTANTIATE_TEST_SUITE_P(Bf16, TorsoRowsTest, testing::ValuesIn(bf16_kernels()), kernel_name);

TEST_P(TorsoRowsTest, ThreadsTilesAndSnapshotsChangeNothing) {
  if (is_torch()) GTEST_SKIP() << "whose threads and rows policy_rows_test.cpp tries";
  constexpr int kRows = kSanitized ? 40 : 150;
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const Batch batch(c.spec, kRows);
    const auto trained = [&](int threads) {
      auto policy = make(c.spec);
      ThreadPool pool(threads);
      for (int i = 0; i < 2; ++i) {
        learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, Mixture(kRows));
      }
      return policy;
    };
    const auto policy = trained(1);
    EXPECT_TRUE(same_bits(trained(2)->optimiser(), policy->optimiser()));
    EXPECT_TRUE(same_bits(trained(3)->optimiser(), policy->optimiser()));
    const auto snapshot = policy->snapshot();
    std::vector<float> at_once(kRows), alone(kRows);
    policy->value(0, batch.bytes.data(), kRows, at_once.data());
    const size_t row = batch.bytes.size() / kRows;
    for (size_t i = 0; i < kRows; ++i) {
      snapshot->value(1, batch.bytes.data() + i * row, 1, alone.data() + i);
    }
    EXPECT_EQ(alone, at_once);
  }
}

// policy_faces_test.cpp has more of them; here rows are pictures.
TEST_P(TorsoRowsTest, SnapshotsFollowEachOther) {
  constexpr int kRows = 20, kTimes = 3;  // a GPU records the second time and replays the third
  ThreadPool pool(2);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const Batch batch(c.spec, kRows);
    const auto policy = make(c.spec);
    for (int update = 0; update < 3; ++update) {
      std::vector<float> expected(kRows);
      policy->value(0, batch.bytes.data(), kRows, expected.data());
      const auto snapshot = policy->snapshot();
      std::vector<std::thread> actors;
      for (int i = 0; i < 2; ++i) {
        actors.emplace_back([&, i] {
          for (int time = 0; time < kTimes; ++time) {
            std::vector<float> found(kRows);
            snapshot->value(i, batch.bytes.data(), kRows, found.data());
            EXPECT_EQ(found, expected);
          }
        });
      }
      for (std::thread& actor : actors) actor.join();
      learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, Mixture(kRows));
    }
  }
}

// Tiles, and where shards begin, are others; with bfloat16 there are three of them.
TEST_P(TorsoRowsTest, SequencesLearnWhatTheirRowsDo) {
  constexpr size_t kRows = 24 * 7;
  ThreadPool pool(3);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    const Batch batch(c.spec, kRows);
    const auto gradient = [&](const Objective& objective) {
      policy->gradient(pool, batch.samples(), batch.chosen, Nets::kBoth, objective);
      std::vector<float> found(policy->gradient_count(Nets::kBoth));
      policy->read_gradient(found);
      return found;
    };
    EXPECT_LT(distance(gradient(LinesInSequences()), gradient(Lines())), 1e-5);
  }
}

// As a learner does before several passes; on a GPU (FLOTILLA_TEST_DEVICE) the rows are copied.
TEST_P(TorsoRowsTest, RowsThatWereBroughtAreTheSame) {
  constexpr int kRows = 40;
  ThreadPool pool(2);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const Batch batch(c.spec, kRows);
    const std::vector<int32_t> some = {31, 0, 7, 39, 7};
    const auto policy = make(c.spec);
    for (int time = 0; time < 3; ++time) {  // a GPU records the second and replays the third
      std::vector<float> here(some.size()), there(some.size());
      policy->evaluate(pool, batch.samples(), some, {.logprob = here.data()});
      policy->gradient(pool, batch.samples(), some, Nets::kBoth, Mixture(kRows));
      const std::string gradient = gradient_text(*policy);
      const Samples near = policy->bring(pool, batch.samples(), kRows);
      policy->evaluate(pool, near, some, {.logprob = there.data()});
      policy->gradient(pool, near, some, Nets::kBoth, Mixture(kRows));
      EXPECT_EQ(there, here);
      EXPECT_EQ(gradient_text(*policy), gradient);
    }
  }
}

// Acting, evaluating and learning see the same numbers, and predict() acts as act() does.
TEST_P(TorsoRowsTest, TheFirstRatioIsOne) {
  if (is_torch()) GTEST_SKIP() << "which multiplies matrices of other sizes when it learns";
  ThreadPool pool(2);
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    const auto policy = make(c.spec);
    Batch batch(c.spec, 70);
    std::vector<float> logprob(70), value(70), evaluated(70);
    policy->act(0,
                {.count = 70,
                 .obs = batch.bytes.data(),
                 .action = reinterpret_cast<std::byte*>(batch.actions.data()),
                 .latent = reinterpret_cast<std::byte*>(batch.actions.data()),
                 .logprob = logprob.data(),
                 .value = value.data()},
                {.seed = 1});
    policy->evaluate(pool, batch.samples(), batch.chosen, {.logprob = evaluated.data()});
    EXPECT_EQ(evaluated, logprob);
    if (c.spec.obs_type == ObsType::kUint8) {
      const std::span pixels(reinterpret_cast<const uint8_t*>(batch.bytes.data()),
                             static_cast<size_t>(c.spec.inputs));
      const Action action = policy->predict(pixels, {.deterministic = false, .seed = 1});
      EXPECT_EQ(action.choices()[0], batch.actions[0]);
    }
    const Recorder recorder(70);
    learn(*policy, pool, batch.samples(), batch.chosen, Nets::kBoth, recorder);
    EXPECT_EQ(recorder.logprob, logprob);
    EXPECT_EQ(recorder.value, value);
  }
}

// A policy file is the same for all.
TEST_P(TorsoTest, ActsFromItsFileAsBefore) {
  for (const Case& c : torso_cases()) {
    SCOPED_TRACE(c.name);
    EnvSpec env = images(ObsSpace::uint8({c.spec.image.rows, c.spec.image.columns,  //
                                          c.spec.image.channels}));
    if (c.spec.obs_type == ObsType::kFloat32) {
      env.obs = ObsSpace::float32(env.obs.shape, -1, 1);
    }
    const auto policy = make(c.spec);
    const PolicyFile file =
        decode_policy(encode_policy(*policy, env, {"pictures", "", 0, 3}), "p.safetensors");
    const auto again = make_policy(file, {});
    EXPECT_EQ(again->implementation().kind, "fused");
    EXPECT_TRUE(same_bits(again->parameters(), policy->parameters()));
    const auto direct = make_policy(c.spec, {});
    direct->set_parameters(policy->parameters());
    direct->obs_normaliser() = policy->obs_normaliser();
    const Batch batch(c.spec, 5);
    std::vector<float> before(5), after(5);
    direct->value(0, batch.bytes.data(), 5, before.data());
    again->value(0, batch.bytes.data(), 5, after.data());
    EXPECT_EQ(after, before);
  }
}

TEST(Torso, AFileServesOtherSettingsOfTheSameSpaces) {
  std::vector<Case> all = torso_cases();
  all.push_back(small("none", ObsSpace::float32({5}, -1, 1), {"hidden=20"}));
  all.push_back(small("none, shared", ObsSpace::float32({5}, -1, 1), {"shared=true"}));
  for (const Case& c : all) {
    SCOPED_TRACE(c.name);
    const ImageShape& image = c.spec.image;
    std::vector<int> shape = {c.spec.inputs};
    if (c.spec.sees_images()) shape = {image.rows, image.columns, image.channels};
    EnvSpec env = images(c.spec.obs_type == ObsType::kUint8 ? ObsSpace::uint8(shape)  //
                                                            : ObsSpace::float32(shape, -1, 1));
    const auto policy = make_policy(c.spec, {.seed = 4});
    const PolicyFile file = decode_policy(encode_policy(*policy, env, {"pictures", "", 0, 3}), "p");
    env.time_limit = 77;
    EXPECT_EQ(error_text(ErrorCode::kData, [&] { make_policy(file, env, {}); }),
              "p: is a policy of 'pictures' with other observations, limits or metrics than it has "
              "now");
    const auto again = make_policy(file, env, {}, Fit::kSameSpaces);
    EXPECT_TRUE(same_bits(again->parameters(), policy->parameters()));
    const auto started = make_policy(c.spec, {.seed = 5});
    start_from(file, env, *started);
    EXPECT_TRUE(same_bits(started->parameters(), policy->parameters()));
    ++shape[0];
    env.obs = ObsSpace::float32(shape, -1, 1);
    const std::string refusal =
        error_text(ErrorCode::kData, [&] { start_from(file, env, *started); });
    EXPECT_EQ(refusal, c.spec.sees_images()
                           ? "p: is for images '" + file.tensors.find_metadata("image") +
                                 "', observations of 'pictures' are others"
                           : fmt::format("p: is for observations of {} numbers, those of "
                                         "'pictures' have {}",
                                         shape[0] - 1, shape[0]));
  }
}

TEST(Torso, AFileWithAnotherImageIsRefused) {
  const EnvSpec env = images(ObsSpace::uint8({9, 14, 2}));
  const auto policy = make_policy(torso_cases()[1].spec, {});
  PolicyFile file = decode_policy(encode_policy(*policy, env, {"pictures", "", 0, 3}), "p");
  for (const char* image :
       {"9 14 2", "0 14 2 uint8", "9 14 2 uint8 1", "99999 1 1 uint8", "4096 4096 2 uint8", "x"}) {
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
