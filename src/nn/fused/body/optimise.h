// Sums of gradients, Adam, RMSprop, and the copies of weights that the backward pass reads.
// Part of kernel_body.h.
#pragma once

template <int kCount>
void add_slots(const float* const* slots, size_t begin, size_t end, float* target) {
  const float* from[kCount];
  for (int s = 0; s < kCount; ++s) from[s] = slots[s];
  for (size_t i = begin; i < end; i += kLanes) {
    V sum = load(from[0] + i);
    for (int s = 1; s < kCount; ++s) sum = sum + load(from[s] + i);
    store(target + i, sum);
  }
}

void add_up(const float* const* slots, int count, size_t begin, size_t end, float* target) {
  switch (count) {
    case 1:
      return add_slots<1>(slots, begin, end, target);
    case 2:
      return add_slots<2>(slots, begin, end, target);
    case 3:
      return add_slots<3>(slots, begin, end, target);
    default:
      return add_slots<kBundle>(slots, begin, end, target);
  }
}

double reduce(const float* const* slots, int count, size_t begin, size_t end, float* target) {
  typedef double Wide __attribute__((vector_size(kLanes * 8)));
  Wide squares = {};
  for (size_t i = begin; i < end; i += kLanes) {
    V sum = load(slots[0] + i);
    for (int s = 1; s < count; ++s) sum = sum + load(slots[s] + i);
    store(target + i, sum);
    const Wide wide = __builtin_convertvector(sum, Wide);
    squares = squares + wide * wide;
  }
  double total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += squares[lane];
  return total;
}

void adam(const AdamCall& call) {
  const V beta1 = splat(call.beta1), beta2 = splat(call.beta2);
  const V rest1 = splat(call.rest1), rest2 = splat(call.rest2);
  for (size_t i = call.begin; i < call.end; i += kLanes) {
    const V g = load(call.gradient + i) * call.scale;
    const V m = fma(beta1, load(call.m + i), rest1 * g);
    const V v = fma(beta2, load(call.v + i), rest2 * (g * g));
    store(call.m + i, m);
    store(call.v + i, v);
    const V size = sqrt(v * call.v_correction) + call.epsilon;
    store(call.params + i, fma(-call.rate * m, reciprocal(size), load(call.params + i)));
  }
}

void rmsprop(const RmsPropCall& call) {
  const V decay = splat(call.decay), rest = splat(call.rest);
  for (size_t i = call.begin; i < call.end; i += kLanes) {
    const V g = load(call.gradient + i) * call.scale;
    const V v = fma(decay, load(call.v + i), rest * (g * g));
    store(call.v + i, v);
    const V size = sqrt(v) + call.epsilon;
    store(call.params + i, fma(-call.rate * g, reciprocal(size), load(call.params + i)));
  }
}

void derive(const Head& head, const float* params, float* derived) {
  if (head.out <= kSmallHead) return;
  const long width = padded(head.out);
  for (long o = 0; o < head.out; ++o) {
    for (long k = 0; k < head.in; ++k) {
      derived[head.columns + static_cast<size_t>(k * width + o)] =
          params[head.weight + static_cast<size_t>(o * head.in + k)];
    }
  }
}

// Whether nothing that learns lies below a layer.
bool is_lowest(const Plan& plan, int layer) {
  if (plan.has_torso()) return false;
  for (int b = 0; b < plan.branch_count; ++b) {
    if (plan.branches[b].first_layer == layer) return true;
  }
  return false;
}

template <class Layers>
void derive(const Plan& plan, int piece, const float* params, float* derived) {
  for (int l = 0; l < plan.layer_count; ++l) {
    const int parts = plan.layers[l].derived_parts();
    if (piece < parts) {
      return Layers::derive(plan.layers[l], piece, !is_lowest(plan, l), params, derived);
    }
    piece -= parts;
  }
  if (piece < plan.conv_count) {
    return Layers::Convolutions::derive(plan.convs[piece], piece > 0, params, derived);
  }
  piece -= plan.conv_count;
  if (piece < plan.token_layer_count) {
    const TokenLayer& layer = plan.token_layers[piece];
    if (layer.kind == TokenLayer::Kind::kLinear) TokenLinear::derive(layer, params, derived);
    return;
  }
  derive(plan.heads[piece - plan.token_layer_count], params, derived);
}

void exp_all(const float* x, float* out, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(out + i, exp(load(x + i)));
  if (i == count) return;
  alignas(64) float rest[kLanes] = {};
  for (int k = i; k < count; ++k) rest[k - i] = x[k];
  store(rest, exp(load(rest)));
  for (int k = i; k < count; ++k) out[k] = rest[k - i];
}
