#include "flotilla/nn/onnx.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "flotilla/core/error.h"
#include "flotilla/core/protobuf.h"

namespace flotilla {
namespace {

// ---- The format: numbers of fields and values from onnx.proto.

enum ModelField : uint8_t { kIrVersion = 1, kProducer = 2, kGraph = 7, kOpset = 8, kMetadata = 14 };
enum OpsetField : uint8_t { kOpsetVersion = 2 };
enum EntryField : uint8_t { kEntryKey = 1, kEntryValue = 2 };
enum GraphField : uint8_t {
  kNode = 1,
  kGraphName = 2,
  kInitializer = 5,
  kInput = 11,
  kOutput = 12
};
enum NodeField : uint8_t {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kOperator = 4,
  kAttribute = 5
};
enum AttributeField : uint8_t { kAttributeName = 1, kInteger = 3, kIntegers = 8, kKind = 20 };
enum AttributeKind : uint8_t { kIsInteger = 2, kIsIntegers = 7 };
enum TensorField : uint8_t { kExtent = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };
enum ValueField : uint8_t { kValueName = 1, kValueType = 2 };
enum TypeField : uint8_t { kTensorType = 1 };
enum TensorTypeField : uint8_t { kElementType = 1, kShape = 2 };
enum ShapeField : uint8_t { kDimension = 1 };
enum DimensionField : uint8_t { kSize = 1, kSymbol = 2 };
enum class Type : uint8_t { kFloat = 1, kUint8 = 2, kInt64 = 7, kBool = 9, kBfloat16 = 16 };

// What every reader since 2020 knows.
constexpr uint64_t kOperators = 13, kIr = 7;

constexpr int64_t kBatch = -1;  // an extent that the caller chooses

using Integers = std::vector<int64_t>;

struct Attribute {
  std::string_view name;
  Integers values;
  bool list = false;
};
Attribute one(std::string_view name, int64_t value) { return {name, {value}}; }
Attribute list(std::string_view name, Integers values) { return {name, std::move(values), true}; }

// A graph that grows node by node. What a node makes is known by its name.
class Graph {
 public:
  std::string input(const std::string& name, Type type, const Integers& shape) {
    put_value(kInput, name, type, shape);
    return name;
  }
  void output(const std::string& name, Type type, const Integers& shape) {
    put_value(kOutput, name, type, shape);
  }

  // `name`: of what it makes; "": one of its own.
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes = {}, std::string name = "") {
    if (name.empty()) name = fmt::format("{}_{}", op, nodes_);
    ++nodes_;
    protobuf::put_message(bytes_, kNode, [&] {
      for (const std::string& each : inputs) protobuf::put_text(bytes_, kNodeInput, each);
      protobuf::put_text(bytes_, kNodeOutput, name);
      protobuf::put_text(bytes_, kNodeName, name);
      protobuf::put_text(bytes_, kOperator, op);
      for (const Attribute& each : attributes) put_attribute(each);
    });
    return name;
  }

  std::string tensor(std::string name, const Integers& shape, const std::vector<float>& values) {
    return put_tensor(std::move(name), Type::kFloat, shape, values);
  }
  std::string number(float value) { return tensor(next_constant(), {}, {value}); }
  std::string numbers(const std::vector<float>& values) {
    return tensor(next_constant(), {static_cast<int64_t>(values.size())}, values);
  }
  std::string integers(const Integers& values) {
    return put_tensor(next_constant(), Type::kInt64, {static_cast<int64_t>(values.size())}, values);
  }

  // The fields of a GraphProto.
  const std::string& bytes() const { return bytes_; }

 private:
  std::string next_constant() { return fmt::format("constant_{}", constants_++); }

