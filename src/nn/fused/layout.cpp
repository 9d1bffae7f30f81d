#include "flotilla/nn/fused/layout.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace flotilla::fused {
namespace {

// Of a network without a torso whose minibatches can be learnt from as body/dense.h does.
constexpr size_t kWideParams = size_t{1} << 16;
// A tile keeps about this many numbers of its observations for the way back: what is more only
// leaves the caches.
constexpr size_t kKeptFloats = size_t{1} << 20;
// With bf16, of observations that go through convolutions together: numbers kept of them all, so
// that they stay in a core's own cache, their count, and in each product their windows.
constexpr size_t kGroupFloats = size_t{1} << 18, kMostOfGroup = 16;
constexpr int kGroupWindows = 320;
// Added to rows of many features, which would all begin in the same few lines of a cache.
constexpr int kSkew = kPad;

size_t framed_size(const ImageShape& shape, int frame) {
  return static_cast<size_t>(shape.rows + 2 * frame) *
         static_cast<size_t>(shape.columns + 2 * frame) * static_cast<size_t>(shape.channels);
}

// Where the cells of a framed picture lie.
std::vector<int32_t> cells_of(const ImageShape& shape, int frame) {
  std::vector<int32_t> at;
  for (int row = frame; row < shape.rows + frame; ++row) {
    for (int column = frame; column < shape.columns + frame; ++column) {
      at.push_back((row * (shape.columns + 2 * frame) + column) * shape.channels);
    }
  }
  return at;
}

std::vector<int32_t> windows_of(const ConvLayer& conv) {
  std::vector<int32_t> at;
  for (int row = 0; row < conv.rows; ++row) {
    for (int column = 0; column < conv.columns; ++column) {
      at.push_back(conv.stride * (row * conv.in_row + column * conv.inputs));
    }
  }
  return at;
}

// Of so many pictures, `size` numbers from one to the next.
std::vector<int32_t> in_each(const int32_t* at, int count, size_t size, int pictures) {
  std::vector<int32_t> all;
  for (int picture = 0; picture < pictures; ++picture) {
    const auto begin = static_cast<int32_t>(size) * picture;
    for (int i = 0; i < count; ++i) all.push_back(begin + at[i]);
  }
  return all;
}

std::vector<int32_t> taps_of(const ConvLayer& conv) {
  std::vector<int32_t> at;
  for (int row = 0; row < conv.kernel; ++row) {
    for (int i = 0; i < conv.kernel * conv.inputs; ++i) at.push_back(row * conv.in_row + i);
  }
  return at;
}

size_t whole_lines(size_t floats) { return (floats + kPad - 1) / kPad * kPad; }

// A place of so many floats in work memory, of which `at` is the end.
size_t take(size_t& at, size_t floats) { return std::exchange(at, at + whole_lines(floats)); }

size_t index(int number) { return static_cast<size_t>(number); }

Role role_of(Torso torso, size_t number) {
  if (torso == Torso::kNature) return Role::kPlain;
  constexpr Role kStage[] = {Role::kPooled, Role::kInner, Role::kOuter, Role::kInner, Role::kOuter};
  return kStage[number % std::size(kStage)];
}

}  // namespace

Layout::Layout(const NetworkSpec& spec)
    : spec_(spec), pad_(spec.precision == Precision::kBf16 ? kBf16Pad : kPad) {
  plan_.inputs = spec.inputs;
  plan_.input_stride = padded(spec.features(), pad_) + (spec.torso == Torso::kNone ? 0 : kSkew);
  plan_.bytes = spec.obs_type == ObsType::kUint8;
  plan_.relu = spec.activation == Activation::kRelu;
  plan_.normalise = spec.normalise_obs;
  plan_.obs_clip = NetworkSpec::kObsClip;
  plan_.distribution = spec.action.is_box() ? Distribution::kGaussian : Distribution::kCategorical;
  plan_.outputs = spec.outputs();
  plan_.dims = static_cast<int>(spec.action.dims());
  plan_.choices = spec_.action.choices.data();
  plan_.low = spec_.action.low.data();
  plan_.high = spec_.action.high.data();
  plan_.squash = spec.squash;

  if (spec.sees_images()) add_torso(spec);
  if (spec.torso == Torso::kAttention) add_attention(make_attention(spec.groups, spec.fusion));
  plan_.torso_params = plan_.params;
  if (spec.shared) {
    add_branch(spec, "trunk", 0, 2);
    plan_.actor_params = plan_.params;
  } else {
    add_branch(spec, "actor", 0, 1);
    plan_.actor_params = plan_.params;
    add_branch(spec, "critic", 1, 1);
  }
  plan_.convs = convs_.data();
  plan_.conv_count = static_cast<int>(convs_.size());
  plan_.token_layers = token_layers_.data();
  plan_.token_layer_count = static_cast<int>(token_layers_.size());
  plan_.layers = layers_.data();
  plan_.heads = heads_.data();
  plan_.branches = branches_.data();
  plan_.layer_count = static_cast<int>(layers_.size());
  plan_.branch_count = static_cast<int>(branches_.size());
  place_work(spec);
  place_dense_rows();
}

