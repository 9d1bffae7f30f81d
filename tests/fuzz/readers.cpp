#include "fuzz/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

#include "flotilla/core/csv.h"
#include "flotilla/core/gzip.h"
#include "flotilla/core/json.h"
#include "flotilla/core/text.h"
#include "flotilla/env/replay.h"
#include "flotilla/inference/inference.h"
#include "flotilla/nn/policy_file.h"
#include "flotilla/nn/safetensors.h"
#include "flotilla/train/run_config.h"
#include "fuzz/instance_reader.h"
#include "fuzz/train_readers.h"
#include "support/batch.h"

namespace flotilla::fuzz {
namespace {

class SafetensorsInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const TensorFile file = decode_safetensors(input, "input");
    const TensorFile again = decode_safetensors(encode_safetensors(file), "input");
    require(again.tensors == file.tensors && again.metadata == file.metadata,
            "written and read again, the tensors differ");
    const bool floats = std::ranges::all_of(
        file.tensors, [](const StoredTensor& each) { return each.dtype == DType::kF32; });
    if (floats) file.all_tensors();
  }

  std::vector<std::string> examples() override {
    const TensorFile small{
        {store("a", std::vector<float>{1, 2}), store("n", std::vector<int64_t>{-1})}, {}, ""};
    TensorFile all = small;
    all.tensors.push_back(store("mean", std::vector<double>{0.5, -2, 1e300}));
    all.tensors.push_back(store("flags", std::vector<uint8_t>{0, 1, 255}));
    all.tensors.push_back({"scalar", DType::kF64, {}, std::vector<std::byte>(8)});
    all.tensors.push_back({"empty", DType::kI64, {3, 0, 2}, {}});
    all.tensors.push_back({"caf\xc3\xa9 \"\n", DType::kU8, {2, 2, 1}, std::vector<std::byte>(4)});
    all.metadata = {{"format", "flotilla"}, {"step", "100"}};
    return {encode_safetensors(small), encode_safetensors(all), encode_safetensors({})};
  }

  std::vector<std::string> tokens() const override {
    return {"{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "dtype",
            "shape",
            "F32",
            "F64",
            "I64",
            "U8",
            "BF16",
            "\"a\":",
            "-1",
            "0",
            "1e3",
            "18446744073709551615",
            "null",
            "true",
            "\\u0000",
            "\\ud800",
            "9223372036854775808",
            "[[[[[[",
            " ",
            "[0,8]",
            "\"x\":{}",
            "\"__metadata__\":{\"k\":\"v\"}",
            "4294967296",
            "data_offsets",
            "__metadata__"};
  }
};

// The policy files of the light runtime, which throws no Error.
class PolicyInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    for (const char* kernel : {"", "portable"}) {
      Inference policy = load(input, kernel);
      const std::vector<float> obs(policy.inputs(), 0.5F);
      size_t flags = 0;
      for (const int count : policy.choices()) flags += static_cast<size_t>(count);
      const std::vector<uint8_t> masks(flags, 1);
      for (const bool deterministic : {true, false}) {
        const Action& action =
            policy.predict(obs, {.action_masks = masks, .deterministic = deterministic});
        for (size_t d = 0; d < action.choices().size(); ++d) {
          require(action.discrete(d) >= 0 && action.discrete(d) < policy.choices()[d],
                  "an action that is no choice");
        }
      }
    }
  }

  std::vector<std::string> examples() override {
    EnvSpec env;
    env.name = "walk";
    env.obs = ObsSpace::float32({2}, -1, 1);
    env.action = ActionSpace::multi_discrete({2, 3});
    env.has_mask = true;
    const std::string choices = example(env, {"hidden=3,2", "activation=relu", "shared=true"});
    env.action = ActionSpace::box({-1, 0}, {1, 2});
    env.has_mask = false;
    return {choices, example(env, {"hidden=3", "squash=true", "normalise_obs=true"}),
            example(env, {"hidden=2", "precision=bf16"})};
  }

  std::vector<std::string> tokens() const override {
    return {"{",
            "}",
            "[",
            "]",
            "\"",
            "\\u0041",
            "-1",
            "0",
            "1",
            "4294967296",
            "F32",
            "F64",
            "actor.0.weight",
            "actor.9.weight",
            "trunk.0.weight",
            "obs_normaliser.mean",
            "Discrete(5)",
            "MultiDiscrete(",
            "Box(",
            "precision: bf16\\n",
            "activation: relu\\n",
            "\"__metadata__\":{",
            "[0,8]",
            "[2,2]",
            "18446744073709551615"};
  }

 private:
  static Inference load(const std::string& input, const char* kernel) {
    try {
      return Inference::from_bytes(input, "input", kernel);
    } catch (const std::runtime_error& error) {
      throw Error(ErrorCode::kData, error.what());
    }
  }

  static std::string example(const EnvSpec& env, const std::vector<std::string>& settings) {
    Config config(NetworkSpec::schema());
    for (const std::string& each : settings) config.apply_override(each);
    const auto policy = make_policy(NetworkSpec::from(config, "", env), {});
    return encode_policy(*policy, env, {"walk", "", 0, 0});
  }
};

