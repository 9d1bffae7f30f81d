// Policies of every kind, and what they do, so that a script can hold their ONNX models against
// them.
//
//   onnx_tool FOLDER
//
// Writes NAME.safetensors, and what it saw and did as raw numbers: NAME.obs, NAME.mask,
// NAME.action, NAME.latent, NAME.value, NAME.logprob, NAME.entropy. Prints a line for each:
//
//   NAME ROWS OBS_TYPE OBS_SHAPE ACTION_KIND CHOICES_OR_DIMENSIONS
//
// Networks that only libtorch carries out are left out where there is none.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "flotilla/core/error.h"
#include "flotilla/core/file.h"
#include "flotilla/core/rng.h"
#include "flotilla/nn/policy_file.h"

namespace {

using namespace flotilla;

struct Case {
  std::string name;
  ObsSpace obs;
  ActionSpace action;
  std::vector<std::string> network;
  bool masked = false;
};

std::vector<Case> cases() {
  const ObsSpace numbers = ObsSpace::float32({7}, -100, 100);
  const ObsSpace pixels = ObsSpace::uint8({36, 40, 3});
  const ActionSpace two = ActionSpace::discrete(2), nine = ActionSpace::discrete(9);
  const ActionSpace several = ActionSpace::multi_discrete({3, 2, 5});
  const ActionSpace box = ActionSpace::box({-0.2F, -1}, {0.3F, 3});
  return {{"discrete", numbers, two, {}},
          {"normalised", numbers, nine, {"normalize_obs=true"}},
          {"shared", numbers, nine, {"shared=true", "activation=relu", "hidden=32"}},
          {"rounded", numbers, nine, {"precision=bf16", "normalize_obs=true"}},
          {"masked", numbers, nine, {"normalize_obs=true"}, true},
          {"multi", numbers, several, {}},
          {"masked_multi", numbers, several, {"shared=true"}, true},
          {"one_of_many", numbers, ActionSpace::multi_discrete({6}), {}},
          {"box", numbers, box, {"normalize_obs=true", "log_std_init=-0.5"}},
          {"squashed", numbers, box, {"squash=true", "activation=relu"}},
          {"nature", pixels, nine, {"torso=nature", "hidden=32"}},
          {"rounded_nature", pixels, nine, {"torso=nature", "hidden=32", "precision=bf16"}},
          {"rounded_impala", pixels, nine, {"torso=impala", "hidden=32", "precision=bf16"}},
          {"impala", pixels, several, {"torso=impala", "hidden=32", "shared=true"}, true},
          {"floats_of_images",
           ObsSpace::float32({9, 7, 2}, -1, 1),
           box,
           {"torso=impala", "activation=relu"}},
          {"attention",
           numbers,
           nine,
           {"torso=attention", "groups=1x3:16,2x2:32", "fusion=64", "normalize_obs=true"},
           true}};
}

// What the policy saw, and did.
struct Rows {
  int count = 0;
  std::string obs;
  std::vector<uint8_t> mask;
  std::vector<uint32_t> action, latent;  // ints or floats
  std::vector<float> value, logprob, entropy;
};

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string draw_obs(const EnvSpec& env, int rows, Rng& rng) {
  const size_t count = env.obs.elements() * static_cast<size_t>(rows);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    if (env.obs.type == ObsType::kUint8) {
      bytes += static_cast<char>(rng.below(256));
    } else {
      const auto x = static_cast<float>(3 * rng.normal());
      bytes.append(reinterpret_cast<const char*>(&x), sizeof(x));
    }
  }
  return bytes;
}

// At least one choice of every dimension is open.
std::vector<uint8_t> draw_mask(const ActionSpace& space, int rows, Rng& rng) {
  std::vector<uint8_t> mask;
  for (int row = 0; row < rows; ++row) {
    for (const int choices : space.choices) {
      const auto open = static_cast<int>(rng.below(static_cast<uint32_t>(choices)));
      for (int i = 0; i < choices; ++i) mask.push_back(i == open || rng.chance(0.4) ? 1 : 0);
    }
  }
  return mask;
}