size_t Layout::reserve(size_t floats) {
  const size_t at = plan_.params;
  plan_.params += (floats + kPad - 1) / kPad * kPad;
  return at;
}

const int32_t* Layout::keep(std::vector<int32_t> table) {
  tables_.push_back(std::move(table));
  return tables_.back().data();
}

void Layout::add_torso(const NetworkSpec& spec) {
  const TorsoSpec torso = make_torso(spec.torso, spec.image);
  ImageShape from = spec.image;
  for (size_t i = 0; i < torso.convolutions.size(); ++i) {
    const bool last = i + 1 == torso.convolutions.size();
    const Role role = role_of(spec.torso, i);
    ImageShape made = torso.convolutions[i].made;
    if (role == Role::kPooled) {
      made.rows = (made.rows + 1) / 2;
      made.columns = (made.columns + 1) / 2;
    }
    add_convolution(torso.convolutions[i], role, from, made,
                    last ? 0 : torso.convolutions[i + 1].padding);
    // A stage hands on its sums as they are.
    convs_.back().relu =
        last || role != Role::kOuter || role_of(spec.torso, i + 1) != Role::kPooled;
    from = made;
  }
}

// `from`, `made`: the picture it reads, in a frame of its padding, and the one that is read next.
void Layout::add_convolution(const Convolution& convolution, Role role, const ImageShape& from,
                             const ImageShape& made, int made_frame) {
  const int frame = convolution.padding;
  ConvLayer conv;
  conv.role = role;
  conv.inputs = convolution.inputs;
  conv.outputs = convolution.outputs;
  conv.kernel = convolution.kernel;
  conv.stride = convolution.stride;
  conv.rows = convolution.made.rows;
  conv.columns = convolution.made.columns;
  conv.out_rows = made.rows;
  conv.out_columns = made.columns;
  conv.in_cells = from.rows * from.columns;
  conv.in_row = (from.columns + 2 * frame) * from.channels;
  conv.in_size = whole_lines(framed_size(from, frame));
  conv.out_size = whole_lines(framed_size(made, made_frame));
  conv.window_at = keep(windows_of(conv));
  conv.tap_at = keep(taps_of(conv));
  conv.in_at = keep(cells_of(from, frame));
  conv.out_at = keep(cells_of(made, made_frame));
  conv.sum_at = role == Role::kPooled ? keep(cells_of(convolution.made, 0)) : conv.out_at;

  const size_t size = static_cast<size_t>(conv.taps()) * static_cast<size_t>(conv.outputs);
  conv.weight = reserve(size);
  conv.bias = reserve(static_cast<size_t>(conv.outputs));
  const auto derive = [this](size_t floats) {
    const size_t at = plan_.derived;
    plan_.derived += floats;
    return at;
  };
  const bool bf16 = spec_.precision == Precision::kBf16;
  const size_t packed =
      bf16 ? static_cast<size_t>(conv.deep()) * static_cast<size_t>(conv.wide()) : size;
  conv.packed = derive(packed);
  if (bf16) conv.staged = derive(packed);
  if (!convs_.empty()) conv.transposed = derive(packed);
  places_.push_back({convolution.name + ".weight", conv.weight, size, 1,
                     static_cast<size_t>(conv.outputs), static_cast<size_t>(conv.inputs)});
  places_.push_back(
      {convolution.name + ".bias", conv.bias, static_cast<size_t>(conv.outputs), 1, 0});
  convs_.push_back(conv);
}

