// Hidden layers: their products with the rows of a tile, forwards and backwards, and what those
// read of the weights. Everything above them is a template of the precision they work in.
// Part of kernel_body.h.
#pragma once

template <bool kRelu>
FLOTILLA_INLINE V activate(V x) {
  if constexpr (kRelu) return max(x, V{});
  return tanh(x);
}

// Of the activation, from its result.
template <bool kRelu>
FLOTILLA_INLINE V slope(V h) {
  if constexpr (kRelu) return h > V{} ? splat(1) : V{};
  return fma(-h, h, splat(1));
}

// Where sums of products go, in matrices of so many columns.
template <bool kRelu>
FLOTILLA_INLINE auto into_activations(float* h, long width) {
  return [=](long row, long column, V sum)
             FLOTILLA_INLINE_LAMBDA { store(h + row * width + column, activate<kRelu>(sum)); };
}
template <bool kRelu>
FLOTILLA_INLINE auto into_slopes(const float* h, float* d, long width) {
  return [=](long row, long column, V sum) FLOTILLA_INLINE_LAMBDA {
    const long at = row * width + column;
    store(d + at, sum * slope<kRelu>(load(h + at)));
  };
}
FLOTILLA_INLINE auto into(float* target, long width) {
  return [=](long row, long column, V sum)
             FLOTILLA_INLINE_LAMBDA { store(target + row * width + column, sum); };
}
FLOTILLA_INLINE auto from(const float* target, long width) {
  return [=](long row, long column)
             FLOTILLA_INLINE_LAMBDA { return load(target + row * width + column); };
}

// target[rows][columns] += left * right
void add_product(int rows, int columns, int depth, Left left, Right right, float* target) {
  product(rows, columns, depth, left, right, from(target, columns), into(target, columns));
}

void add_column_sums(const float* d, int rows, int columns, float* target) {
  for (int column = 0; column < columns; column += kLanes) {
    V sum = load(target + column);
    for (int r = 0; r < rows; ++r) sum = sum + load(d + r * columns + column);
    store(target + column, sum);
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

// Factors of 24 significant bits.
struct Fp32Layers {
  static FLOTILLA_INLINE void begin() {}
  static FLOTILLA_INLINE void end() {}

  // h = activate(x * W + bias)
  template <bool kRelu>
  static void forward(const Network& net, const Layer& layer, const float* x, long x_row, int rows,
                      float* work) {
    product(rows, layer.out, layer.in, {x, x_row, 1}, {net.params + layer.weight, layer.out},
            FromBias{net.params + layer.bias},
            into_activations<kRelu>(work + layer.work, layer.out));
  }

  // d_below = (d * W^T) * slope(h_below)
  template <bool kRelu>
  static void backward(const Network& net, const Layer& layer, const float* d, int rows,
                       const float* h_below, float* d_below, float*) {
    product(rows, layer.in, layer.out, {d, layer.out, 1},
            {net.derived + layer.transposed, layer.in}, FromZero(),
            into_slopes<kRelu>(h_below, d_below, layer.in));
  }

  // gradient += x^T * d
  static void add_gradient(const Network&, const Layer& layer, const float* x, long x_row,
                           const float* d, int rows, float* gradient, float*) {
    add_product(layer.in, layer.out, rows, {x, 1, x_row}, {d, layer.out}, gradient);
  }

  static void derive(const Layer& layer, bool first, const float* params, float* derived) {
    if (first) return;
    transpose(params + layer.weight, layer.in, layer.out, derived + layer.transposed);
  }
};

// Factors that are rounded to bfloat16, in the products of nn/simd that are given; sums, biases and
// all that comes of them have 24 bits.
template <class Products>
struct Bf16Layers {
  typedef typename Products::In In;
  static_assert(kTile % kBf16Pad == 0 && kBf16Pad % Products::kInputUnit == 0 &&
                kBf16Pad % Products::kOutputUnit == 0 && kLanes % Products::kRowsAtOnce == 0);

  static FLOTILLA_INLINE void begin() { Products::begin(); }
  static FLOTILLA_INLINE void end() { Products::end(); }

  template <bool kRelu>
  static void forward(const Network& net, const Layer& layer, const float* x, long x_row, int rows,
                      float* work) {
    const In* in = rounded(x, x_row, rows, layer.in, work + net.plan->work_rounded);
    Products::multiply(in, layer.in, rows, {layer.in, layer.out, net.derived + layer.packed},
                       FromBias{net.params + layer.bias},
                       into_activations<kRelu>(work + layer.work, layer.out));
  }

  template <bool kRelu>
  static void backward(const Network& net, const Layer& layer, const float* d, int rows,
                       const float* h_below, float* d_below, float* work) {
    const In* in = rounded(d, layer.out, rows, layer.out, work + net.plan->work_rounded);
    Products::multiply(in, layer.out, rows, {layer.out, layer.in, net.derived + layer.transposed},
                       FromZero(), into_slopes<kRelu>(h_below, d_below, layer.in));
  }

  static void add_gradient(const Network& net, const Layer& layer, const float* x, long x_row,
                           const float* d, int rows, float* gradient, float* work) {
    const int depth = padded(rows, Products::kInputUnit);
    const In* in = turned(x, x_row, rows, layer.in, depth, work + net.plan->work_rounded);
    float* right = work + net.plan->work_packed;
    Products::pack_rows(d, rows, depth, layer.out, right);
    Products::multiply(in, depth, layer.in, {depth, layer.out, right}, from(gradient, layer.out),
                       into(gradient, layer.out));
  }

  static void derive(const Layer& layer, bool first, const float* params, float* derived) {
    const float* weight = params + layer.weight;
    Products::pack_rows(weight, layer.in, layer.in, layer.out, derived + layer.packed);
    if (!first) Products::pack(weight, layer.in, layer.out, derived + layer.transposed);
  }

 private:
  // to[rows][width]
  static const In* rounded(const float* x, long x_row, int rows, int width, float* to) {
    In* in = (In*)to;
    for (int row = 0; row < rows; ++row) {
      for (int c = 0; c < width; c += kLanes) {
        Products::put(in + row * width + c, load(x + row * x_row + c));
      }
    }
    return in;
  }

  // to[width][depth]: rows become columns, with zeros behind them.
  static const In* turned(const float* x, long x_row, int rows, int width, int depth, float* to) {
    In* in = (In*)to;
    for (int first = 0; first < depth; first += kLanes) {
      for (int c = 0; c < width; c += kLanes) {
        V t[kLanes];
        for (int r = 0; r < kLanes; ++r) {
          t[r] = first < rows ? load(x + (first + r) * x_row + c) : V{};
        }
        transpose(t);
        for (int i = 0; i < kLanes; ++i) Products::put(in + (c + i) * depth + first, t[i]);
      }
    }
    return in;
  }
};
