// The light runtime does what the engine does, bit for bit, on every kernel; and refuses what it
// cannot read.
#include "flotilla/inference/inference.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "flotilla/nn/policy_file.h"
#include "flotilla/nn/safetensors.h"
#include "support/policy_cases.h"

namespace flotilla::test {
namespace {

EnvSpec env_for(const NetworkSpec& network) {
  EnvSpec env;
  env.name = "walk";
  env.obs = network.obs_type == ObsType::kUint8 ? ObsSpace::uint8({network.inputs})
                                                : ObsSpace::float32({network.inputs}, -9, 9);
  env.action = network.action;
  env.has_mask = network.has_mask;
  return env;
}

std::string file_of(const Policy& policy) {
  return encode_policy(policy, env_for(policy.spec()), {"walk", "", 0, 0});
}

Inference inference_of(const Policy& policy, const std::string& kernel = "") {
  return Inference::from_bytes(file_of(policy), "p.safetensors", kernel);
}

const Action& predict(Inference& inference, const NetworkSpec& network, const std::byte* obs,
                      const PredictOptions& options) {
  const auto count = static_cast<size_t>(network.inputs);
  if (network.obs_type == ObsType::kUint8) {
    return inference.predict(std::span(reinterpret_cast<const uint8_t*>(obs), count), options);
  }
  return inference.predict(std::span(reinterpret_cast<const float*>(obs), count), options);
}

// Both act on the rows, one by one.
void expect_same_actions(const Policy& policy, Inference& inference, Rollout& rows) {
  const NetworkSpec& network = policy.spec();
  const size_t bytes = network.action.dims() * sizeof(float);
  for (const bool greedy : {true, false}) {
    for (int row = 0; row < rows.rows(); ++row) {
      const ActRows one = rows.act_rows(row, 1, 0);
      const auto step = static_cast<uint64_t>(row);
      policy.act(0, one, {.seed = Rollout::kSeed, .step = step, .greedy = greedy});
      PredictOptions options{.deterministic = greedy, .seed = Rollout::kSeed, .step = step};
      if (one.mask != nullptr) options.action_masks = {one.mask, network.action.mask_size()};
      const Action& action = predict(inference, network, one.obs, options);
      ASSERT_EQ(std::memcmp(action.data(), one.action, bytes), 0)
          << "row " << row << (greedy ? ", greedy" : ", drawn");
    }
  }
}

std::vector<Kernel> exact_kernels() {
  std::vector<Kernel> all = every_kernel();
  std::erase_if(all, [](const Kernel& each) { return each.is_torch(); });
  for (Kernel& each : bf16_kernels()) {
    const bool exact = each.name.find("amx") == std::string::npos;  // which adds in other orders
    if (exact) all.push_back(std::move(each));
  }
  return all;
}

class InferenceOnEveryKernel : public OnEveryKernel {};
INSTANTIATE_TEST_SUITE_P(Fused, InferenceOnEveryKernel, testing::ValuesIn(exact_kernels()),
                         kernel_name);

TEST_P(InferenceOnEveryKernel, ActsAsTheEngineToTheBit) {
  std::vector<Case> cases = small_cases();
  std::erase_if(cases, [](const Case& each) { return each.spec.hidden.empty(); });
  for (Case& each : random_cases(48)) cases.push_back(std::move(each));
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const auto policy = make(each.spec);
    Inference inference = inference_of(*policy, GetParam().fused->name);
    EXPECT_EQ(inference.kernel(), GetParam().fused->name);
    Rollout rows(each.spec, 24, 0, 11);
    expect_same_actions(*policy, inference, rows);
  }
}

NetworkSpec two_choices() {
  return network(3, {8}, Activation::kTanh, false, ActionSpace::discrete(2));
}

TEST_P(InferenceOnEveryKernel, TakesTheFirstOfTwoThatRoundingMakesEqual) {
  const auto policy = make(two_choices());
  Tensors tensors = policy->parameters();
  for (Tensor& tensor : tensors) std::ranges::fill(tensor.data, 0.0F);
  find_tensor(tensors, "actor.1.bias").data = {0, 1e-9F};
  policy->set_parameters(tensors);
  Inference inference = inference_of(*policy, GetParam().fused->name);
  const std::vector<float> obs = {1, 2, 3};
  EXPECT_EQ(policy->predict(obs).discrete(), 0);
  EXPECT_EQ(inference.predict(obs).discrete(), 0);
}

TEST(Inference, TakesTheKernelThatTheEngineTakes) {
  if (std::getenv("FLOTILLA_KERNEL") != nullptr) GTEST_SKIP() << "FLOTILLA_KERNEL is set";
  const auto policy = make_policy(two_choices(), {});
  EXPECT_EQ("fused " + inference_of(*policy).kernel(), policy->implementation().name);
  EXPECT_EQ(Inference::kernels().front(), inference_of(*policy).kernel());
  EXPECT_EQ(Inference::kernels().back(), "portable");
}

TEST(Inference, SaysWhatItIs) {
  NetworkSpec spec = network(4, {16}, Activation::kRelu, true, ActionSpace::multi_discrete({3, 2}));
  spec.has_mask = true;
  const auto policy = make_policy(spec, {});
  const Inference inference = inference_of(*policy);
  EXPECT_EQ(inference.env(), "walk");
  EXPECT_EQ(inference.inputs(), 4u);
  EXPECT_FALSE(inference.is_box());
  EXPECT_EQ(inference.dims(), 2u);
  EXPECT_EQ(std::vector<int>(inference.choices().begin(), inference.choices().end()),
            (std::vector<int>{3, 2}));
  EXPECT_TRUE(inference.masked());
}

TEST(Inference, CopiesActEachForItself) {
  const auto policy = make_policy(two_choices(), {.seed = 7});
  Inference one = inference_of(*policy);
  Inference other = one;
  const std::vector<float> a = {1, -2, 3}, b = {-1, 2, -3};
  const int of_a = one.predict(a).discrete(), of_b = one.predict(b).discrete();
  const Action& first = one.predict(a);
  EXPECT_EQ(other.predict(b).discrete(), of_b);
  EXPECT_EQ(first.discrete(), of_a);
}

TEST(Inference, ReadsAFile) {
  const std::string path = testing::TempDir() + "inference.safetensors";
  const auto policy = make_policy(two_choices(), {});
  std::ofstream(path, std::ios::binary) << file_of(*policy);
  const std::vector<float> obs = {1, 2, 3};
  EXPECT_EQ(Inference(path).predict(obs).discrete(), policy->predict(obs).discrete());
  std::remove(path.c_str());
}

// ---- what is refused ----------------------------------------------------------------------------

template <class Exception, class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.what();
  }
  return "not refused";
}