void Layout::add_attention(const AttentionTorso& torso) {
  for (const TokenStep& step : torso.steps) {
    TokenLayer layer;
    layer.kind = static_cast<TokenLayer::Kind>(step.kind);
    layer.relu = step.relu;
    layer.heads = step.heads;
    layer.is_first = step.in < static_cast<int>(spec_.groups.size());
    layer.has_added = step.added >= 0;
    const auto in = index(torso.tokens[index(step.in)].width);
    const auto out = index(torso.tokens[index(step.out)].width);
    if (step.kind == TokenStep::Kind::kLinear) {
      layer.weight = reserve(in * out);
      layer.packed = std::exchange(plan_.derived, plan_.derived + in * out);
      if (!layer.is_first) {
        layer.transposed = std::exchange(plan_.derived, plan_.derived + in * out);
      }
      places_.push_back({step.name + ".weight", layer.weight, in * out, 1, out});
    } else if (step.kind == TokenStep::Kind::kNorm) {
      layer.weight = reserve(out);
      places_.push_back({step.name + ".weight", layer.weight, out, 1, 0});
    }
    if (!step.name.empty()) {
      layer.bias = reserve(out);
      places_.push_back({step.name + ".bias", layer.bias, out, 1, 0});
    }
    token_layers_.push_back(layer);
  }
}

void Layout::add_layer(const std::string& name, int in, int out, bool first) {
  Layer layer;
  const bool bf16 = spec_.precision == Precision::kBf16;
  // The input's rows are read in blocks of four at least; hidden widths are whole vectors.
  layer.in = first && !bf16 ? padded(in, 4) : padded(in, pad_);
  layer.out = padded(out, pad_);
  if (bf16) layer.piece_rows = kBf16PieceRows;
  const auto size = static_cast<size_t>(layer.in) * static_cast<size_t>(layer.out);
  layer.weight = reserve(size);
  layer.bias = reserve(static_cast<size_t>(layer.out));
  layer.packed = plan_.derived;
  plan_.derived += size;
  if (!first || spec_.torso != Torso::kNone) {
    layer.transposed = plan_.derived;
    plan_.derived += size;
  }
  const size_t channels = first && !convs_.empty() ? static_cast<size_t>(convs_.back().outputs) : 1;
  places_.push_back(
      {name + ".weight", layer.weight, size, 1, static_cast<size_t>(layer.out), channels});
  places_.push_back({name + ".bias", layer.bias, static_cast<size_t>(layer.out), 1, 0});
  layers_.push_back(layer);
}

void Layout::add_head(const std::string& name, int in, int out) {
  Head head;
  head.in = padded(in, pad_);
  head.out = out;
  const auto width = static_cast<size_t>(head.in);
  const size_t size = width * static_cast<size_t>(out);
  head.weight = reserve(size);
  head.bias = reserve(static_cast<size_t>(out));
  head.first_output = heads_.empty() ? 0 : spec_.outputs();
  if (out > kSmallHead) {
    head.columns = plan_.derived;
    plan_.derived += width * static_cast<size_t>(padded(out));
  }
  places_.push_back({name + ".weight", head.weight, size, width, 1});
  places_.push_back({name + ".bias", head.bias, static_cast<size_t>(out), 1, 0});
  heads_.push_back(head);
}

void Layout::add_branch(const NetworkSpec& spec, const std::string& name, int first_head,
                        int heads) {
  const auto depth = static_cast<int>(spec.hidden.size());
  branches_.push_back({static_cast<int>(layers_.size()), depth, first_head, heads});
  int width = spec.features();
  for (int l = 0; l < depth; ++l) {
    const int next = spec.hidden[static_cast<size_t>(l)];
    add_layer(name + "." + std::to_string(l), width, next, l == 0);
    width = next;
  }
  for (int h = first_head; h < first_head + heads; ++h) {
    const std::string owner = h == 0 ? "actor" : "critic";
    const std::string place = spec.shared ? "0" : std::to_string(depth);
    add_head(owner + "." + place, width, h == 0 ? spec.outputs() : 1);
    if (h == 0 && spec.action.is_box()) {
      const size_t dims = spec.action.dims();
      plan_.log_std = reserve(dims);
      places_.push_back({"log_std", plan_.log_std, dims, 1, 0});
    }
  }
}

void Layout::place_work(const NetworkSpec& spec) {
  size_t at = 0;
  const auto rows_of = [&at](int width) {
    const size_t place = at;
    at += static_cast<size_t>(kTile) * static_cast<size_t>(padded(width));
    return place;
  };
  int widest = plan_.input_stride;
  for (const int width : spec.hidden) widest = std::max(widest, padded(width, pad_));
  plan_.work_x = rows_of(plan_.input_stride);
  for (Layer& layer : layers_) layer.work = rows_of(layer.out);
  plan_.work_d0 = rows_of(widest);
  plan_.work_d1 = rows_of(widest);
  plan_.work_rows = rows_of(spec.outputs());
  plan_.work_out = rows_of(spec.outputs() + 1);
  plan_.work_dout = rows_of(spec.outputs() + 1);
  plan_.work_mask = rows_of(spec.outputs());
  plan_.work_latent = rows_of(plan_.dims);
  plan_.work_softmax = rows_of(kSoftmaxKept * plan_.dims);
  if (spec.precision == Precision::kBf16) {
    plan_.work_rounded = rows_of(widest);
    plan_.work_packed = rows_of(widest);
  }
  if (!convs_.empty()) place_torso_work(at);
  if (!token_layers_.empty()) place_token_work(make_attention(spec.groups, spec.fusion), at);
  plan_.work_floats = at;
}

