#include "flotilla/nn/fused/layout.h"

#include <algorithm>

namespace flotilla::fused {

Layout::Layout(const NetworkSpec& spec)
    : spec_(spec), pad_(spec.precision == Precision::kBf16 ? kBf16Pad : kPad) {
  plan_.inputs = spec.inputs;
  plan_.input_stride = padded(spec.inputs, pad_);
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

  if (spec.shared) {
    add_branch(spec, "trunk", 0, 2);
    plan_.actor_params = plan_.params;
  } else {
    add_branch(spec, "actor", 0, 1);
    plan_.actor_params = plan_.params;
    add_branch(spec, "critic", 1, 1);
  }
  plan_.layers = layers_.data();
  plan_.heads = heads_.data();
  plan_.branches = branches_.data();
  plan_.layer_count = static_cast<int>(layers_.size());
  plan_.branch_count = static_cast<int>(branches_.size());
  place_work(spec);
}

size_t Layout::reserve(size_t floats) {
  const size_t at = plan_.params;
  plan_.params += (floats + kPad - 1) / kPad * kPad;
  return at;
}

void Layout::add_layer(const std::string& name, int in, int out) {
  const bool first = in == spec_.inputs && (layers_.empty() || name.ends_with(".0"));
  Layer layer;
  const bool bf16 = spec_.precision == Precision::kBf16;
  // The input's rows are read in blocks of four at least; hidden widths are whole vectors.
  layer.in = first && !bf16 ? padded(in, 4) : padded(in, pad_);
  layer.out = padded(out, pad_);
  const auto size = static_cast<size_t>(layer.in) * static_cast<size_t>(layer.out);
  layer.weight = reserve(size);
  layer.bias = reserve(static_cast<size_t>(layer.out));
  layer.transposed = plan_.derived;
  plan_.derived += size;
  if (bf16) {
    layer.packed = plan_.derived;
    plan_.derived += size;
  }
  places_.push_back({name + ".weight", layer.weight, size, 1, static_cast<size_t>(layer.out)});
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
  int width = spec.inputs;
  for (int l = 0; l < depth; ++l) {
    const int next = spec.hidden[static_cast<size_t>(l)];
    add_layer(name + "." + std::to_string(l), width, next);
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
  if (spec.precision == Precision::kBf16) {
    plan_.work_rounded = rows_of(widest);
    plan_.work_packed = rows_of(widest);
  }
  plan_.work_floats = at;
}

template <class Visit>
void Layout::visit(const Tensors& tensors, const Visit& each) const {
  for (const Place& place : places_) {
    const Tensor& tensor = find_tensor(tensors, place.name);
    const auto rows = static_cast<size_t>(tensor.shape[0]);
    const size_t columns = tensor.elements() / rows;
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        each(tensor, r * columns + c,
             place.offset + r * place.row_stride + c * place.column_stride);
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