// VecEnv::load() of three cartpoles, then a step of those it accepted.
class SerialInput final : public InputReader {
 public:
  SerialInput() : batch_("cartpole", {}, test::serial(3)) {
    batch_.reset(7);
    for (uint64_t t = 0; t < 12; ++t) batch_.step_randomly(7, t);
    saved_ = batch_.saved();
  }

  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const auto bytes = std::as_bytes(std::span(input));
    try {
      // Of its own size, so that a sanitizer sees a read behind the end.
      batch_.load({bytes.begin(), bytes.end()});
    } catch (const Error&) {
      require(batch_.saved() == saved_, "a buffer that was refused changed something");
      throw;
    }
    const std::vector<std::byte> now = batch_.saved();
    require(now.size() <= bytes.size() && std::equal(now.begin(), now.end(), bytes.begin()),
            "saved again, the envs differ from what was loaded");
    batch_.step_randomly(7, 12);
    batch_.load(saved_);
  }

  std::vector<std::string> examples() override {
    return {{reinterpret_cast<const char*>(saved_.data()), saved_.size()}};
  }

  std::vector<std::string> tokens() const override {
    const auto tag = [](const std::string& name, char type) {
      return std::string(1, static_cast<char>(name.size())) + name + type;
    };
    return {tag("env", 3),        tag("spec_sha256", 3), tag("num_envs", 1), tag("slot_bytes", 1),
            tag("seed", 1),       tag("slot", 4),        "cartpole",         "pendulum",
            std::string(8, '\0'), std::string(8, '\xff')};
  }

 private:
  test::Batch batch_;
  std::vector<std::byte> saved_;
};

class YamlInput final : public InputReader {
 public:
  YamlInput() : defaults_(RunConfig::schema(test::shipped().find("cartpole"))) {}

  ErrorCode refusal() const override { return ErrorCode::kUsage; }

  void read(const std::string& input) override {
    Config config = defaults_;
    config.load_yaml_text(input, "input");
    const std::string text = config.to_yaml();
    Config again = defaults_;
    again.load_yaml_text(text, "input");
    require(again.to_yaml() == text && again.sha256() == config.sha256(),
            "written and read again, the config differs");
  }

  std::vector<std::string> examples() override {
    return {defaults_.to_yaml(), "seed: 3\nnum_envs: 8\nppo.lr: 1e-3\nnet: {hidden: '64, 64'}\n"};
  }

  std::vector<std::string> tokens() const override {
    std::vector<std::string> all = {":",
                                    ": ",
                                    "- ",
                                    "? ",
                                    "\n",
                                    "\n  ",
                                    "\t",
                                    "#",
                                    "---\n",
                                    "...\n",
                                    "&a ",
                                    "*a",
                                    "<<: ",
                                    "!!",
                                    "!t ",
                                    "|\n",
                                    ">\n",
                                    "'",
                                    "\"",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ",",
                                    "%YAML 1.2\n",
                                    "~",
                                    "null",
                                    "true",
                                    ".inf",
                                    ".nan",
                                    "0x10",
                                    "1e999",
                                    "-1",
                                    "\\x",
                                    "[[[[[[[[",
                                    "{a: {a: {a: ",
                                    "\xef\xbb\xbf",
                                    "99999999999999999999"};
    for (const Key& key : defaults_.schema().keys()) {
      all.push_back(key.name);
      all.push_back("\n" + key.name + ": ");
    }
    return all;
  }

 private:
  const Config defaults_;
};

// A crash bundle, and the replay of what it accepts.
class BundleInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const CrashBundle bundle = CrashBundle::parse(input, "input");
    const ReplayResult result = replay(type_, bundle);
    require(result.failed || result.steps == bundle.actions.size(), "not all steps were made");
  }

  std::vector<std::string> examples() override {
    const Config config(type_.schema);
    const Json bundle = {{"format", "flotilla-crash-bundle"},
                         {"version", 1},
                         {"env", type_.name},
                         {"config", config.to_yaml()},
                         {"spec_sha256", type_.spec(config).sha256()},
                         {"time_limit", 0},
                         {"seed", 9},
                         {"env_index", 2},
                         {"episode", 1},
                         {"episode_start", 12},
                         {"steps_lost", 0},
                         {"cause", "threw: an example"},
                         {"actions", {{0}, {1}, {1}, {0}}}};
    return {bundle.dump(1)};
  }

  std::vector<std::string> tokens() const override {
    return {"{",
            "}",
            "[",
            "]",
            ":",
            ",",
            "\"",
            "\\",
            "-1",
            "1e308",
            "1e999",
            "-0.0",
            "null",
            "true",
            "[[[[[",
            "]]]",
            "[0],",
            "{}",
            "\\u0000",
            "\\ud83d",
            "18446744073709551616",
            "4294967296",
            "2147483648",
            "\"env\"",
            "\"config\"",
            "\"spec_sha256\"",
            "\"time_limit\"",
            "\"seed\"",
            "\"env_index\"",
            "\"episode\"",
            "\"episode_start\"",
            "\"steps_lost\"",
            "\"cause\"",
            "\"actions\"",
            "\"version\"",
            "\"format\""};
  }

 private:
  const EnvType& type_ = test::shipped().find("cartpole");
};

class CsvInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const CsvTable table = read_csv(input, "input");
    const size_t columns = table.columns().size();
    CsvWriter writer(table.columns());
    for (size_t row = 0; row < table.rows(); ++row) {
      for (size_t column = 0; column < columns; ++column) writer.add(table.text(row, column));
      writer.end_row();
    }
    const CsvTable again = read_csv(writer.text(), "input");
    bool equal = again.columns() == table.columns() && again.rows() == table.rows();
    for (size_t row = 0; equal && row < table.rows(); ++row) {
      for (size_t column = 0; equal && column < columns; ++column) {
        equal = again.text(row, column) == table.text(row, column);
      }
    }
    require(equal, "written and read again, the table differs");
    for (const double price : table.numbers("price")) check_number(price);
    for (size_t row = 0; row < table.rows(); ++row) table.integer(row, table.column("time"));
  }

  std::vector<std::string> examples() override {
    return {"time,price\n1,2.5\n2,-1e-3\n3,.5\n",
            "\xef\xbb\xbf\"time\",name,price\r\n-7,\"a, \"\"b\"\"\n\",0\r\n8,,1e300\r\n\r\n",
            "price,time\n"};
  }

  std::vector<std::string> tokens() const override {
    return {",",      "\"",       "\"\"",         "\n",
            "\r\n",   "\r",       "\",\"",        "\"\n",
            "time",   "price",    "pirce",        "1e999",
            "1e-999", "nan",      "inf",          "-",
            " ",      "+1",       "0x1",          ",,",
            "1,2\n",  "\xff\xfe", "\xef\xbb\xbf", "9223372036854775808"};
  }

 private:
  static void check_number(double number) {
    CsvWriter writer({"x"});
    writer.add(number).end_row();
    const double again = read_csv(writer.text(), "number").number(0, 0);
    require(std::bit_cast<uint64_t>(again) == std::bit_cast<uint64_t>(number),
            "written and read again, a number differs");
  }
};

class GzipInput final : public InputReader {
 public:
  ErrorCode refusal() const override { return ErrorCode::kData; }

  void read(const std::string& input) override {
    const std::string text = gunzipped(input, "input", kLimit);
    require(text.size() <= kLimit, "more was unpacked than is allowed");
    require(gunzipped(gzipped(text), "input", kLimit) == text, "packed again, the text differs");
  }

  std::vector<std::string> examples() override {
    return {gzipped(""), gzipped("a short text"), gzipped("one") + gzipped("two"),
            gzipped(std::string(kLimit, 'x')),
            gzipped("{\"seed\":1}\n{\"seed\":2}\n") + std::string(8, '\0')};
  }

  std::vector<std::string> tokens() const override {
    return {"\x1f\x8b", "\x1f\x8b\x08\x1f", std::string("\x01\x00\x00\xff\xff", 5),
            std::string(8, '\0'), "\x03"};
  }

 private:
  static constexpr size_t kLimit = 1u << 14u;
};

template <class T>
std::unique_ptr<InputReader> make() {
  return std::make_unique<T>();
}

const std::map<std::string, std::unique_ptr<InputReader> (*)(), std::less<>> kReaders = {
    {"actors", make_actors_reader}, {"bundle", make<BundleInput>},
    {"csv", make<CsvInput>},        {"events", make_events_reader},
    {"gzip", make<GzipInput>},      {"instance", make_instance_reader},
    {"policy", make<PolicyInput>},  {"safetensors", make<SafetensorsInput>},
    {"serial", make<SerialInput>},  {"state", make_state_reader},
    {"yaml", make<YamlInput>}};

}  // namespace

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

void check_message(std::string_view message) {
  constexpr size_t kLongest = 1000;
  require(!message.empty() && message.size() <= kLongest,
          "an error without a message, or too long");
  while (!message.empty()) {
    const std::optional<char32_t> point = next_code_point(message);
    require(point.has_value(), "an error whose message is not UTF-8");
    require(*point >= 0x20 && *point != 0x7F, "an error of more than one line");
  }
}

std::vector<std::string> reader_names() {
  std::vector<std::string> names;
  for (const auto& [name, unused] : kReaders) names.push_back(name);
  return names;
}

std::unique_ptr<InputReader> make_reader(std::string_view name) {
  const auto found = kReaders.find(name);
  return found == kReaders.end() ? nullptr : found->second();
}

std::string read_one(InputReader& reader, const std::string& input) {
  try {
    reader.read(input);
  } catch (const Error& error) {
    if (error.code() != reader.refusal()) {
      throw std::logic_error(
          fmt::format("an error with code {}: {}", static_cast<int>(error.code()), error.what()));
    }
    check_message(error.what());
    return error.what();
  }
  return "";
}

}  // namespace flotilla::fuzz