void Layout::place_dense_rows() {
  const bool bf16 = spec_.precision == Precision::kBf16;
  const bool pays = plan_.has_torso() || (plan_.params >= kWideParams && !bf16);
  plan_.collects = pays && !spec_.action.is_box();
  plan_.dense_unit = plan_.collects && bf16 ? kBf16Pad : 1;
  size_t at = index(plan_.input_stride);
  for (const Branch& branch : branches_) {
    size_t in = 0;
    for (int l = branch.first_layer; l < branch.first_layer + branch.layers; ++l) {
      Layer& layer = layers_[index(l)];
      layer.dense_in = in;
      layer.dense_d = take(at, index(layer.out));
      if (bf16) layer.dense_right = take(at, index(layer.out));
      in = take(at, index(layer.out));
    }
    for (int h = branch.first_head; h < branch.first_head + branch.heads; ++h) {
      heads_[index(h)].dense_in = in;
    }
  }
  plan_.dense_outputs = padded(plan_.outputs + 1);
  plan_.dense_dout = take(at, index(plan_.dense_outputs));
  plan_.dense_floats = at;
}

void Layout::place_torso_work(size_t& at) {
  const auto place = [&at](size_t floats) { return take(at, floats); };
  size_t kept = 0, sums = 0, cells = 0, read = 0;
  for (const ConvLayer& conv : convs_) {
    kept += conv.out_size + (conv.role == Role::kPooled ? conv.out_numbers() : 0);
  }
  const bool bf16 = spec_.precision == Precision::kBf16;
  const size_t rows = std::clamp<size_t>(kKeptFloats / kept / kPad * kPad, kPad, kTile);
  const size_t group = bf16 ? std::clamp<size_t>(kGroupFloats / kept, 1, kMostOfGroup) : 1;
  plan_.tile = static_cast<int>(rows);
  plan_.group = static_cast<int>(group);
  convs_.back().last = true;
  convs_.back().out_size = index(plan_.input_stride);
  for (ConvLayer& conv : convs_) {
    group_windows(conv);
    const auto together = index(conv.group);
    const bool first = &conv == &convs_.front();
    conv.in = first ? place(together * conv.in_size) : (&conv)[-1].out;
    if (!conv.last) conv.out = place(rows * conv.out_size);
    if (conv.role == Role::kPooled) conv.largest = place(rows * conv.out_numbers());
    sums = std::max(sums, together * conv.sums());
    cells = std::max(cells, group * conv.out_numbers());
    if (!first) read = std::max(read, together * conv.in_size);
  }
  plan_.work_obs = place(kTile * sizeof(const std::byte*) / sizeof(float));
  plan_.work_dx = place(rows * static_cast<size_t>(plan_.input_stride));
  plan_.work_sum = place(cells);
  plan_.work_unpooled = place(sums);
  plan_.work_dsum = place(cells);
  plan_.work_dother = place(cells);
  plan_.work_din = place(read);
  if (bf16) place_factors(at);
}

void Layout::place_factors(size_t& at) {
  size_t windows = 0, factors = 0, turned = 0;
  for (ConvLayer& conv : convs_) {
    const auto deep = index(conv.deep()), wide = index(conv.wide());
    conv.gradient = take(at, index(conv.outputs) * deep);
    windows = std::max(windows, kBf16Pad * deep);
    factors = std::max(factors, index(conv.padded_windows()) * deep);
    turned = std::max(turned, index(conv.padded_windows()) * wide);
  }
  plan_.work_windows = take(at, windows + kPad);  // the last vector goes over the end
  plan_.work_packed_windows = take(at, factors);
  plan_.work_turned = take(at, turned);
}

// Those of as many observations as fill a product.
void Layout::group_windows(ConvLayer& conv) {
  conv.group = std::clamp(kGroupWindows / conv.windows(), 1, plan_.group);
  const bool pooled = conv.role == Role::kPooled;
  const auto in_group = [&](const int32_t* at, size_t size) {
    return keep(in_each(at, conv.windows(), size, conv.group));
  };
  conv.window_at = in_group(conv.window_at, conv.in_size);
  conv.sum_at = in_group(conv.sum_at, pooled ? conv.sums() : conv.out_size);
}

