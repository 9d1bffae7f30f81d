#include "support/policy_cases.h"

#include "support/emulated_amx.h"

namespace flotilla::test {

NetworkSpec network(int inputs, std::vector<int> hidden, Activation activation, bool shared,
                    ActionSpace action) {
  NetworkSpec spec;
  spec.inputs = inputs;
  spec.hidden = std::move(hidden);
  spec.activation = activation;
  spec.shared = shared;
  spec.init = Init::kDefault;
  spec.action = std::move(action);
  return spec;
}

std::vector<Case> small_cases() {
  constexpr auto kTanh = Activation::kTanh, kRelu = Activation::kRelu;
  std::vector<Case> all;
  const auto add = [&](const char* name, NetworkSpec spec, float epsilon = 0) -> NetworkSpec& {
    return all.emplace_back(name, std::move(spec), epsilon).spec;
  };
  add("discrete, tanh", network(4, {16, 16}, kTanh, false, ActionSpace::discrete(3)));
  add("discrete, relu, shared", network(7, {24, 9}, kRelu, true, ActionSpace::discrete(5)));
  add("masked", network(5, {11}, kTanh, false, ActionSpace::discrete(6))).has_mask = true;
  add("masked, epsilon", network(5, {13, 8}, kRelu, true, ActionSpace::discrete(6)), 0.2F)
      .has_mask = true;
  add("epsilon", network(3, {10}, kTanh, false, ActionSpace::discrete(4)), 0.1F);
  add("many", network(6, {12, 7, 5}, kTanh, true, ActionSpace::multi_discrete({3, 2, 4})));
  add("many, masked, epsilon",
      network(6, {12}, kRelu, false, ActionSpace::multi_discrete({3, 2, 4})), 0.05F)
      .has_mask = true;
  add("box", network(3, {16, 16}, kTanh, false, ActionSpace::box({-2, 0}, {2, 5}))).log_std = -0.5;
  NetworkSpec& squashed = add("box, squashed, shared",
                              network(8, {15}, kRelu, true, ActionSpace::box({-1, -3}, {1, 3})));
  squashed.squash = true;
  squashed.log_std = 0.3;
  NetworkSpec& bytes =
      add("bytes, normalised", network(9, {10}, kTanh, false, ActionSpace::discrete(3)));
  bytes.obs_type = ObsType::kUint8;
  bytes.normalise_obs = true;
  add("no hidden layer", network(4, {}, kTanh, true, ActionSpace::discrete(2)));
  return all;
}

std::vector<Case> wide_cases() {
  std::vector<Case> all;
  all.push_back({"wide, masked, epsilon",
                 network(200, {160, 128}, Activation::kTanh, false, ActionSpace::discrete(33)),
                 0.1F});
  all.back().spec.has_mask = true;
  all.push_back({"wide, relu, shared", network(280, {256, 80}, Activation::kRelu, true,
                                               ActionSpace::multi_discrete({5, 4}))});
  return all;
}

std::string describe(const NetworkSpec& spec, float epsilon) {
  std::string text = std::to_string(spec.inputs) + " inputs";
  if (spec.obs_type == ObsType::kUint8) text += " of bytes";
  if (spec.normalise_obs) text += ", normalised";
  for (const int width : spec.hidden) text += ", " + std::to_string(width);
  text += spec.activation == Activation::kTanh ? ", tanh" : ", relu";
  if (spec.shared) text += ", shared";
  text += ", " + (spec.outputs() > 8 ? std::to_string(spec.outputs()) + " outputs"
                                     : spec.action.describe());
  if (spec.action.is_box()) text += spec.squash ? " of a squashed box" : " of a box";
  if (spec.has_mask) text += ", masked";
  if (epsilon > 0) text += ", epsilon";
  return text;
}

Case random_case(uint32_t number) {
  Rng rng(number, stream_of(Purpose::kTest, 2));
  // From 1 to `most`, the small as likely as the large, and `most` itself now and then.
  const auto size = [&](int most) {
    if (rng.chance(0.15)) return most;
    return static_cast<int>(std::exp(rng.uniform(0, std::log(most + 1.0))));
  };
  const auto action = [&]() -> ActionSpace {
    if (number % 4 == 0) return ActionSpace::discrete(size(256));
    if (number % 4 == 1) {
      std::vector<int> choices(1 + rng.below(6));
      for (int& count : choices) count = size(42);
      return ActionSpace::multi_discrete(choices);
    }
    std::vector<float> low(static_cast<size_t>(size(24))), high;
    for (float& x : low) {
      x = static_cast<float>(rng.uniform(-3, 0));
      high.push_back(x + static_cast<float>(rng.uniform(0.5, 4)));
    }
    return ActionSpace::box(low, high);
  };
  std::vector<int> hidden(1 + number / 4 % 4);
  for (int& width : hidden) width = size(256);
  const auto activation = rng.chance(0.5) ? Activation::kTanh : Activation::kRelu;
  const bool shared = rng.chance(0.5);
  Case c{.name = "", .spec = network(size(100), hidden, activation, shared, action())};
  c.spec.obs_type = rng.chance(0.3) ? ObsType::kUint8 : ObsType::kFloat32;
  c.spec.normalise_obs = rng.chance(0.4);
  c.spec.log_std = rng.uniform(-1, 0.5);
  c.spec.squash = number % 4 == 3;
  c.spec.has_mask = !c.spec.action.is_box() && rng.chance(0.5);
  c.epsilon = !c.spec.action.is_box() && rng.chance(0.5) ? 0.1F : 0;
  c.name = "number " + std::to_string(number) + ": " + describe(c.spec, c.epsilon);
  return c;
}

std::vector<Case> random_cases(uint32_t count) {
  std::vector<Case> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(random_case(i));
  return all;
}

namespace {

// Where x86 computes to ARM's bits, tests/golden/witness compares them with those of ARM.
bool of_another_cpu([[maybe_unused]] const fused::Kernels& kernels) {
#if defined(__x86_64__)
  return kernels.name == std::string_view("neon");
#else
  return false;
#endif
}

}  // namespace

std::vector<Kernel> bf16_kernels() {
  std::vector<Kernel> all;
  for (const fused::Kernels* kernels : fused::compiled_kernels(Precision::kBf16)) {
    if (of_another_cpu(*kernels)) continue;
    all.push_back({kernels->name + std::string("_bf16"), kernels, Precision::kBf16});
  }
  if (emulated_amx() != nullptr) {
    all.push_back({"emulated_amx_bf16", emulated_amx(), Precision::kBf16});
  }
  return all;
}

std::vector<Kernel> every_kernel() {
  std::vector<Kernel> all;
  for (const fused::Kernels* kernels : fused::compiled_kernels()) {
    if (!of_another_cpu(*kernels)) all.push_back({kernels->name, kernels});
  }
  all.push_back({"torch", nullptr});
  return all;
}

void fill(ObsNormaliser& normaliser, const NetworkSpec& spec) {
  if (!spec.normalise_obs) return;
  constexpr size_t kRows = 32;
  const bool bytes = spec.obs_type == ObsType::kUint8;
  std::vector<float> rows(kRows * static_cast<size_t>(spec.inputs));
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool narrow = i % static_cast<size_t>(spec.inputs) % 3 == 0;
    const auto wave = static_cast<float>(i * 37 % 50) / 25 - 1;
    rows[i] = bytes ? 128 + wave * (narrow ? 9 : 60) : 0.3F + wave * (narrow ? 0.1F : 2);
  }
  normaliser.update(rows.data(), kRows, nullptr);
}