std::string refusal_of(const std::string& bytes) {
  return refusal<std::runtime_error>([&] { Inference::from_bytes(bytes, "p"); });
}

TEST(Inference, RefusesWhatDoesNotFitThePolicy) {
  NetworkSpec spec = network(3, {8}, Activation::kTanh, false, ActionSpace::multi_discrete({2, 3}));
  spec.has_mask = true;
  const auto policy = make_policy(spec, {});
  Inference inference = inference_of(*policy);
  const std::vector<float> obs = {1, 2, 3}, short_obs = {1, 2};
  const std::vector<uint8_t> few = {1, 1}, closed = {1, 1, 0, 0, 0}, open = {1, 0, 0, 0, 1};
  const auto text = [&](const std::vector<float>& row, std::span<const uint8_t> masks) {
    return refusal<std::invalid_argument>([&] { inference.predict(row, {.action_masks = masks}); });
  };
  EXPECT_EQ(text(short_obs, open), "obs: expected 3 numbers, got 2");
  EXPECT_EQ(text(obs, {}), "this policy was trained with masks: give action_masks");
  EXPECT_EQ(text(obs, few), "action_masks: expected 5 flags, got 2");
  EXPECT_EQ(text(obs, closed), "action_masks: no choice of dimension 1 is open");
  EXPECT_EQ(text(obs, open), "not refused");
  EXPECT_EQ(inference.predict(obs, {.action_masks = open}).discrete(1), 2);
  EXPECT_THROW(inference.predict(obs, {.action_masks = open}).box(), std::out_of_range);
  const std::string unknown =
      refusal<std::invalid_argument>([&] { inference_of(*policy, "sse9"); });
  EXPECT_TRUE(unknown.ends_with("portable, not 'sse9'")) << unknown;
}

TEST(Inference, RefusesEveryTruncation) {
  NetworkSpec spec = network(3, {4}, Activation::kTanh, false, ActionSpace::box({-1}, {1}));
  spec.normalise_obs = true;
  const std::string whole = file_of(*make_policy(spec, {}));
  EXPECT_EQ(refusal_of(whole), "not refused");
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_TRUE(refusal_of(whole.substr(0, size)).starts_with("p: ")) << size;
  }
}

TEST(Inference, RefusesFilesThatAreNoPolicy) {
  EXPECT_EQ(refusal_of(""), "p: truncated, or not a safetensors file");
  EXPECT_EQ(refusal_of(std::string(64, '\xff')), "p: truncated, or not a safetensors file");
  EXPECT_EQ(refusal<std::runtime_error>([] { Inference("/nowhere"); }),
            "/nowhere: there is no such file");
  EXPECT_EQ(refusal<std::runtime_error>([] { Inference("/dev/zero"); }),
            "/dev/zero: there is no such file");
}

