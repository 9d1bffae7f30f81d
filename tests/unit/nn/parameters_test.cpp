#include "flotilla/nn/parameters.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "flotilla/core/error.h"
#include "support/error_text.h"

namespace flotilla {
namespace {

using test::error_text;

NetworkSpec two_layers() {
  NetworkSpec spec;
  spec.inputs = 4;
  spec.hidden = {8, 6};
  spec.action = ActionSpace::discrete(3);
  return spec;
}

using Shapes = std::vector<std::pair<std::string, std::vector<int>>>;

Shapes shapes(const Tensors& tensors) {
  Shapes out;
  for (const Tensor& tensor : tensors) out.emplace_back(tensor.name, tensor.shape);
  return out;
}

// The largest difference of W W^T from gain^2 I, or of W^T W where W has more rows than columns.
double distance_from_orthogonal(const Tensor& weight, double gain) {
  const int rows = weight.shape[0], columns = weight.shape[1];
  const bool by_row = rows <= columns;
  const int vectors = by_row ? rows : columns, length = by_row ? columns : rows;
  const auto at = [&](int vector, int i) {
    const int index = by_row ? vector * columns + i : i * columns + vector;
    return static_cast<double>(weight.data[static_cast<size_t>(index)]);
  };
  double worst = 0;
  for (int a = 0; a < vectors; ++a) {
    for (int b = 0; b < vectors; ++b) {
      double dot = 0;
      for (int i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
      worst = std::max(worst, std::abs(dot - (a == b ? gain * gain : 0)));
    }
  }
  return worst;
}

TEST(Parameters, NamesAndShapesOfSeparateNetworks) {
  const Shapes expected = {
      {"actor.0.bias", {8}},       {"actor.0.weight", {8, 4}},  {"actor.1.bias", {6}},
      {"actor.1.weight", {6, 8}},  {"actor.2.bias", {3}},       {"actor.2.weight", {3, 6}},
      {"critic.0.bias", {8}},      {"critic.0.weight", {8, 4}}, {"critic.1.bias", {6}},
      {"critic.1.weight", {6, 8}}, {"critic.2.bias", {1}},      {"critic.2.weight", {1, 6}}};
  const Tensors tensors = make_parameters(two_layers());
  EXPECT_EQ(shapes(tensors), expected);
  for (const Tensor& tensor : tensors) {
    size_t elements = 1;
    for (const int extent : tensor.shape) elements *= static_cast<size_t>(extent);
    EXPECT_EQ(tensor.data, std::vector<float>(elements)) << tensor.name;
  }
}

TEST(Parameters, NamesAndShapesOfASharedNetworkWithABox) {
  NetworkSpec spec = two_layers();
  spec.shared = true;
  spec.action = ActionSpace::box({-1, -1}, {1, 1});
  const Shapes expected = {
      {"actor.0.bias", {2}},       {"actor.0.weight", {2, 6}}, {"critic.0.bias", {1}},
      {"critic.0.weight", {1, 6}}, {"log_std", {2}},           {"trunk.0.bias", {8}},
      {"trunk.0.weight", {8, 4}},  {"trunk.1.bias", {6}},      {"trunk.1.weight", {6, 8}}};
  EXPECT_EQ(shapes(make_parameters(spec)), expected);
}

TEST(Parameters, TenLayersAreStillInTheOrderOfTheirNames) {
  NetworkSpec spec = two_layers();
  spec.hidden.assign(11, 2);
  const Tensors tensors = make_parameters(spec);
  EXPECT_EQ(tensors.size(), 2u * 2u * 12u);
  for (size_t i = 1; i < tensors.size(); ++i) EXPECT_LT(tensors[i - 1].name, tensors[i].name);
}

TEST(Parameters, OrthogonalInit) {
  NetworkSpec spec;
  spec.inputs = 77;  // wide, square and tall matrices
  spec.hidden = {64, 64, 100};
  spec.action = ActionSpace::discrete(145);
  const Tensors tensors = initial_parameters(spec, 3);
  const auto distance = [&](const std::string& name, double gain) {
    return distance_from_orthogonal(find_tensor(tensors, name + ".weight"), gain);
  };
  for (const std::string net : {"actor.", "critic."}) {
    for (const std::string layer : {"0", "1", "2"}) {
      EXPECT_LT(distance(net + layer, std::sqrt(2.0)), 1e-5) << net + layer;
    }
  }
  EXPECT_LT(distance("actor.3", 0.01), 1e-9);  // 1e-5 of gain^2
  EXPECT_LT(distance("critic.3", 1), 1e-5);
  for (const Tensor& tensor : tensors) {
    if (tensor.shape.size() == 1) {
      EXPECT_EQ(tensor.data, std::vector<float>(tensor.elements()));
    }
  }
}

TEST(Parameters, OrthogonalInitOfASharedNetwork) {
  NetworkSpec spec = two_layers();
  spec.shared = true;
  spec.hidden = {32};
  const Tensors tensors = initial_parameters(spec, 1);
  EXPECT_LT(distance_from_orthogonal(find_tensor(tensors, "trunk.0.weight"), std::sqrt(2.0)), 1e-5);
  EXPECT_LT(distance_from_orthogonal(find_tensor(tensors, "actor.0.weight"), 0.01), 1e-9);
  EXPECT_LT(distance_from_orthogonal(find_tensor(tensors, "critic.0.weight"), 1), 1e-5);
}

TEST(Parameters, OrthogonalMatricesPointEverywhere) {
  // Of the rotations of the plane both kinds are drawn, with and without reflection.
  NetworkSpec spec = two_layers();
  spec.inputs = 2;
  spec.hidden = {2};
  int reflections = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const Tensors tensors = initial_parameters(spec, seed);
    const std::vector<float>& w = find_tensor(tensors, "actor.0.weight").data;
    reflections += w[0] * w[3] - w[1] * w[2] < 0 ? 1 : 0;
  }
  EXPECT_GT(reflections, 30);
  EXPECT_LT(reflections, 70);
}

TEST(Parameters, DefaultInitIsUniform) {
  NetworkSpec spec = two_layers();
  spec.inputs = 100;
  spec.hidden = {400, 25};
  spec.init = Init::kDefault;
  const Tensors tensors = initial_parameters(spec, 7);
  for (const auto& [name, inputs] :
       {std::pair("actor.0.weight", 100), std::pair("actor.0.bias", 100),
        std::pair("critic.1.weight", 400)}) {
    const Tensor& tensor = find_tensor(tensors, name);
    const double bound = 1 / std::sqrt(inputs);
    double largest = 0, mean = 0, square = 0;
    for (const float value : tensor.data) {
      const double x = static_cast<double>(value);
      largest = std::max(largest, std::abs(x));
      mean += x / static_cast<double>(tensor.elements());
      square += x * x / static_cast<double>(tensor.elements());
    }
    // The bound as a float may lie one rounding above it.
    EXPECT_LE(largest, bound * (1 + 1e-7)) << name;
    EXPECT_GT(largest, 0.97 * bound) << name;
    EXPECT_NEAR(mean, 0, 0.1 * bound) << name;
    EXPECT_NEAR(square, bound * bound / 3, 0.1 * bound * bound / 3) << name;
  }
}

TEST(Parameters, LogStdIsTheSpecs) {
  for (const Init init : {Init::kOrthogonal, Init::kDefault}) {
    NetworkSpec spec = two_layers();
    spec.init = init;
    spec.action = ActionSpace::box({-1, -1}, {1, 1});
    spec.log_std = -0.5;
    EXPECT_EQ(find_tensor(initial_parameters(spec, 0), "log_std").data,
              (std::vector<float>{-0.5f, -0.5f}));
  }
}

TEST(Parameters, InitDependsOnTheSeedAlone) {
  for (const Init init : {Init::kOrthogonal, Init::kDefault}) {
    NetworkSpec spec = two_layers();
    spec.init = init;
    EXPECT_EQ(sha256(initial_parameters(spec, 5)), sha256(initial_parameters(spec, 5)));
    EXPECT_NE(sha256(initial_parameters(spec, 5)), sha256(initial_parameters(spec, 6)));
    const Tensors tensors = initial_parameters(spec, 5);
    EXPECT_NE(find_tensor(tensors, "actor.0.weight").data,
              find_tensor(tensors, "critic.0.weight").data);
  }
}

TEST(Parameters, HashSeesEveryBitButNotTheOrder) {
  Tensors tensors = initial_parameters(two_layers(), 1);
  const std::string before = sha256(tensors);
  float& x = tensors.back().data.back();
  const float kept = x;
  x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1u);
  EXPECT_NE(sha256(tensors), before);
  x = kept;
  EXPECT_EQ(sha256(tensors), before);
  std::swap(tensors.front(), tensors.back());
  EXPECT_EQ(sha256(tensors), before);
}

TEST(Parameters, HashOfKnownBytes) {
  // printf '\0\0\200\077\0\0\0\300' | sha256sum
  const Tensors tensors = {{"b", {1}, {-2.0f}}, {"a", {1}, {1.0f}}};
  EXPECT_EQ(sha256(tensors), "ee4ac73c2bd27756ab82780f27c73a7bc4d3f0bb6acb37e008bc27eccd7e588b");
}

TEST(Parameters, FindTensor) {
  Tensors tensors = make_parameters(two_layers());
  find_tensor(tensors, "actor.0.bias").data[2] = 4;
  EXPECT_EQ(find_tensor(std::as_const(tensors), "actor.0.bias").data[2], 4);
  EXPECT_EQ(error_text(ErrorCode::kData, [&] { find_tensor(tensors, "actor.9.bias"); }),
            "no tensor 'actor.9.bias'");
}

TEST(Parameters, DifferentShapesAreNamed) {
  const Tensors expected = make_parameters(two_layers());
  const auto error = [&](const Tensors& given) {
    return error_text(ErrorCode::kData, [&] { require_same_shapes(expected, given); });
  };
  EXPECT_EQ(error(expected), "no error");

  Tensors given = expected;
  given.pop_back();
  EXPECT_EQ(error(given), "tensor 'critic.2.weight' is missing");
  given = expected;
  given.push_back({"log_std", {3}, {0, 0, 0}});
  EXPECT_EQ(error(given), "tensor 'log_std' is not expected");
  given = expected;
  given[0].name = "trunk.0.bias";
  EXPECT_EQ(error(given), "expected tensor 'actor.0.bias', found 'trunk.0.bias'");
  given = expected;
  given[1].shape = {4, 8};
  EXPECT_EQ(error(given),
            "tensor 'actor.0.weight' has shape [4, 8] with 32 elements, expected [8, 4]");
  given = expected;
  given[1].data.pop_back();
  EXPECT_EQ(error(given),
            "tensor 'actor.0.weight' has shape [8, 4] with 31 elements, expected [8, 4]");
}

}  // namespace
}  // namespace flotilla