const std::byte* bytes_in(const std::string& text) {
  return reinterpret_cast<const std::byte*>(text.data());
}

void act(Policy& policy, Rows& rows) {
  const auto count = static_cast<size_t>(rows.count);
  const size_t numbers = count * policy.spec().action.dims();
  rows.action.resize(numbers);
  rows.latent.resize(numbers);
  for (std::vector<float>* each : {&rows.value, &rows.logprob, &rows.entropy}) each->resize(count);
  const uint8_t* mask = rows.mask.empty() ? nullptr : rows.mask.data();
  policy.act(0,
             {.count = rows.count,
              .obs = bytes_in(rows.obs),
              .mask = mask,
              .action = reinterpret_cast<std::byte*>(rows.action.data()),
              .latent = reinterpret_cast<std::byte*>(rows.latent.data())},
             {.greedy = true});
  std::vector<int32_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), 0);
  ThreadPool pool(1);
  policy.evaluate(
      pool,
      {.obs = bytes_in(rows.obs),
       .mask = mask,
       .latent = reinterpret_cast<const std::byte*>(rows.latent.data())},
      chosen,
      {.logprob = rows.logprob.data(), .entropy = rows.entropy.data(), .value = rows.value.data()});
}

void write(const std::string& stem, const Rows& rows) {
  write_file_atomically(stem + ".obs", rows.obs);
  write_file_atomically(stem + ".mask", bytes_of(rows.mask));
  write_file_atomically(stem + ".action", bytes_of(rows.action));
  write_file_atomically(stem + ".latent", bytes_of(rows.latent));
  write_file_atomically(stem + ".value", bytes_of(rows.value));
  write_file_atomically(stem + ".logprob", bytes_of(rows.logprob));
  write_file_atomically(stem + ".entropy", bytes_of(rows.entropy));
}

void make(const Case& each, const std::string& folder) {
  EnvSpec env;
  env.name = each.name;
  env.obs = each.obs;
  env.action = each.action;
  env.has_mask = each.masked;
  Config config(NetworkSpec::schema());
  config.apply_override("init=default");  // outputs that differ, biases that count
  for (const std::string& setting : each.network) config.apply_override(setting);
  const NetworkSpec network = NetworkSpec::from(config, "", env);
  std::unique_ptr<Policy> policy;
  try {
    policy = make_policy(network, PolicyOptions{.seed = 3});
  } catch (const Error& error) {
    return fmt::print(stderr, "{} is left out: {}\n", each.name, error.what());
  }

  Rng rng(5, 0);
  Rows rows;
  rows.count = network.torso == Torso::kNone ? 500 : 20;
  rows.obs = draw_obs(env, rows.count, rng);
  if (each.masked) rows.mask = draw_mask(env.action, rows.count, rng);
  if (network.normalise_obs) {  // by the first rows, so that some of the others are clipped
    policy->obs_normaliser().update(reinterpret_cast<const float*>(rows.obs.data()), 4, nullptr);
  }
  act(*policy, rows);
  const std::string stem = folder + "/" + each.name;
  write_file_atomically(stem + ".safetensors", encode_policy(*policy, env, {each.name, "", 0, 3}));
  write(stem, rows);
  constexpr const char* kKinds[] = {"discrete", "multi_discrete", "box"};
  const std::vector<int> dims = {static_cast<int>(env.action.dims())};
  fmt::print("{} {} {} {} {} {}\n", each.name, rows.count,
             env.obs.type == ObsType::kUint8 ? "uint8" : "float32", fmt::join(env.obs.shape, ","),
             kKinds[static_cast<int>(env.action.kind)],
             fmt::join(env.action.is_box() ? dims : env.action.choices, ","));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw Error(ErrorCode::kUsage, "usage: onnx_tool FOLDER");
    for (const Case& each : cases()) make(each, argv[1]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