std::unique_ptr<Policy> make_on(const Kernel& kernel, NetworkSpec spec, uint64_t seed) {
  constexpr int kParts = 3;
  spec.precision = kernel.precision;
  std::unique_ptr<Policy> policy;
  if (kernel.is_torch()) {
    PolicyOptions options{.kind = "torch", .parts = kParts, .seed = seed};
    const char* device = std::getenv("FLOTILLA_TEST_DEVICE");
    if (device != nullptr) options.device = device;
    policy = make_torch_policy(spec, options);
  } else {
    policy = std::make_unique<fused::FusedPolicy>(spec, kParts, initial_parameters(spec, seed),
                                                  *kernel.fused);
  }
  fill(policy->obs_normaliser(), spec);
  return policy;
}

std::string missing(const Kernel& kernel) {
  if (!kernel.is_torch()) return can_run(*kernel.fused) ? "" : "this CPU cannot run " + kernel.name;
  static const std::string why = [&]() -> std::string {
    try {
      make_on(kernel, small_cases()[0].spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }();
  return why;
}

std::string kernel_name(const testing::TestParamInfo<Kernel>& info) { return info.param.name; }

SlowPolicy make_twin(const NetworkSpec& spec, uint64_t seed) {
  SlowPolicy twin(spec, initial_parameters(spec, seed));
  ObsNormaliser normaliser(static_cast<size_t>(spec.inputs));
  fill(normaliser, spec);
  twin.set_normaliser(normaliser);
  return twin;
}

SlowPolicy twin_of(const Policy& policy) {
  SlowPolicy twin(policy.spec(), policy.parameters());
  twin.set_normaliser(policy.obs_normaliser());
  return twin;
}

void expect_near(const Tensors& tensors, const std::string& prefix, const SlowPolicy::Named& named,
                 double tolerance, double least) {
  for (const auto& [name, values] : named) {
    const Tensor& tensor = find_tensor(tensors, prefix + name);
    ASSERT_EQ(tensor.elements(), values.size());
    double largest = least;
    for (const double x : values) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(tensor.data[i], values[i], tolerance * largest)
          << prefix << name << "[" << i << "]";
    }
  }
}

Rollout::Rollout(const NetworkSpec& spec, int rows, float epsilon, uint64_t seed)
    : spec_(spec), rows_(rows), epsilon_(epsilon), rng_(seed, stream_of(Purpose::kTest, 1)) {
  const bool bytes = spec.obs_type == ObsType::kUint8;
  const size_t numbers = size() * static_cast<size_t>(spec.inputs);
  obs_.resize(numbers * (bytes ? 1 : sizeof(float)));
  for (size_t i = 0; i < numbers; ++i) {
    if (bytes) {  // as they are, large ones would leave nothing of tanh but its ends
      obs_[i] = static_cast<std::byte>(rng_.below(spec.normalise_obs ? 256 : 4));
    } else {
      reinterpret_cast<float*>(obs_.data())[i] = static_cast<float>(rng_.normal());
    }
  }
  if (spec.has_mask) draw_mask();
  action_.resize(size() * spec.action.dims() * sizeof(float));
  latent_.resize(action_.size());
  logprob_.resize(size());
  value_.resize(size());
  chosen_.resize(size());
  std::iota(chosen_.begin(), chosen_.end(), 0);
}

ActRows Rollout::act_rows(int first, int count, int first_env) {
  const auto row = static_cast<size_t>(first);
  const size_t action_bytes = spec_.action.dims() * sizeof(float);
  return {.count = count,
          .first_env = first_env,
          .obs = obs_.data() + row * (obs_.size() / size()),
          .mask = mask_.empty() ? nullptr : mask_.data() + row * spec_.action.mask_size(),
          .action = action_.data() + row * action_bytes,
          .latent = latent_.data() + row * action_bytes,
          .logprob = logprob_.data() + row,
          .value = value_.data() + row};
}

void Rollout::act(const Policy& policy, bool greedy) {
  policy.act(0, act_rows(0, rows_, 0), draw(greedy));
}

void Rollout::act_at_random() {
  for (size_t row = 0, flag = 0; row < size(); ++row) {
    for (size_t d = 0; d < spec_.action.dims(); ++d) {
      std::byte* to = latent_.data() + (row * spec_.action.dims() + d) * sizeof(float);
      if (spec_.action.is_box()) {
        *reinterpret_cast<float*>(to) = static_cast<float>(rng_.normal());
        continue;
      }
      const auto count = static_cast<uint32_t>(spec_.action.choices[d]);
      uint32_t choice = rng_.below(count);
      while (!mask_.empty() && mask_[flag + choice] == 0) choice = (choice + 1) % count;
      *reinterpret_cast<int32_t*>(to) = static_cast<int32_t>(choice);
      flag += count;
    }
  }
}

Draw Rollout::draw(bool greedy) const {
  return {.seed = kSeed, .step = kStep, .epsilon = epsilon_, .greedy = greedy};
}

Samples Rollout::samples() const {
  return {.obs = obs_.data(),
          .mask = mask_.empty() ? nullptr : mask_.data(),
          .latent = latent_.data(),
          .epsilon = epsilon_};
}

const int32_t* Rollout::choice(size_t row) const {
  return reinterpret_cast<const int32_t*>(latent_.data()) + row * spec_.action.dims();
}

const float* Rollout::sample(size_t row) const {
  return reinterpret_cast<const float*>(latent_.data()) + row * spec_.action.dims();
}

const float* Rollout::action(size_t row) const {
  return reinterpret_cast<const float*>(action_.data()) + row * spec_.action.dims();
}

void Rollout::draw_mask() {
  mask_.assign(size() * spec_.action.mask_size(), 0);
  size_t first = 0;
  for (size_t row = 0; row < size(); ++row) {
    for (const int choices : spec_.action.choices) {
      const auto count = static_cast<uint32_t>(choices);
      for (size_t c = 0; c < count; ++c) mask_[first + c] = rng_.chance(0.5);
      mask_[first + rng_.below(count)] = 1;
      first += count;
    }
  }
}

}  // namespace flotilla::test