  template <class T>
  std::string put_tensor(std::string name, Type type, const Integers& shape,
                         const std::vector<T>& values) {
    protobuf::put_message(bytes_, kInitializer, [&] {
      for (const int64_t extent : shape) put_count(kExtent, extent);
      protobuf::put_integer(bytes_, kDataType, static_cast<uint64_t>(type));
      protobuf::put_text(bytes_, kTensorName, name);
      protobuf::put_text(bytes_, kRawData,
                         {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
    });
    return name;
  }

  void put_attribute(const Attribute& attribute) {
    protobuf::put_message(bytes_, kAttribute, [&] {
      protobuf::put_text(bytes_, kAttributeName, attribute.name);
      for (const int64_t value : attribute.values) {
        put_count(attribute.list ? kIntegers : kInteger, value);
      }
      protobuf::put_integer(bytes_, kKind, attribute.list ? kIsIntegers : kIsInteger);
    });
  }

  void put_value(GraphField field, const std::string& name, Type type, const Integers& shape) {
    protobuf::put_message(bytes_, field, [&] {
      protobuf::put_text(bytes_, kValueName, name);
      protobuf::put_message(bytes_, kValueType, [&] {
        protobuf::put_message(bytes_, kTensorType, [&] {
          protobuf::put_integer(bytes_, kElementType, static_cast<uint64_t>(type));
          protobuf::put_message(bytes_, kShape, [&] { put_shape(shape); });
        });
      });
    });
  }

  void put_shape(const Integers& shape) {
    for (const int64_t extent : shape) {
      protobuf::put_message(bytes_, kDimension, [&] {
        if (extent == kBatch) return protobuf::put_text(bytes_, kSymbol, "batch");
        put_count(kSize, extent);
      });
    }
  }

  void put_count(uint8_t field, int64_t value) {
    protobuf::put_integer(bytes_, field, static_cast<uint64_t>(value));
  }

  std::string bytes_;
  int nodes_ = 0, constants_ = 0;
};

// ---- A policy as such a graph.

class PolicyGraph {
 public:
  explicit PolicyGraph(const PolicyContents& policy)
      : policy_(policy), spec_(policy.network), features_(add_observations()) {
    if (spec_.shared) features_ = hidden("trunk", features_);
    if (spec_.action.is_box()) {
      add_box();
    } else {
      add_choices();
    }
    add_value();
  }

  const std::string& bytes() const { return graph_.bytes(); }

 private:
  std::string add_observations() {
    if (spec_.sees_images()) return torso(add_picture());
    const std::string seen = add_numbers();
    return spec_.torso == Torso::kAttention ? attention(seen) : seen;
  }

  std::string add_numbers() {
    const std::string obs = graph_.input("obs", Type::kFloat, {kBatch, spec_.inputs});
    if (!spec_.normalise_obs) return obs;
    const std::string centred = graph_.node("Sub", {obs, graph_.numbers(policy_.obs_mean)});
    const std::string scaled = graph_.node("Mul", {centred, graph_.numbers(policy_.obs_scale)});
    return graph_.node("Clip", {scaled, graph_.number(-NetworkSpec::kObsClip),
                                graph_.number(NetworkSpec::kObsClip)});
  }

  // Channels first, bytes as 0..1.
  std::string add_picture() {
    const Integers shape = {kBatch, spec_.image.rows, spec_.image.columns, spec_.image.channels};
    const bool bytes = spec_.obs_type == ObsType::kUint8;
    std::string x = graph_.input("obs", bytes ? Type::kUint8 : Type::kFloat, shape);
    if (bytes) x = graph_.node("Div", {cast(x, Type::kFloat), graph_.number(255)});
    return graph_.node("Transpose", {x}, {list("perm", {0, 3, 1, 2})});
  }

  std::string torso(std::string x) {
    const std::vector<Convolution> all = make_torso(spec_.torso, spec_.image).convolutions;
    if (spec_.torso == Torso::kNature) {
      for (const Convolution& each : all) x = relu(convolve(each, x));
      return flat(x);
    }
    constexpr size_t kStage = 5, kBlock = 2;
    for (size_t stage = 0; stage < all.size(); stage += kStage) {
      x = graph_.node(
          "MaxPool", {convolve(all[stage], x)},
          {list("kernel_shape", {3, 3}), list("strides", {2, 2}), list("pads", {1, 1, 1, 1})});
      for (size_t block = stage + 1; block < stage + kStage; block += kBlock) {
        const std::string inner = relu(convolve(all[block], relu(x)));
        x = graph_.node("Add", {x, convolve(all[block + 1], inner)});
      }
    }
    return flat(relu(x));
  }

  // Tokens are [observations, count, width].
  std::string attention(const std::string& obs) {
    const AttentionTorso torso = make_attention(spec_.groups, spec_.fusion);
    std::vector<std::string> made(torso.tokens.size());
    int64_t first = 0;
    for (size_t g = 0; g < spec_.groups.size(); ++g) {
      const Group& group = spec_.groups[g];
      const int64_t end = first + static_cast<int64_t>(group.count) * group.features;
      const std::string own = graph_.node(
          "Slice", {obs, graph_.integers({first}), graph_.integers({end}), graph_.integers({1})});
      made[g] = reshaped(own, {0, group.count, group.features});
      first = end;
    }
    for (const TokenStep& step : torso.steps) {
      made[static_cast<size_t>(step.out)] = carry_out(torso, step, made);
    }
    return graph_.node("Squeeze", {made.back(), graph_.integers({1})});
  }
  std::string tokens(const AttentionTorso& torso, int which, const std::vector<std::string>& made) {
    const Tokens& wanted = torso.tokens[static_cast<size_t>(which)];
    if (wanted.flat_of >= 0) {
      return reshaped(made[static_cast<size_t>(wanted.flat_of)], {0, 1, wanted.width});
    }
    if (wanted.parts.empty()) return made[static_cast<size_t>(which)];
    std::vector<std::string> parts;
    for (const int part : wanted.parts) parts.push_back(made[static_cast<size_t>(part)]);
    return graph_.node("Concat", parts, {one("axis", 1)});
  }
  std::string carry_out(const AttentionTorso& torso, const TokenStep& step,
                        const std::vector<std::string>& made) {
    const std::string x = tokens(torso, step.in, made);
    std::string y;
    switch (step.kind) {
      case TokenStep::Kind::kLinear:
        y = graph_.node("Transpose", {parameter(step.name + ".weight")}, {list("perm", {1, 0})});
        y = graph_.node("Add", {graph_.node("MatMul", {x, y}), parameter(step.name + ".bias")});
        if (step.added >= 0) y = graph_.node("Add", {y, tokens(torso, step.added, made)});
        break;
      case TokenStep::Kind::kNorm:
        y = normalised(x, step.name);
        break;
      case TokenStep::Kind::kAttend:
        return attend(x, torso.tokens[static_cast<size_t>(step.out)], step.heads);
      case TokenStep::Kind::kMean:
        return graph_.node("ReduceMean", {x}, {list("axes", {1})});
    }
    return step.relu ? relu(y) : y;
  }
  std::string normalised(const std::string& x, const std::string& name) {
    const std::string centred =
        graph_.node("Sub", {x, graph_.node("ReduceMean", {x}, {list("axes", {2})})});
    const std::string variance =
        graph_.node("ReduceMean", {graph_.node("Mul", {centred, centred})}, {list("axes", {2})});
    const std::string deviation =
        graph_.node("Sqrt", {graph_.node("Add", {variance, graph_.number(kNormEpsilon)})});
    const std::string scaled =
        graph_.node("Mul", {graph_.node("Div", {centred, deviation}), parameter(name + ".weight")});
    return graph_.node("Add", {scaled, parameter(name + ".bias")});
  }
  std::string attend(const std::string& x, const Tokens& out, int heads) {
    const int64_t width = out.width / heads;
    const auto side = [&](int64_t number, const Integers& order) {
      const std::string own =
          graph_.node("Slice", {x, graph_.integers({number * out.width}),
                                graph_.integers({(number + 1) * out.width}), graph_.integers({2})});
      return graph_.node("Transpose", {reshaped(own, {0, out.count, heads, width})},
                         {list("perm", order)});
    };
    const std::string scores =
        graph_.node("Mul", {graph_.node("MatMul", {side(0, {0, 2, 1, 3}), side(1, {0, 2, 3, 1})}),
                            graph_.number(1 / std::sqrt(static_cast<float>(width)))});
    const std::string shares = graph_.node("Softmax", {scores}, {one("axis", 3)});
    const std::string mixed = graph_.node("MatMul", {shares, side(2, {0, 2, 1, 3})});
    return reshaped(graph_.node("Transpose", {mixed}, {list("perm", {0, 2, 1, 3})}),
                    {0, out.count, out.width});
  }
  // An extent of 0 is taken over.
  std::string reshaped(const std::string& x, const Integers& shape) {
    return graph_.node("Reshape", {x, graph_.integers(shape)});
  }

  std::string convolve(const Convolution& each, const std::string& x) {
    const Integers strides(2, each.stride), pads(4, each.padding);
    return graph_.node(
        "Conv",
        {factor(x), factor(parameter(each.name + ".weight")), parameter(each.name + ".bias")},
        {list("strides", strides), list("pads", pads)});
  }
  std::string relu(const std::string& x) { return graph_.node("Relu", {x}); }
  std::string flat(const std::string& x) { return graph_.node("Flatten", {x}); }
  std::string cast(const std::string& x, Type type) {
    return graph_.node("Cast", {x}, {one("to", static_cast<int64_t>(type))});
  }

  std::string parameter(const std::string& name) {
    const Tensor& tensor = find_tensor(policy_.parameters, name);
    return graph_.tensor(name, {tensor.shape.begin(), tensor.shape.end()}, tensor.data);
  }

  // A factor of convolutions and hidden layers.
  std::string factor(const std::string& x) {
    if (spec_.precision == Precision::kFp32) return x;
    return cast(cast(x, Type::kBfloat16), Type::kFloat);
  }

  std::string hidden(const std::string& net, std::string x) {
    const char* activation = spec_.activation == Activation::kRelu ? "Relu" : "Tanh";
    for (size_t k = 0; k < spec_.hidden.size(); ++k) {
      const std::string name = fmt::format("{}.{}", net, k);
      const std::string weight = factor(parameter(name + ".weight"));
      x = graph_.node(activation, {linear(factor(x), weight, parameter(name + ".bias"))});
    }
    return x;
  }
  std::string linear(const std::string& x, const std::string& weight, const std::string& bias,
                     const std::string& name = "") {
    return graph_.node("Gemm", {x, weight, bias}, {one("transB", 1)}, name);
  }

  // The output layer of actor or critic, with the hidden ones in front unless they are shared.
  std::string head(const std::string& net, const std::string& name = "") {
    const std::string x = spec_.shared ? features_ : hidden(net, features_);
    const std::string last = fmt::format("{}.{}", net, spec_.shared ? 0 : spec_.hidden.size());
    return linear(x, parameter(last + ".weight"), parameter(last + ".bias"), name);
  }

  // The mean of a box, as Policy::act() places it.
  void add_box() {
    const ActionSpace& box = spec_.action;
    const auto dims = static_cast<int64_t>(box.dims());
    std::string x = head("actor", "mean");
    const std::string low = graph_.numbers(box.low), high = graph_.numbers(box.high);
    if (spec_.squash) {
      std::vector<float> half;
      for (size_t d = 0; d < box.dims(); ++d) half.push_back(0.5F * (box.high[d] - box.low[d]));
      x = graph_.node("Add", {graph_.node("Tanh", {x}), graph_.number(1)});
      x = graph_.node("Add", {graph_.node("Mul", {x, graph_.numbers(half)}), low});
    }
    graph_.node("Max", {graph_.node("Min", {x, high}), low}, {}, "action");
    graph_.node("Exp", {parameter("log_std")}, {}, "std");
    graph_.output("action", Type::kFloat, {kBatch, dims});
    graph_.output("mean", Type::kFloat, {kBatch, dims});
    graph_.output("std", Type::kFloat, {dims});
  }

  void add_choices() {
    constexpr float kNever = -1e30F;
    const int64_t outputs = spec_.outputs();
    const bool masked = spec_.has_mask;
    const std::string logits = head("actor", masked ? "" : "logits");
    if (masked) {
      const std::string mask = graph_.input("mask", Type::kBool, {kBatch, outputs});
      graph_.node("Where", {mask, logits, graph_.number(kNever)}, {}, "logits");
    }
    const bool single = spec_.action.kind == ActionKind::kDiscrete;
    if (single) {
      graph_.node("ArgMax", {"logits"}, {one("axis", 1), one("keepdims", 0)}, "action");
    } else {
      graph_.node("Concat", likeliest_of_each(), {one("axis", 1)}, "action");
    }
    const auto dims = static_cast<int64_t>(spec_.action.dims());
    graph_.output("action", Type::kInt64, single ? Integers{kBatch} : Integers{kBatch, dims});
    graph_.output("logits", Type::kFloat, {kBatch, outputs});
  }

  // A column for every dimension.
  std::vector<std::string> likeliest_of_each() {
    std::vector<std::string> columns;
    int64_t first = 0;
    for (const int count : spec_.action.choices) {
      const std::string part =
          graph_.node("Slice", {"logits", graph_.integers({first}),
                                graph_.integers({first + count}), graph_.integers({1})});
      columns.push_back(graph_.node("ArgMax", {part}, {one("axis", 1)}));
      first += count;
    }
    return columns;
  }

  void add_value() {
    graph_.node("Squeeze", {head("critic"), graph_.integers({1})}, {}, "value");
    graph_.output("value", Type::kFloat, {kBatch});
  }

  const PolicyContents& policy_;
  const NetworkSpec& spec_;
  Graph graph_;
  std::string features_;  // what actor and critic see
};

void require_room(const PolicyContents& policy, const std::string& origin) {
  size_t bytes = 0;
  for (const Tensor& tensor : policy.parameters) bytes += tensor.elements() * sizeof(float);
  // The length of a message is a signed number of 32 bits; the nodes need some of it, too.
  constexpr size_t kMost = std::numeric_limits<int32_t>::max() - (1 << 20);
  if (bytes <= kMost) return;
  throw Error(ErrorCode::kData,
              origin + ": its parameters are more than an ONNX file holds, 2 GiB");
}

void put_entry(std::string& model, std::string_view key, std::string_view value) {
  protobuf::put_message(model, kMetadata, [&] {
    protobuf::put_text(model, kEntryKey, key);
    protobuf::put_text(model, kEntryValue, value);
  });
}

}  // namespace

std::string encode_onnx(const PolicyFile& file) {
  const PolicyContents policy = contents_of(file);
  require_room(policy, file.tensors.origin);
  const PolicyGraph graph(policy);
  std::string model;
  protobuf::put_integer(model, kIrVersion, kIr);
  protobuf::put_text(model, kProducer, "flotilla");
  protobuf::put_message(model, kGraph, [&] {
    model += graph.bytes();
    protobuf::put_text(model, kGraphName, "policy");
  });
  protobuf::put_message(model, kOpset,
                        [&] { protobuf::put_integer(model, kOpsetVersion, kOperators); });
  for (const char* key : {"env", "env_config", "action", "params_sha256"}) {
    put_entry(model, key, file.tensors.find_metadata(key));
  }
  return model;
}

}  // namespace flotilla
