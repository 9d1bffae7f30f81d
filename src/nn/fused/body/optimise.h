// Sums of gradients, Adam, and the copies of weights that the backward pass reads.
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

// to[columns][rows] = from[rows][columns]; both are multiples of 4. Four rows at a time: enough to
// fill vectors, few enough to stay in registers.
void transpose(const float* from, long rows, long columns, float* to) {
  typedef float V4 __attribute__((vector_size(16)));
  const auto get = [](const float* p) {
    V4 v;
    __builtin_memcpy(&v, p, sizeof(v));
    return v;
  };
  for (long r = 0; r < rows; r += 4) {
    for (long c = 0; c < columns; c += 4) {
      const float* p = from + r * columns + c;
      const V4 a = get(p), b = get(p + columns), d = get(p + 2 * columns), e = get(p + 3 * columns);
      const V4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const V4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const V4 de0 = __builtin_shufflevector(d, e, 0, 4, 1, 5);
      const V4 de1 = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      const V4 out[4] = {__builtin_shufflevector(ab0, de0, 0, 1, 4, 5),
                         __builtin_shufflevector(ab0, de0, 2, 3, 6, 7),
                         __builtin_shufflevector(ab1, de1, 0, 1, 4, 5),
                         __builtin_shufflevector(ab1, de1, 2, 3, 6, 7)};
      for (int i = 0; i < 4; ++i) __builtin_memcpy(to + (c + i) * rows + r, &out[i], sizeof(V4));
    }
  }
}

void derive(const Plan& plan, const float* params, float* derived) {
  for (int b = 0; b < plan.branch_count; ++b) {
    const Branch& branch = plan.branches[b];
    for (int l = 1; l < branch.layers; ++l) {
      const Layer& layer = plan.layers[branch.first_layer + l];
      transpose(params + layer.weight, layer.in, layer.out, derived + layer.transposed);
    }
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
