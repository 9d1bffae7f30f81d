// Sums of gradients, Adam, RMSprop, and the copies of weights that the backward pass reads.
// Part of kernel_body.h.
#pragma once

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

template <class Layers>
void derive(const Plan& plan, const float* params, float* derived) {
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    for (int l = 0; l < branch.layers; ++l) {
      const bool backwards = l > 0 || plan.has_torso();
      Layers::derive(plan.layers[branch.first_layer + l], backwards, params, derived);
    }
  }
  for (int c = 0; c < plan.conv_count; ++c) {
    Layers::Convolutions::derive(plan.convs[c], c > 0, params, derived);
  }
  for (int i = 0; i < plan.token_layer_count; ++i) {
    const TokenLayer& layer = plan.token_layers[i];
    if (layer.kind == TokenLayer::Kind::kLinear) TokenLinear::derive(layer, params, derived);
  }
  for (int i = 0; i < 2; ++i) {
    const Head& head = plan.heads[i];
    if (head.out <= kSmallHead) continue;
    const long width = padded(head.out);
    for (long o = 0; o < head.out; ++o) {
      for (long k = 0; k < head.in; ++k) {
        derived[head.columns + static_cast<size_t>(k * width + o)] =
            params[head.weight + static_cast<size_t>(o * head.in + k)];
      }
    }
  }
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