// The file of a small policy after a change of what it holds, or of its header as text.
std::string changed(const std::function<void(TensorFile&)>& change) {
  TensorFile file = decode_safetensors(file_of(*make_policy(two_choices(), {})), "p");
  change(file);
  return encode_safetensors(file);
}

std::string with_text(const std::string& from, const std::string& to) {
  std::string bytes = changed([](TensorFile&) {});
  const size_t at = bytes.find(from);
  EXPECT_NE(at, bytes.npos) << from;
  EXPECT_EQ(from.size(), to.size());
  return bytes.replace(at, from.size(), to);
}

TEST(Inference, RefusesSizesThatAreNotThere) {
  const auto erase = [](const char* name) {
    return changed([&](TensorFile& file) {
      std::erase_if(file.tensors, [&](const StoredTensor& each) { return each.name == name; });
    });
  };
  const auto say = [](const char* key, const char* text) {
    return changed([&](TensorFile& file) { file.metadata[key] = text; });
  };
  EXPECT_EQ(refusal_of(erase("actor.0.bias")), "p: no tensor 'actor.0.bias'");
  EXPECT_EQ(refusal_of(erase("actor.1.weight")), "p: has no network of 1 to 16 hidden layers");
  EXPECT_EQ(refusal_of(say("format", "flotilla policy 2")),
            "p: has format 'flotilla policy 2', expected 'flotilla policy 1'");
  EXPECT_EQ(refusal_of(say("network", "normalize_obs: true\n")),
            "p: no tensor 'obs_normaliser.mean'");
  EXPECT_EQ(refusal_of(say("network", "activation: 'relu'\n")),
            "p: network: activation is ''relu''");
  EXPECT_EQ(refusal_of(say("network", "{activation: relu}\n")),
            "p: network: expected lines of 'key: value', got '{activation: relu}'");
  EXPECT_EQ(refusal_of(say("action", "Box([0], [1])")), "p: no tensor 'action.low'");
  for (const char* action : {"Discrete(3)", "Discrete(1)", "Discrete(2", "Discrete()", "Discrete",
                             "MultiDiscrete(2, 0)", "MultiDiscrete(1, -1, 2)", "Tuple(2)",
                             "Discrete(99999999999)", "MultiDiscrete(2147483647, 2147483647)"}) {
    EXPECT_EQ(refusal_of(say("action", action)), "p: has actions '" + std::string(action) + "'");
  }
  EXPECT_EQ(refusal_of(changed([](TensorFile& file) {
              file.tensors.push_back(store("attention.weight", std::vector<float>{1}));
            })),
            "p: tensor 'attention.weight' is no part of such a policy");
  EXPECT_EQ(refusal_of(changed([](TensorFile& file) {
              file.tensors.front().shape = {2, 4};  // actor.0.bias, of 8
            })),
            "p: tensor 'actor.0.bias' has another shape than the network's");
}

TEST(Inference, RefusesHeadersThatLie) {
  const std::string bias = R"("actor.0.bias":{"dtype":"F32","shape":[8],"data_offsets":[0,32]})";
  const auto altered = [&](const std::string& from, const std::string& to) {
    std::string text = bias;
    return refusal_of(with_text(bias, text.replace(text.find(from), from.size(), to)));
  };
  const std::string missing = "p: the data of tensor 'actor.0.bias' is not all there";
  EXPECT_EQ(altered("[0,32]", "[0,99]"), missing);
  EXPECT_EQ(altered("[0,32]", "[9,32]"), missing);
  EXPECT_EQ(altered("[0,32]", "[32,0]"), missing);
  EXPECT_EQ(altered("F32", "F64"), "p: tensor 'actor.0.bias' is 'F64', expected 'F32'");
  EXPECT_EQ(altered("[8]", "[9]"), "p: tensor 'actor.0.bias' has another shape than the network's");
  for (const auto& [from, to] : {std::pair{"[0,32]", "[0,32}"},
                                 {"[0,32]", "[ -32]"},
                                 {"[0,32]", "[0.32]"},
                                 {"[0,32]", "[   0]"},
                                 {"dtype", "dtypo"},
                                 {"\"F32\"", "\"F\\u\""},
                                 {"{\"dtype\"", "{\"shape\""}}) {
    EXPECT_TRUE(altered(from, to).starts_with("p: the header is not that of a policy at byte "))
        << to;
  }
}

}  // namespace
}  // namespace flotilla::test