// Tokens that are others in another shape, or a part of them, lie where those do.
std::vector<TokenPlace> Layout::place_tokens(const AttentionTorso& torso, size_t& at) {
  const size_t count = torso.tokens.size(), groups = spec_.groups.size();
  std::vector<bool> is_part(count), is_flat(count);
  for (const Tokens& tokens : torso.tokens) {
    for (const int part : tokens.parts) is_part[index(part)] = true;
    if (tokens.flat_of >= 0) is_flat[index(tokens.flat_of)] = true;
  }
  std::vector<TokenPlace> places(count);
  for (size_t i = 0; i < count; ++i) {
    const Tokens& tokens = torso.tokens[i];
    TokenPlace& own = places[i];
    own.count = tokens.count;
    own.width = tokens.width;
    const bool is_tight = i < groups || is_flat[i] || tokens.flat_of >= 0;
    own.stride = tokens.width + (is_tight ? 0 : kSkew);
    if (tokens.flat_of >= 0) {
      own.at = places[index(tokens.flat_of)].at;
      own.gradient = places[index(tokens.flat_of)].gradient;
    } else if (!is_part[i] && i + 1 < count) {  // the last are the features
      const size_t floats = index(kTile * tokens.count) * static_cast<size_t>(own.stride);
      own.at = take(at, floats);
      if (i >= groups) own.gradient = take(at, floats);
    }
    for (size_t p = 0; p < tokens.parts.size(); ++p) {
      TokenPlace& part = places[index(tokens.parts[p])];
      part.at = own.at + p * static_cast<size_t>(own.stride);
      part.gradient = own.gradient + p * static_cast<size_t>(own.stride);
      part.stride = tokens.count * own.stride;
    }
  }
  return places;
}

void Layout::place_token_work(const AttentionTorso& torso, size_t& at) {
  plan_.work_image = take(at, index(spec_.inputs));
  plan_.work_dx = take(at, index(kTile * plan_.input_stride));
  const std::vector<TokenPlace> places = place_tokens(torso, at);
  groups_.assign(places.begin(), places.begin() + static_cast<long>(spec_.groups.size()));
  plan_.groups = groups_.data();
  plan_.group_count = static_cast<int>(groups_.size());
  size_t most = 0;
  for (const TokenPlace& each : places) most = std::max(most, index(each.count * each.width));
  plan_.work_packed = take(at, kTile * most);

  std::vector<char> has_gradient(places.size());
  for (size_t i = torso.steps.size(); i-- > 0;) {  // the way back
    const TokenStep& step = torso.steps[i];
    TokenLayer& layer = token_layers_[i];
    layer.in = places[index(step.in)];
    layer.out = places[index(step.out)];
    if (layer.has_added) {
      layer.added = places[index(step.added)];
      layer.adds_to_added = std::exchange(has_gradient[index(step.added)], 1) != 0;
    }
    layer.adds_to_in = std::exchange(has_gradient[index(step.in)], 1) != 0;
    const int tokens = kTile * layer.out.count;
    if (step.kind == TokenStep::Kind::kNorm) layer.kept = take(at, index(2 * tokens));
    if (step.kind == TokenStep::Kind::kAttend) {
      layer.kept = take(at, index(tokens * step.heads * padded(layer.out.count)));
    }
  }
}

template <class Visit>
void Layout::visit(const Tensors& tensors, const Visit& each) const {
  for (const Place& place : places_) {
    const Tensor& tensor = find_tensor(tensors, place.name);
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    const size_t columns = tensor.elements() / rows, cells = columns / place.channels;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        const size_t column = c % cells * place.channels + c / cells;
        each(tensor, r * columns + c,
             place.offset + r * place.row_stride + column * place.column_stride);
      }
    }
  }
}

void Layout::pack(const Tensors& tensors, float* params) const {
  std::fill_n(params, plan_.params, 0.0f);
  visit(tensors,
        [&](const Tensor& tensor, size_t from, size_t to) { params[to] = tensor.data[from]; });
}

void Layout::unpack(const float* params, Tensors& tensors) const {
  visit(tensors, [&](const Tensor& tensor, size_t to, size_t from) {
    const_cast<Tensor&>(tensor).data[to] = params[from];
  });
}

std::string Layout::name_at(size_t at) const {
  for (const Place& place : places_) {
    if (at >= place.offset && at < place.offset + place.size) return place.name;
  }
  return "padding";
}

}  // namespace flotilla::fused
